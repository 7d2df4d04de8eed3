"""SMQP's headers as STOMP clients write and read them, and everybody else's headers unchanged.

STOMP's names are case-sensitive: the names below have a meaning, any other spelling is the user's own, and so
are the short names of SMQP (Pri, Seq, Guar), which applications have for themselves. What SMQP cannot carry
under its name (a name that SMQP uses for itself, or that is no ASCII word) or in one line (a value with a
line end) is carried as `Stomp-Header: name:value`, both percent-encoded, and comes out at the other side as
it went in.

    priority                integer; 0 is the same as none
    expires                 Unix time in ms at which the message ends; 0 for never (ActiveMQ's)
    expiration              ms that the message lives (RabbitMQ's)
    AMQ_SCHEDULED_DELAY, x-delay, _AMQ_SCHED_DELIVERY    see `read_delay`
    timeout                 seconds, or INFINITE
    persistent, guarantee   true/false, YES/NO; see `_guarantee`
    smqp-receipt            NONE, ONE, ALL: SMQP's Receipt, the name being taken by STOMP's own
    JMSXGroupID, JMSXGroupSeq    Group; below 0 Group-End (ActiveMQ's)
    name, created, reply, depth, sequence, delivery, cmuid, mime-version    as in SMQP
    content-type, content-* the body's; smuid, hops and account are the server's and are passed over

A SEND with a smuid is a MESSAGE that is sent on, headers and all: its cmuid and smqp-receipt are those of who
published that. Taken for the forwarder's own, they would make it a repetition of itself, and ask for receipts
that nobody reads.
"""

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote

from plugins.stomp.codec import Version, escape, escape_name
from plugins.stomp.destinations import REPLY_PREFIX, Destination
from routing.errors import HeaderRefusal
from routing.headers import is_header_name, is_reserved, parse_headers, write_seconds
from routing.message import DEPTH_UNLIMITED, INFINITE, Message, Section
from routing.names import is_system_topic
from routing.numbers import SECONDS_DIGITS_MAX, SECONDS_MAX, SMALL_MAX, read_integer
from routing.sections import write_section_head

DELAY_MS_MAX: Final = 366 * 86_400_000
MILLISECONDS_DIGITS_MAX: Final = SECONDS_DIGITS_MAX + 3
TIME_DIGITS_MAX: Final = 16
"""Of milliseconds since 1970: the end of the year 9999 has one less, that of the longest timeout two."""

EXPIRES_IN_S_MAX: Final = SECONDS_MAX - 1
"""What states a later time than this has the longest timeout there is."""

CARRIER: Final = "Stomp-Header"
_READABLE: Final = " !\"#$&'()*+,-./;<=>?@[\\]^_`{|}~"
DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"

_SMQP_NAMES: Final = {
    "priority": "Priority",
    "created": "Created",
    "smqp-receipt": "Receipt",
    "reply": "Reply",
    "timeout": "Timeout",
    "depth": "Depth",
    "sequence": "Sequence",
    "delivery": "Delivery",
    "guarantee": "Guarantee",
    "name": "Name",
    "cmuid": "Cmuid",
    "mime-version": "MIME-Version",
}
_DELAYS: Final = ("AMQ_SCHEDULED_DELAY", "x-delay", "_AMQ_SCHED_DELIVERY")
_OF_THE_FRAME: Final = frozenset(
    # What belongs to one SEND or one MESSAGE and not to the message itself. The last ones, of which some are
    # only for a server to write, come from a client that sends a received message on, headers and all.
    {"destination", "content-length", "content-type", "receipt", "transaction", "persistent", "expires"}
    | {"expiration", "message-id", "subscription", "ack", "redelivered", "delivery-count"}
    | {"smuid", "hops", "account", "oci-message-id", "expire-after", "visible-after"}
    | set(_DELAYS)
)
BY_THE_CLOCK: Final = frozenset({"expires", "_AMQ_SCHED_DELIVERY"})
"""Headers of SEND that state a time of the clock."""
_REFUSED: Final = {
    # Passed over they would mislead: who asks for a schedule relies on it.
    **dict.fromkeys(
        ("AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON"),
        "supported: the message would come once",
    ),
}
_ARGUMENTS: Final = (
    *("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-priority"),
    *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-delivery-limit"),
    *("x-stream-offset", "x-stream-filter"),
)
"""What RabbitMQ makes of a queue or a consumer, by SUBSCRIBE or SEND: whoever asks for it relies on it."""
# most frames have none of these: looked for without a step of the interpreter for each
_ANY_DELAY: Final = frozenset(_DELAYS)
_ANY_ARGUMENT: Final = frozenset((*_ARGUMENTS, "x-single-active-consumer"))
_OF_A_FORWARDED_FRAME: Final = _OF_THE_FRAME | {"cmuid", "smqp-receipt"}
_WRITTEN_FIRST: Final = frozenset({"destination", "content-length", "message-id", "subscription", "ack"})

