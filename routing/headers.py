"""The headers of a message: one table of all that SMQP knows, and the functions that read and write them.

A header is a (name, value) pair of text. Names are case-insensitive. A value is what follows the colon and
at most one space; headers that SMQP does not know are carried exactly as they came, in their order, so
that what a publisher invents reaches its subscribers. A header that SMQP knows may come once, under any of
its names; it is written under the first, and left out where it has its default.

`Sections` counts the content sections that follow the headers and belongs to the framing; `Content-*`
belongs to a section (see `routing.frames`). Neither can be a header of a message.

Source: SMQP draft, message headers; routing contract 2. Readings of ours are marked "ours".
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from routing.errors import HeaderRefusal
from routing.message import INFINITE, Message
from routing.names import check_cmuid, is_server_name, parse_address, parse_smuid
from routing.numbers import NUMBER_MAX, SECONDS_DIGITS_MAX, SECONDS_MAX, SMALL_MAX, read_integer

Headers = list[tuple[str, str]]

NAME_CHARACTERS_MAX: Final = 128
HEADER_NAME_CHARACTERS_MAX: Final = 128
GROUP_CHARACTERS_MAX: Final = 255

_is_header_name = re.compile(rf"[\x21-\x39\x3b-\x7e]{{1,{HEADER_NAME_CHARACTERS_MAX}}}").fullmatch
_name_parameter = re.compile(r'(.*?); ?charset=("?)([A-Za-z0-9._:+-]{1,40})\2', re.IGNORECASE).fullmatch
_is_seconds = re.compile(rf"[0-9]{{1,{SECONDS_DIGITS_MAX}}}(?:\.[0-9]{{1,9}})?").fullmatch
_is_version = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}").fullmatch
_date_time = re.compile(r"([0-9-]{10}T[0-9:]{8})(?:\.[0-9]{1,9})?(?:Z|\+00:00| ?GMT)").fullmatch
_unwritable = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]").search

BOOLEANS: Final = {"YES": True, "NO": False}


class HeaderRule(msgspec.Struct, frozen=True):
    """One line of the table.

    Attributes:
        names: the name that is written, then its aliases.
        field: of `routing.message.Message`.
        expected: the grammar, in words; what a refusal says.
        absent: what holds where the header does not come, in words.
        read: a value as text to the field's value; raises HeaderRefusal.
    """

    names: tuple[str, ...]
    field: str
    expected: str
    absent: str
    read: Callable[[str], Any]


def _integer(header: str, least: int, greatest: int, expected: str) -> Callable[[str], int]:
    def read(value: str) -> int:
        number = read_integer(value.strip(), least, greatest)
        if number is None:
            raise HeaderRefusal(header, value, expected)
        return number

    return read


def _word(header: str, words: dict[str, Any], expected: str) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        word = words.get(value)
        if word is None:
            word = words.get(value.strip().upper())
            if word is None:
                raise HeaderRefusal(header, value, expected)
        return word

    return read


def _read_name(value: str) -> tuple[str, str | None]:
    match = _name_parameter(value) if ";" in value else None
    name, charset = (match[1], match[3]) if match else (value, None)
    if len(name) > NAME_CHARACTERS_MAX:
        raise HeaderRefusal("Name", value, _NAME_EXPECTED)
    return name, charset


def _read_created(value: str) -> str:
    text = value.strip()
    match = _date_time(text)
    if match is None or not _is_second(match[1]):
        raise HeaderRefusal("Created", value, _CREATED_EXPECTED)
    return text


@lru_cache(maxsize=1024)
def _is_second(text: str) -> bool:
    """Whether there is such a date and time; many messages are of the same second."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def write_created(unix_ms: int) -> str:
    """Unix milliseconds as the date-time of the header Created. Source: SMQP CREATED."""
    seconds, milliseconds = divmod(unix_ms, 1000)
    return f"{_write_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4)
def _write_second(unix_s: int) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%M:%S}"


def read_seconds(value: str, header: str = "Timeout") -> float:
    """Seconds with fractions, or INFINITE / INF. Raises HeaderRefusal that names `header`."""
    text = value.strip()
    if _is_seconds(text):
        return float(text)
    if text.upper() in ("INFINITE", "INF"):
        return INFINITE
    raise HeaderRefusal(header, value, _TIMEOUT_EXPECTED)


def write_seconds(seconds: float) -> str:
    """The shortest text that `read_seconds` reads as this, to a nanosecond."""
    if seconds == INFINITE:
        return "INFINITE"
    if seconds == int(seconds):
        return str(int(seconds))
    return f"{seconds:.9f}".rstrip("0").rstrip(".")


def _read_hops(value: str) -> tuple[str, ...]:
    hops = tuple(hop.strip() for hop in value.split(",")) if value.strip() else ()
    for hop in hops:
        if not is_server_name(hop):
            raise HeaderRefusal("Hops", value, _HOPS_EXPECTED)
    return hops


def _read_mime_version(value: str) -> str:
    if _is_version(value.strip()):
        return value.strip()
    raise HeaderRefusal("MIME-Version", value, _VERSION_EXPECTED)


