"""Every client frame with every header that means something, missing, doubled, empty, escaped, too long.

In every version; whole, byte by byte, and as one of many in a segment. The state machine of a connection runs
on a real broker; only the password is nobody's business here.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio

from plugins.stomp.codec import VERSIONS, Version, encode, escape
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from tests.support.site import BrokerSite
from tests.support.stomp_wire import Wire

LINE_BYTES_MAX = 300
SETTINGS = StompSettings(header_line_bytes_max=LINE_BYTES_MAX)

OK = "RECEIPT"
FRAME, HEADER, TOPIC = Refusal.BAD_FRAME, Refusal.BAD_HEADER, Refusal.BAD_TOPIC
NOT_FOUND, LARGE = Refusal.NOT_FOUND, Refusal.TOO_LARGE
NEVER = (OK, HEADER, HEADER, HEADER)

# A value that is right; then what comes of the frame if the header is missing, empty, full of what has to be
# escaped, and as long as may be.
LOGGING_IN = {
    "accept-version": ("VERSION", OK, Refusal.NOT_AVAILABLE, Refusal.NOT_AVAILABLE, Refusal.NOT_AVAILABLE),
    "host": ("/", OK, OK, OK, OK),
    "login": ("ada", OK, OK, OK, OK),
    "passcode": ("secret", OK, OK, OK, OK),
    "heart-beat": ("0,0", *NEVER),
    "client-id": ("desk", OK, OK, OK, OK),
}
SETTLING = {
    "id": ("ACK", FRAME, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    "message-id": ("ID", FRAME, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    "subscription": ("0", OK, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    "transaction": ("t", OK, NOT_FOUND, NOT_FOUND, NOT_FOUND),
    "receipt": ("r", OK, OK, OK, OK),
}
FRAMES = {
    "CONNECT": LOGGING_IN,
    "STOMP": LOGGING_IN,
    "SEND": {
        "destination": ("/queue/a", FRAME, TOPIC, TOPIC, TOPIC),
        "content-length": ("0", OK, FRAME, FRAME, FRAME),
        "content-type": ("text/plain", *NEVER),
        "content-encoding": ("gzip", *NEVER),
        "transaction": ("t", OK, NOT_FOUND, NOT_FOUND, NOT_FOUND),
        "receipt": ("r", OK, OK, OK, OK),
        "priority": ("4", *NEVER),
        "expires": ("9999999999999", *NEVER),
        "expiration": ("60000", *NEVER),
        "timeout": ("60", *NEVER),
        "depth": ("1", *NEVER),
        "smqp-receipt": ("ALL", *NEVER),
        "guarantee": ("YES", *NEVER),
        "persistent": ("true", *NEVER),
        "name": ("Storm", OK, OK, HEADER, HEADER),
        "delivery": ("ONE", *NEVER),
        "sequence": ("1", *NEVER),
        "reply": ("YES", *NEVER),
        "reply-to": ("/temp-queue/a", OK, OK, OK, OK),
        "created": ("2026-11-21T10:00:00Z", *NEVER),
        "cmuid": ("c-1", OK, HEADER, HEADER, HEADER),
        "mime-version": ("1.0", *NEVER),
        "x-mine": ("mine", OK, OK, OK, OK),
    },
    "SUBSCRIBE": {
        "id": ("new", FRAME, HEADER, HEADER, HEADER),  # the name of a durable one is a little stricter
        "destination": ("/topic/b", FRAME, TOPIC, TOPIC, TOPIC),
        "ack": ("client", *NEVER),
        "receipt": ("r", OK, OK, OK, OK),
        "visibility": ("30", *NEVER),
        "prefetch-count": ("5", *NEVER),
        "activemq.prefetchSize": ("5", *NEVER),
        "ordered": ("true", *NEVER),
        "durable": ("true", *NEVER),
        "persistent": ("true", *NEVER),
        "shared": ("true", *NEVER),
        "browser": ("false", *NEVER),
        "no-local": ("false", *NEVER),
        "activemq.noLocal": ("false", *NEVER),
        "activemq.exclusive": ("false", *NEVER),
    },
    "UNSUBSCRIBE": {
        "id": ("0", FRAME, Refusal.NOT_SUBSCRIBED, Refusal.NOT_SUBSCRIBED, Refusal.NOT_SUBSCRIBED),
        "receipt": ("r", OK, OK, OK, OK),
    },
    "ACK": SETTLING,
    "NACK": {**SETTLING, "requeue": ("true", *NEVER)},
    "BEGIN": {"transaction": ("new", FRAME, OK, OK, OK), "receipt": ("r", OK, OK, OK, OK)},
    "COMMIT": {
        "transaction": ("t", FRAME, NOT_FOUND, NOT_FOUND, NOT_FOUND),
        "receipt": ("r", OK, OK, OK, OK),
    },
    "ABORT": {
        "transaction": ("t", FRAME, NOT_FOUND, NOT_FOUND, NOT_FOUND),
        "receipt": ("r", OK, OK, OK, OK),
    },
    "DISCONNECT": {"receipt": ("r", OK, OK, OK, OK)},
}
FAULTS = ("none", "missing", "empty", "escaped", "long", "doubled", "too long")
TO_ESCAPE = {"1.0": "a:b\\c d", "1.1": "a:b\\\nc d", "1.2": "a:b\\\r\nc d"}

AFTER = encode("BEGIN", {"transaction": "after", "receipt": "after"})


def whole(frame: Any) -> Any:
    return [frame]


def byte_by_byte(frame: Any) -> Any:
    return [frame[at : at + 1] for at in range(len(frame))]


def many_in_one_segment(frame: Any) -> Any:
    return [b"\n" + frame + AFTER]


def expected(version: Version, command: str, header: str, fault: str) -> str:
    """What comes of it: OK, or the code of the ERROR."""
    if fault == "too long":
        return LARGE
    if fault in ("none", "doubled"):
        return OK
    outcome = FRAMES[command][header][FAULTS.index(fault)]
    if command in ("ACK", "NACK") and header in ("id", "message-id", "subscription"):
        means_something = header == "id" if version == "1.2" else header != "id"
        return outcome if means_something else OK
    if (version, fault) == ("1.0", "escaped") and (command, header) in (
        ("SEND", "name"),
        ("SUBSCRIBE", "id"),
    ):
        return OK  # where nothing is escaped there is no line end in it
    return outcome


def value(version: Version, header: str, fault: str, right: str) -> str:
    if fault == "empty":
        return ""
    if fault == "escaped":
        return TO_ESCAPE[version]
    if fault == "long":
        return "x" * (LINE_BYTES_MAX - len(header) - 1)
    if fault == "too long":
        return "x" * (LINE_BYTES_MAX - len(header))
    return right


def written(
    version: Version, command: str, header: str, fault: str, headers: dict[str, str]
) -> tuple[bytes, dict[str, str]]:
    headers = dict(headers)
    if fault == "missing":
        del headers[header]
        return encode(command, headers, version=version), headers
    headers[header] = value(version, header, fault, headers[header])
    frame = encode(command, headers, version=version)
    if fault == "doubled":
        line = f"{header}:{escape(headers[header], version)}\n".encode()
        assert line in frame
        frame = frame.replace(line, line + f"{header}:something else\n".encode())
    return frame, headers


async def check(
    site: BrokerSite, version: Version, command: str, header: str, fault: str, cut: Callable[..., Any]
) -> None:
    outcome = expected(version, command, header, fault)
    with Wire(site, version, SETTINGS) as wire:
        headers = {name: right for name, (right, *_) in FRAMES[command].items()}
        if command in ("CONNECT", "STOMP"):
            headers["accept-version"] = version
        else:
            await wire.begin(command in ("ACK", "NACK"))
            if wire.held is not None:
                headers |= {"id": wire.held.get("ack", ""), "message-id": wire.held["message-id"]}
            if command == "SUBSCRIBE":
                headers["destination"] += f"-{next(wire.numbers)}"
        frame, headers = written(version, command, header, fault, headers)
        wire.give(*cut(frame))
        receipt = headers.get("receipt")
        if outcome != OK:
            error = await wire.frame()
            assert (error.command, error.headers.get("message")) == ("ERROR", outcome), error
            assert error.headers.get("receipt-id") == receipt
            assert int(error.headers["content-length"]) == len(error.body) > 0
            assert wire.ends
            return
        if command in ("CONNECT", "STOMP"):
            agreed = "1.0" if (header, fault) == ("accept-version", "missing") else version
            assert (await wire.frame()).headers["version"] == agreed
        if cut is not many_in_one_segment:
            wire.give(AFTER)
        # Receipts need not come in the order of their frames, and nothing comes after that of DISCONNECT.
        receipts = {receipt, "after"} - {None} if command != "DISCONNECT" else {receipt} - {None}
        found = [await wire.frame() for _ in receipts]
        assert {(frame.command, frame.headers.get("receipt-id")) for frame in found} == {
            (OK, receipt) for receipt in receipts
        }, found
        assert await wire.closes() == (command == "DISCONNECT")


@pytest.mark.parametrize("cut", [whole, byte_by_byte, many_in_one_segment])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("command", FRAMES)
async def test_a_frame_with_a_header_at_fault(
    site: BrokerSite, version: Version, command: str, cut: Callable[..., Any]
) -> None:
    for header, fault in itertools.product(FRAMES[command], FAULTS):
        try:
            await check(site, version, command, header, fault, cut)
        except (AssertionError, trio.TooSlowError) as error:
            error.add_note(f"{command} with {header}: {fault}")
            raise