_breaks_a_line = re.compile("[\x00-\x08\x0a-\x1f\x7f]").search

_Headers = list[tuple[str, str]]


def read_message(
    headers: dict[str, str],
    body: bytes,
    destination: Destination,
    *,
    depth: int,
    guarantee: bool,
    in_transaction: bool,
    reply_address: str | None,
    wall_ms: Callable[[], int],
    delay_s: float = 0.0,
) -> Message:
    """The message that a SEND describes.

    Args:
        depth, guarantee: of a message that states none.
        delay_s: see `read_delay`. Its timeout, which counts from now, is given as it is after that.
        reply_address: the system topic behind `reply-to`, where that names a temporary destination.
        wall_ms: Unix time; asked only where `expires` needs it.

    Raises HeaderRefusal: nothing was sent.
    """
    refuse_arguments(headers)
    passed_over = _OF_A_FORWARDED_FRAME if "smuid" in headers else _OF_THE_FRAME
    is_bare = passed_over.issuperset(headers)
    stated, others, of_content = ([], [], []) if is_bare else _sort(headers, passed_over, reply_address)
    fields: dict[str, Any] = parse_headers(stated) if stated else {}
    fields.setdefault("guarantee", _guarantee(headers, guarantee or in_transaction or delay_s > 0))
    if "expires" in headers or "expiration" in headers:
        _read_expiry(headers, fields, wall_ms)
    if delay_s:
        _count_delay(headers, fields, delay_s)
    if destination.kind in ("topic", "queue"):
        fields["delivery"] = "ALL" if destination.kind == "topic" else "ONE"
    fields.setdefault("depth", DEPTH_UNLIMITED if destination.kind == "reply" else depth)
    if reply_address is not None:
        fields["reply"] = True
    section = Section(headers.get("content-type", DEFAULT_CONTENT_TYPE), body, tuple(of_content))
    write_section_head(section)  # refuses what other protocols could not carry
    return Message(others=tuple(others), sections=(section,), **fields)


def _sort(
    headers: dict[str, str], passed_over: frozenset[str], reply_address: str | None
) -> tuple[_Headers, _Headers, _Headers]:
    """What a SEND says by headers of SMQP, by others, and of its content. Raises HeaderRefusal."""
    stated: _Headers = []
    others: _Headers = []
    of_content: _Headers = []
    for name, value in headers.items():
        if name in passed_over:
            continue
        if name in _REFUSED:
            raise HeaderRefusal(name, value, _REFUSED[name])
        if name == "JMSXGroupID":
            if value:
                stated.append(("Group", value))
        elif name == "JMSXGroupSeq":
            if _read_place_in_group(value) < 0:
                stated.append(("Group-End", "YES"))
            others.append((name, value))
        elif name in _SMQP_NAMES:
            if not (name == "priority" and value == "0"):
                stated.append((_SMQP_NAMES[name], value))
        elif name == "reply-to" and reply_address is not None:
            others.append((name, reply_address))
        elif name == "reply-to" and value.startswith(REPLY_PREFIX):
            others.append((name, value.removeprefix(REPLY_PREFIX)))
        elif _is_of_content(name):
            of_content.append((name, value))
        else:
            others.append(_carried(name, value) if _needs_carrier(name, value) else (name, value))
    for name, value in stated:
        if not value.isprintable() and _breaks_a_line(value):
            raise HeaderRefusal(name, value, "one line without control characters")
    return stated, others, of_content