def _read_smuid(value: str) -> str:
    return str(parse_smuid(value.strip()))


def _read_cmuid(value: str) -> str:
    return check_cmuid(value.strip())


def _read_account(value: str) -> str:
    return str(parse_address(value.strip()))


def _read_group(value: str) -> str:
    group = value.strip()
    if not 0 < len(group) <= GROUP_CHARACTERS_MAX:
        raise HeaderRefusal("Group", value, _GROUP_EXPECTED)
    return group


_NAME_EXPECTED = "one line of at most 128 characters, optionally followed by ; charset=..."
_CREATED_EXPECTED = "a UTC date-time such as 2026-11-21T10:00:00.250Z (also +00:00 or GMT for Z)"
_TIMEOUT_EXPECTED = "seconds (fractions allowed), or INFINITE or INF"
_PRIORITY_EXPECTED = "an integer from 1 to 2147483647"
_DEPTH_EXPECTED = "an integer from -1 to 2147483647"
_SEQUENCE_EXPECTED = "an integer from 1 to 9223372036854775807"
_BOOLEAN_EXPECTED = "YES or NO"
_HOPS_EXPECTED = "server names separated by commas"
_VERSION_EXPECTED = "major.minor, two numbers"
_RECEIPT_EXPECTED = "NONE, ONE or ALL"
_DELIVERY_EXPECTED = "ONE or ALL"
_GROUP_EXPECTED = "one line of 1 to 255 characters"
_ID_EXPECTED = "an id (1 to 255 characters without white space)"

read_depth: Final = _integer("Depth", -1, SMALL_MAX, _DEPTH_EXPECTED)
"""A depth, in a header or on a link. Raises HeaderRefusal."""

_RECEIPTS = {"NONE": "NONE", "ONE": "ONE", "ALL": "ALL"}
_MODES = {"ONE": "ONE", "ALL": "ALL"}

HEADER_RULES: Final = (
    HeaderRule(("Smuid",), "smuid", "server/uid", "the server gives one", _read_smuid),
    HeaderRule(("Cmuid",), "cmuid", _ID_EXPECTED, "refused from SMQP clients", _read_cmuid),
    HeaderRule(("Account",), "account", "account:channel@server", "the server writes it", _read_account),
    HeaderRule(("Hops",), "hops", _HOPS_EXPECTED, "empty", _read_hops),
    HeaderRule(("Name",), "name", _NAME_EXPECTED, "none", _read_name),
    HeaderRule(
        ("Priority", "Pri"),
        "priority",
        _PRIORITY_EXPECTED,
        "below 1",
        _integer("Priority", 1, SMALL_MAX, _PRIORITY_EXPECTED),
    ),
    HeaderRule(("Created",), "created", _CREATED_EXPECTED, "refused from SMQP clients", _read_created),
    HeaderRule(
        ("Receipt",), "receipt", _RECEIPT_EXPECTED, "NONE", _word("Receipt", _RECEIPTS, _RECEIPT_EXPECTED)
    ),
    HeaderRule(("Reply",), "reply", _BOOLEAN_EXPECTED, "NO", _word("Reply", BOOLEANS, _BOOLEAN_EXPECTED)),
    HeaderRule(("Timeout",), "timeout_s", _TIMEOUT_EXPECTED, "the topic's, then the server's", read_seconds),
    HeaderRule(("Depth",), "depth", _DEPTH_EXPECTED, "0", read_depth),
    HeaderRule(
        ("Sequence", "Seq"),
        "sequence",
        _SEQUENCE_EXPECTED,
        "none",
        _integer("Sequence", 1, NUMBER_MAX, _SEQUENCE_EXPECTED),
    ),
    HeaderRule(
        ("Guarantee", "Guar"),
        "guarantee",
        _BOOLEAN_EXPECTED,
        "YES",
        _word("Guarantee", BOOLEANS, _BOOLEAN_EXPECTED),
    ),
    HeaderRule(
        ("Delivery",), "delivery", _DELIVERY_EXPECTED, "ALL", _word("Delivery", _MODES, _DELIVERY_EXPECTED)
    ),
    HeaderRule(("Group",), "group", _GROUP_EXPECTED, "none", _read_group),
    HeaderRule(
        ("Group-End",), "ends_group", _BOOLEAN_EXPECTED, "NO", _word("Group-End", BOOLEANS, _BOOLEAN_EXPECTED)
    ),
    HeaderRule(("MIME-Version",), "mime_version", _VERSION_EXPECTED, "none", _read_mime_version),
)

_READERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    spelling: (rule.field, rule.read)
    for rule in HEADER_RULES
    for name in rule.names
    for spelling in (name, name.lower())
}
KNOWN_SPELLINGS: Final = frozenset(_READERS)
"""Every known name as it is written and in lower case: a fast first look; others need `str.lower`."""


def is_reserved(name: str) -> bool:
    """Whether the name cannot be one of `Message.others`: SMQP knows it, or the framing uses it."""
    folded = name.lower()
    return folded in _READERS or folded == "sections" or folded.startswith("content-")


