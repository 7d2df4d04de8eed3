"""Units to bytes, and bytes to units.

    HELLO smqp-link/1.0            WELCOME               GOODBYE draining
    Server: alpha.example:720
    Site: 5f0c...
    Boot: 17
    Features: custody, flood
    Window: 4096 16777216

    TRANSFER 17 weather.oslo       CONTROL 18 interest   ACK accepted 17-18,20
    Attempt: 2                     Sections: 1           Received: 1795082400000000
    Depth: 3                                             Sent: 1795082400004000
    Hops: alpha.example:720        Content-Type: ...
    Timeout: 12.5                  Content-Length: 40    PROBE 3 1795082400000000
    For: beta.example,gamma.example
    Delivery: ONE
    Sections: 1                    <payload>             PROBED 3 1795082400000000
                                                         Received: 1795082400001000
    Content-Type: message/smqp                           Sent: 1795082400001000
    Content-Length: 1100

    <the message>

Attributes that have their default are left out: Attempt 1, Depth 0, Delivery ALL, Guarantee YES. Numbers
are decimal. PROBED says the moment of the answer twice, since there are readers of 1.0 that miss either. The
reader takes unknown attributes and commands, and refuses, naming the unit's number where it can, whatever it
cannot read; only where the end of a frame is unknown is the framing lost.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from routing.errors import FramingLost, Refusal
from routing.frames import Frame, FrameLimits, FrameReader, encode_frame
from routing.headers import read_depth, read_seconds, write_seconds
from routing.link.remembered import Remembered
from routing.link.units import (
    OUTCOMES,
    Acknowledge,
    Control,
    Goodbye,
    Hello,
    Probe,
    ProbeReply,
    Transfer,
    TransferOutcome,
    Unit,
    Unknown,
    Welcome,
)
from routing.names import FEATURE_PATTERN, FEATURES_MAX, check_topic, is_server_name
from routing.numbers import NUMBER_MAX, SMALL_MAX, TIME_US_MAX, read_integer

PROTOCOL: Final = "smqp-link"
VERSION: Final = (1, 0)
MESSAGE_TYPE: Final = "message/smqp"
PAYLOAD_TYPE: Final = "application/octet-stream"

RANGES_MAX: Final = 4_000  # in one ACK: they fit into 64 KiB of header lines
HOPS_MAX: Final = 1_000
HOPS_CHARACTERS_MAX: Final = 40_000
DESTINATIONS_MAX: Final = 256
DESTINATIONS_CHARACTERS_MAX: Final = 24_000  # beside as many of Hops, in 64 KiB of header lines
REASON_CHARACTERS_MAX: Final = 400

_is_word = re.compile(FEATURE_PATTERN).fullmatch
_is_text = re.compile(rf"[^\x00-\x08\x0a-\x1f\x7f]{{0,{REASON_CHARACTERS_MAX}}}").fullmatch
_version = re.compile(r"smqp-link/([0-9]{1,4})\.([0-9]{1,4})").fullmatch
_OUTCOME: Final[dict[str, TransferOutcome]] = {one: one for one in OUTCOMES}


class UnitRefusal(Refusal):
    """A unit that could be cut out but not be read; the link lives on.

    Attributes:
        number: of the TRANSFER or CONTROL that is to be answered `denied`; 0 where there is none.
    """

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(Refusal.BAD_FRAME, text)
        self.number = number


def encode_transfer(transfer: Transfer, left_s: float | None) -> bytes:
    """A TRANSFER; `left_s` is its time left by now, so that the unit itself stays as it was."""
    lines = [f"TRANSFER {transfer.number} {transfer.topic}"]
    if transfer.attempt != 1:
        lines.append(f"Attempt: {transfer.attempt}")
    if transfer.depth:
        lines.append(f"Depth: {transfer.depth}")
    if transfer.hops:
        lines.append(f"Hops: {','.join(transfer.hops)}")
    if left_s is not None:
        lines.append(f"Timeout: {write_seconds(left_s)}")
    if transfer.mode != "ALL":
        lines.append(f"Delivery: {transfer.mode}")
    if not transfer.guarantee:
        lines.append("Guarantee: NO")
    if transfer.destinations:
        lines.append(f"For: {','.join(transfer.destinations)}")
    if transfer.flags:
        lines.append(f"Flags: {', '.join(transfer.flags)}")
    lines.append(
        f"Sections: 1\r\n\r\nContent-Type: {MESSAGE_TYPE}\r\nContent-Length: {len(transfer.wire)}\r\n\r\n"
    )
    return "\r\n".join(lines).encode() + transfer.wire


def encode_control(control: Control) -> bytes:
    """A CONTROL."""
    head = (
        f"CONTROL {control.number} {control.kind}\r\nSections: 1\r\n\r\n"
        f"Content-Type: {PAYLOAD_TYPE}\r\nContent-Length: {len(control.payload)}\r\n\r\n"
    )
    return head.encode() + control.payload


def encode(unit: Hello | Welcome | Goodbye | Acknowledge | Probe | ProbeReply) -> bytes:
    """Any other unit."""
    return encode_frame(_frame(unit))


def _frame(unit: Hello | Welcome | Goodbye | Acknowledge | Probe | ProbeReply) -> Frame:
    match unit:
        case Hello():
            headers = [("Server", unit.server), ("Boot", str(unit.boot))]
            if unit.site:
                headers.append(("Site", unit.site))
            if unit.features:
                headers.append(("Features", ", ".join(unit.features)))
            headers.append(("Window", f"{unit.window_units} {unit.window_bytes}"))
            return Frame("HELLO", f"{PROTOCOL}/{unit.version[0]}.{unit.version[1]}", headers)
        case Welcome():
            return Frame("WELCOME")
        case Goodbye():
            return Frame("GOODBYE", unit.reason)
        case Acknowledge():
            stamps = [("Received", str(unit.received_us)), ("Sent", str(unit.sent_us))]
            if unit.reason:
                stamps.append(("Reason", unit.reason[:REASON_CHARACTERS_MAX]))
            return Frame("ACK", f"{unit.outcome} {_write_ranges(unit.ranges)}", stamps)
        case Probe():
            return Frame("PROBE", f"{unit.number} {unit.sent_us}")
        case ProbeReply():
            stamps = [("Received", str(unit.answered_us)), ("Sent", str(unit.answered_us))]
            return Frame("PROBED", f"{unit.number} {unit.sent_us}", stamps)


class UnitReader:
    """Cuts the bytes of one lane into units, however they are split."""

    def __init__(self, message_bytes_max: int) -> None:
        """`message_bytes_max` bounds a message with its headers, and the payload of a control."""
        self._reader = FrameReader(_limits(message_bytes_max))

    def bound(self, message_bytes_max: int) -> None:
        """Keep to another bound from now on, also in what has not been looked at of a unit that has begun."""
        if message_bytes_max != self._reader.limits.message_bytes_max:
            self._reader.limits = _limits(message_bytes_max)

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        self._reader.feed(data)

    def take(self) -> Unit | None:
        """The next unit; None while it is not complete.

        Raises UnitRefusal for a unit that cannot be read: the next call takes the next one. Raises
        FramingLost where the reader can go on no more.
        """
        try:
            frame = self._reader.take()
        except FramingLost:
            raise
        except Refusal as refusal:
            raise UnitRefusal(refusal.text, _number_of(self._reader.refused)) from None
        if frame is None:
            return None
        return read_unit(frame)

    @property
    def buffered(self) -> int:
        """Bytes of a unit whose end has not come."""
        return self._reader.buffered


def _limits(message_bytes_max: int) -> FrameLimits:
    return FrameLimits(
        header_bytes_max=65_536, headers_max=64, message_bytes_max=message_bytes_max, sections_max=1
    )


def read_unit(frame: Frame) -> Unit:
    """The unit of a frame. Raises UnitRefusal."""
    try:
        match frame.command:
            case "TRANSFER":
                return _read_transfer(frame)
            case "CONTROL":
                return _read_control(frame)
            case "ACK":
                return _read_acknowledge(frame)
            case "PROBE":
                number, sent = _two(frame.arguments)
                return Probe(_integer(number), _integer(sent))
            case "PROBED":
                number, sent = _two(frame.arguments)
                return ProbeReply(_integer(number), _integer(sent), _integer(dict(frame.headers)["Sent"]))
            case "HELLO":
                return _read_hello(frame)
            case "WELCOME":
                return Welcome()
            case "GOODBYE":
                return Goodbye(_word(frame.arguments))
            case _:
                return Unknown(frame.command[:64])
    except KeyError as missing:
        raise UnitRefusal(f"{frame.command}: {missing.args[0]} is missing", _number_of(frame)) from None
    except (ValueError, Refusal) as problem:
        raise UnitRefusal(f"{frame.command}: {problem}", _number_of(frame)) from None


def _read_hello(frame: Frame) -> Hello:
    version = _version(frame.arguments)
    if version is None:
        raise ValueError(f"{frame.arguments[:40]!r} is not {PROTOCOL}/major.minor")
    major, minor = int(version[1]), int(version[2])
    given = dict(frame.headers)
    server = given["Server"]
    if not is_server_name(server):
        raise ValueError(f"Server: {server[:80]!r} is not a server name")
    if major != VERSION[0]:  # it may mean other things by the rest; it is enough to know who refuses whom
        return Hello(version=(major, minor), server=server, boot=0)
    hello = Hello(
        version=(major, minor),
        server=server,
        boot=_integer(given["Boot"]),
        site=_text(given.get("Site", "")),
        features=_words(given.get("Features", "")),
    )
    if "Window" in given:
        units, size = (max(_integer(one), 1) for one in _two(given["Window"]))
        hello = msgspec.structs.replace(hello, window_units=units, window_bytes=size)
    return hello


def _read_transfer(frame: Frame) -> Transfer:
    number, topic = _two(frame.arguments)
    if len(frame.sections) != 1 or frame.sections[0].content_type != MESSAGE_TYPE:
        raise ValueError(f"has no section of type {MESSAGE_TYPE}")
    transfer = Transfer(topic=check_topic(topic), wire=frame.sections[0].body, number=_integer(number))
    for name, value in frame.headers:
        match name:
            case "Depth":
                transfer.depth = read_depth(value)
            case "Hops":
                transfer.hops = _hops(value)
            case "For":
                transfer.destinations = _destinations(value)
            case "Timeout":
                transfer.timeout_left_s = read_seconds(value)
            case "Delivery":
                transfer.mode = "ONE" if value == "ONE" else "ALL"
            case "Guarantee":
                transfer.guarantee = value != "NO"
            case "Attempt":
                transfer.attempt = max(_integer(value, SMALL_MAX), 1)
            case "Flags":
                transfer.flags = _words(value)
    if transfer.guarantee != (transfer.number > 0):
        raise ValueError("a guaranteed copy has a number, and no other has")
    return transfer


def _read_control(frame: Frame) -> Control:
    number, kind = _two(frame.arguments)
    payload = frame.sections[0].body if frame.sections else b""
    control = Control(kind=_word(kind), payload=payload, number=_integer(number))
    if control.number == 0:
        raise ValueError("has no number")
    return control


def _read_acknowledge(frame: Frame) -> Acknowledge:
    outcome, ranges = _two(frame.arguments)
    given = dict(frame.headers)
    if outcome not in _OUTCOME:
        raise ValueError(f"{outcome[:40]!r} is none of {', '.join(OUTCOMES)}")
    return Acknowledge(
        outcome=_OUTCOME[outcome],
        ranges=_read_ranges(ranges),
        received_us=_integer(given["Received"], TIME_US_MAX),
        sent_us=_integer(given["Sent"], TIME_US_MAX),
        reason=_text(given.get("Reason", "")),
    )


def _write_ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _read_ranges(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > RANGES_MAX:
        raise ValueError(f"more than {RANGES_MAX} ranges")
    ranges: list[tuple[int, int]] = []
    for part in parts:
        first, dash, last = part.partition("-")
        pair = (_integer(first), _integer(last if dash else first))
        if pair[0] > pair[1] or (ranges and pair[0] <= ranges[-1][1]):
            raise ValueError(f"the ranges do not rise at {part[:40]!r}")
        ranges.append(pair)
    return tuple(ranges)


@Remembered
def _hops(text: str) -> tuple[str, ...]:
    hops = tuple(text.split(","))
    if len(hops) > HOPS_MAX:
        raise ValueError(f"more than {HOPS_MAX} hops")
    for hop in hops:
        if not is_server_name(hop):
            raise ValueError(f"Hops: {hop[:80]!r} is not a server name")
    return hops


@Remembered
def _destinations(text: str) -> tuple[str, ...]:
    sites = tuple(text.split(","))
    if not are_destinations(sites) or len(set(sites)) != len(sites):
        raise ValueError(f"For: more than {DESTINATIONS_MAX} servers, too long names, or one twice")
    for site in sites:
        if not is_server_name(site):
            raise ValueError(f"For: {site[:80]!r} is not a server name")
    return sites


def are_hops(hops: Sequence[str]) -> bool:
    """Whether a copy can say that it came through so many sites."""
    return len(hops) <= HOPS_MAX and sum(map(len, hops)) + len(hops) <= HOPS_CHARACTERS_MAX + 1


def are_destinations(sites: Collection[str]) -> bool:
    """Whether one transfer can name so many, with names so long."""
    return len(sites) <= DESTINATIONS_MAX and (
        sum(map(len, sites)) + len(sites) <= DESTINATIONS_CHARACTERS_MAX + 1
    )


def in_parts(sites: Sequence[str]) -> list[tuple[str, ...]]:
    """What so many transfers can name as it takes for these, in order."""
    if are_destinations(sites):
        return [tuple(sites)]
    parts, part, characters = [], list[str](), 0
    for site in sites:
        characters += len(site) + 1
        if len(part) == DESTINATIONS_MAX or characters > DESTINATIONS_CHARACTERS_MAX + 1:
            parts.append(tuple(part))
            part, characters = [], len(site) + 1
        part.append(site)
    return [*parts, tuple(part)]


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
    if len(words) > FEATURES_MAX:
        raise ValueError(f"more than {FEATURES_MAX} words")
    return tuple(_word(word) for word in words)


def _word(text: str) -> str:
    if _is_word(text) is None:
        raise ValueError(f"{text[:64]!r} is not a word (1 to 64 of A-Z, a-z, 0-9, '.', '_', '-')")
    return text


def _text(text: str) -> str:
    if _is_text(text) is None:
        raise ValueError(f"the text has more than {REASON_CHARACTERS_MAX} characters, or control characters")
    return text


def _two(text: str) -> tuple[str, str]:
    first, space, second = text.partition(" ")
    if not space:
        raise ValueError(f"{text[:80]!r} is one argument, not two")
    return first, second


def _integer(text: str, greatest: int = NUMBER_MAX) -> int:
    number = read_integer(text, greatest=greatest)
    if number is None:
        raise ValueError(f"{text[:40]!r} is not a number from 0 to {greatest}")
    return number


def _number_of(frame: Frame) -> int:
    """The number that an answer can name; 0 where the frame is of a kind that has none."""
    if frame.command not in ("TRANSFER", "CONTROL"):
        return 0
    return read_integer(frame.arguments.partition(" ")[0]) or 0