def read_delay(headers: dict[str, str], wall_ms: Callable[[], int]) -> float:
    """Seconds before which nobody is to get the message of a SEND; 0 for none. Raises HeaderRefusal.

    `AMQ_SCHEDULED_DELAY` (ActiveMQ) and `x-delay` (RabbitMQ) say it in ms, `_AMQ_SCHED_DELIVERY` (Artemis)
    as a Unix time in ms. The longest counts; `DELAY_MS_MAX` is the longest there is.
    """
    if _ANY_DELAY.isdisjoint(headers):
        return 0.0
    longest_ms = 0
    for name in _DELAYS:
        if name in headers:
            since_ms = wall_ms() if name == "_AMQ_SCHED_DELIVERY" else 0
            delay_ms = _milliseconds(name, headers[name]) - since_ms
            if delay_ms > DELAY_MS_MAX:
                until = f", so a time until {DELAY_MS_MAX + since_ms}" if since_ms else ""
                raise HeaderRefusal(
                    name, headers[name], f"a delay of at most {DELAY_MS_MAX} ms, 366 days{until}"
                )
            longest_ms = max(longest_ms, delay_ms)
    return longest_ms / 1000


def _count_delay(headers: dict[str, str], fields: dict[str, Any], delay_s: float) -> None:
    if fields.get("receipt", "NONE") != "NONE":
        raise HeaderRefusal(
            "smqp-receipt", headers["smqp-receipt"], "supported for a message that is delayed"
        )
    timeout_s = fields.get("timeout_s")
    if timeout_s is not None:
        if timeout_s <= delay_s:
            name = next(name for name in ("timeout", "expiration", "expires") if name in headers)
            raise HeaderRefusal(name, headers[name], f"more than the delay, {delay_s} s: nobody would get it")
        fields["timeout_s"] = timeout_s - delay_s


def refuse_arguments(headers: dict[str, str]) -> None:
    """Refuse what a frame asks of a queue in RabbitMQ's way. Raises HeaderRefusal."""
    if _ANY_ARGUMENT.isdisjoint(headers):
        return
    name = "x-single-active-consumer"
    if name in headers:
        raise HeaderRefusal(name, headers[name], "supported: messages of one JMSXGroupID have one consumer")
    for name in _ARGUMENTS:
        if name in headers:
            raise HeaderRefusal(name, headers[name], "supported: topics have settings of their own")


def _needs_carrier(name: str, value: str) -> bool:
    return (
        not is_header_name(name)
        or is_reserved(name)
        or name.lower() == "stomp-header"
        or (not value.isprintable() and _breaks_a_line(value) is not None)
    )


def _guarantee(headers: dict[str, str], guarantee: bool) -> bool:
    """Whether a SEND without `guarantee` is guaranteed.

    `persistent` decides; without it a receipt or a transaction does, since both promise something; a bare
    SEND is not, as with other STOMP servers, unless the site says otherwise.
    """
    persistent = headers.get("persistent")
    if persistent is None:
        return guarantee or "receipt" in headers
    lowered = persistent.lower()
    if lowered not in ("true", "false"):
        raise HeaderRefusal("persistent", persistent, "true or false")
    return lowered == "true"


def _read_expiry(headers: dict[str, str], fields: dict[str, Any], wall_ms: Callable[[], int]) -> None:
    """`timeout` comes before `expiration`, and that before `expires`; whatever is there has to be right."""
    if "expiration" in headers:
        fields.setdefault("timeout_s", _milliseconds("expiration", headers["expiration"]) / 1000)
    if "expires" in headers:
        expires = _milliseconds("expires", headers["expires"])
        if expires:
            left_s = max(0, expires - wall_ms()) / 1000
            fields.setdefault("timeout_s", min(left_s, EXPIRES_IN_S_MAX))