@lru_cache(maxsize=1_024)
def _is_other(name: str) -> bool:
    """Whether it can be the name of one of `Message.others`; to be asked of short names only."""
    return is_header_name(name) and not is_reserved(name)


def is_header_name(name: str) -> bool:
    """Whether it is 1 to 128 visible ASCII characters without a colon."""
    return _is_header_name(name) is not None


def parse_headers(headers: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The fields of `Message` that these headers state, `others` among them; absent ones are left out.

    Raises HeaderRefusal for the first header that cannot be read, that is repeated, or that belongs
    to the framing. That names are header names and values have no control characters is the codec's part.
    """
    fields: dict[str, Any] = {}
    others: Headers = []
    for header in headers:
        name, value = header
        known = _READERS.get(name)
        if known is None:
            is_other = len(name) <= HEADER_NAME_CHARACTERS_MAX and _is_other(name)
            known = None if is_other else _READERS.get(name.lower())
            if known is None:
                if not is_other and is_reserved(name):
                    raise HeaderRefusal(name, value, "a header of a message (it belongs to a section)")
                others.append(header)
                continue
        field, read = known
        if field in fields:
            raise HeaderRefusal(name, value, "the only one (this header came before)")
        fields[field] = read(value)
    if "name" in fields:
        fields["name"], fields["charset"] = fields["name"]
    if others:
        fields["others"] = tuple(others)
    return fields


def write_headers(message: Message) -> list[str]:
    """The message's header lines, without line ends: what was given, Smuid first, others last.

    Values are not searched for control characters here; `routing.frames` does so for the whole head at
    once. Raises HeaderRefusal for a value that no reader would read back as the same.
    """
    lines: list[str] = []
    if message.smuid:
        lines.append("Smuid: " + message.smuid)
    if message.cmuid:
        lines.append("Cmuid: " + message.cmuid)
    if message.account:
        lines.append("Account: " + message.account)
    if message.hops:
        lines.append("Hops: " + ",".join(message.hops))
    if message.name is not None:
        lines.append("Name: " + _write_name(message.name, message.charset))
    if message.priority:
        lines.append(f"Priority: {message.priority}")
    if message.created:
        lines.append("Created: " + message.created)
    if message.receipt != "NONE":
        lines.append("Receipt: " + message.receipt)
    if message.reply:
        lines.append("Reply: YES")
    if message.timeout_s is not None:
        lines.append("Timeout: " + write_seconds(message.timeout_s))
    if message.depth:
        lines.append(f"Depth: {message.depth}")
    if message.sequence is not None:
        lines.append(f"Sequence: {message.sequence}")
    if not message.guarantee:
        lines.append("Guarantee: NO")
    if message.delivery is not None:
        lines.append("Delivery: " + message.delivery)
    if message.group is not None:
        lines.append("Group: " + _write_group(message.group))
    if message.ends_group:
        lines.append("Group-End: YES")
    if message.mime_version is not None:
        lines.append("MIME-Version: " + message.mime_version)
    for name, value in message.others:
        if not (len(name) <= HEADER_NAME_CHARACTERS_MAX and _is_other(name)):
            if not is_header_name(name):
                raise HeaderRefusal(name, value, "named with 1 to 128 visible ASCII characters and no colon")
            raise HeaderRefusal(name, value, "a header that a message may carry under this name")
        lines.append(f"{name}: {value}")
    return lines


def check_numbers(message: Message) -> None:
    """Raises HeaderRefusal for a number that no reader of what is written takes."""
    timeout_s = message.timeout_s
    if timeout_s is not None and not (0 <= timeout_s < SECONDS_MAX or timeout_s == INFINITE):
        raise HeaderRefusal("Timeout", str(timeout_s), _TIMEOUT_EXPECTED)
    if not 0 <= message.priority <= SMALL_MAX:
        raise HeaderRefusal("Priority", str(message.priority), _PRIORITY_EXPECTED)
    if not -1 <= message.depth <= SMALL_MAX:
        raise HeaderRefusal("Depth", str(message.depth), _DEPTH_EXPECTED)
    if message.sequence is not None and not 1 <= message.sequence <= NUMBER_MAX:
        raise HeaderRefusal("Sequence", str(message.sequence), _SEQUENCE_EXPECTED)


def is_writable(line: str) -> bool:
    """Whether it holds no control character but tabs, and nothing that UTF-8 cannot express."""
    return _unwritable(line) is None


def check_writable(lines: Iterable[str]) -> None:
    """Raises HeaderRefusal, which quotes it, for the first header line that is not `is_writable`."""
    for line in lines:
        if not is_writable(line):
            name, _, value = line.partition(": ")
            raise HeaderRefusal(name, value, "one line of UTF-8 text without control characters")


def _write_group(group: str) -> str:
    if _read_group(group) != group:
        raise HeaderRefusal("Group", group, _GROUP_EXPECTED)
    return group


def _write_name(name: str, charset: str | None) -> str:
    written = name if charset is None else f'{name}; charset="{charset}"'
    if _read_name(written) != (name, charset):
        raise HeaderRefusal("Name", written, _NAME_EXPECTED)
    return written