def _read_place_in_group(value: str) -> int:
    place = read_integer(value, -SMALL_MAX - 1, SMALL_MAX)
    if place is None:
        raise HeaderRefusal("JMSXGroupSeq", value, "an integer; below 0 for the last one of its group")
    return place


def _milliseconds(name: str, value: str) -> int:
    digits_max = TIME_DIGITS_MAX if name in BY_THE_CLOCK else MILLISECONDS_DIGITS_MAX
    if not (value.isascii() and value.isdigit() and len(value) <= digits_max):
        raise HeaderRefusal(name, value, f"a number of milliseconds of at most {digits_max} digits")
    return int(value)


def _carried(name: str, value: str) -> tuple[str, str]:
    return CARRIER, f"{quote(name, _READABLE)}:{quote(value, _READABLE)}"


def write_message(message: Message, version: Version) -> list[str]:
    """The header lines of MESSAGE that are the same for every subscriber, without content-length.

    A timeout is not among them, unless it is INFINITE: what is left of it differs with each delivery.
    """
    colon = ":" if version == "1.0" else "\\c"
    out = [f"smuid:{message.smuid.replace(':', colon)}", f"account:{message.account.replace(':', colon)}"]
    if message.created:
        out.append(f"created:{message.created.replace(':', colon)}")
    if message.hops:
        out.append(f"hops:{','.join(message.hops).replace(':', colon)}")
    out.append("persistent:true" if message.guarantee else "guarantee:NO")
    if message.priority:
        out.append(f"priority:{message.priority}")
    if message.delivery is not None:
        out.append("delivery:" + message.delivery)
    if message.name is not None:
        charset = f'; charset="{message.charset}"' if message.charset is not None else ""
        out.append(f"name:{escape(message.name + charset, version)}")
    if message.depth:
        out.append(f"depth:{message.depth}")
    if message.timeout_s == INFINITE:
        out.append("timeout:INFINITE")
    if message.receipt != "NONE":
        out.append("smqp-receipt:" + message.receipt)
    if message.sequence is not None:
        out.append(f"sequence:{message.sequence}")
    if message.cmuid:
        out.append(f"cmuid:{escape(message.cmuid, version)}")
    if message.group is not None:
        out.append(f"JMSXGroupID:{escape(message.group, version)}")
        if message.ends_group and not any(name == "JMSXGroupSeq" for name, _ in message.others):
            out.append("JMSXGroupSeq:-1")
    if message.mime_version is not None:
        out.append("mime-version:" + message.mime_version)
    if message.reply:
        out.append("reply:YES")
        if not any(name == "reply-to" for name, _ in message.others):
            out.append(f"reply-to:{escape(REPLY_PREFIX + message.account, version)}")
    for name, value in message.others:
        if name == CARRIER:
            name, value = _uncarried(value)
            if _is_never_carried(name):
                continue
        elif name == "reply-to" and is_system_topic(value):
            value = REPLY_PREFIX + value
        if name not in _WRITTEN_FIRST:
            out.append(f"{escape_name(name, version)}:{escape(value, version)}")
    return out


def _uncarried(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not (name and colon):
        return CARRIER, line  # somebody else wrote it: pass it on as what it looks like
    return unquote(name), unquote(value)


def _is_never_carried(name: str) -> bool:
    """Whether no SEND can have had it carried: it would pass for what servers write, or is of the body."""
    return name in _OF_THE_FRAME or name in _SMQP_NAMES or name == "JMSXGroupID" or _is_of_content(name)


def _is_of_content(name: str) -> bool:
    return name.startswith("content-") and name == name.lower() and is_header_name(name)


def write_timeout(seconds: float) -> str:
    """The seconds that are left, as in the header `timeout`."""
    return write_seconds(round(seconds, 3))
