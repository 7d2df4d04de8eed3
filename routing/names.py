"""Names: servers, message ids, accounts and topics; patterns of topics are in `routing.patterns`.

    server       host or host:port, lower case                   smqp.example, smqp.example:1720
    account      1-64 of A-Z a-z 0-9 . _ - +                      ada
    channel      1-64 of A-Z a-z 0-9 . _ -                        desk
    address      account:channel@server, also the name of the system topic
    smuid        server/uid, uid = birth in ms (12 hex) - boot (1-15 hex) - counter (1-15 hex)
    topic        1-255 bytes of UTF-8, levels separated by dots, no white space, control characters or / * # >
    dead letters dead.TOPIC; where that is longer than a topic may be, its beginning and ~ and a hash of TOPIC

Every function that reads a name raises `Refusal` (or `HeaderRefusal`, where the name stands in a header
of its own) with what was expected. Source: routing contract 1.
"""

import hashlib
import re
from functools import lru_cache
from typing import Final

import msgspec

from routing.errors import HeaderRefusal, Refusal
from routing.hop_words import SMUID_NUMBERS

TOPIC_BYTES_MAX: Final = 255

SERVER_ACCOUNT: Final = "smqpd"
"""The account that receipts and dead letters come from; nobody can log in to it, at any server."""

DEAD_LETTER_PREFIX: Final = "dead."
"""No account's name begins so: `dead.ada:desk@server` are the dead letters of `ada:desk@server`."""

_HASH_DIGITS: Final = 16

_PORT = r"(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
SERVER_PATTERN: Final = rf"(?:[a-z0-9](?:[a-z0-9._-]{{0,251}}[a-z0-9])?|\[[0-9a-f:.]{{2,45}}\])(?::{_PORT})?"
ADDRESS_CHARACTERS_MAX: Final = 400
SERVER_CHARACTERS_MAX: Final = 259  # 253 of the host, and the port
ACCOUNT_PATTERN: Final = r"[A-Za-z0-9._+-]{1,64}"
CHANNEL_PATTERN: Final = r"[A-Za-z0-9._-]{1,64}"
SMUID_PATTERN: Final = rf"{SERVER_PATTERN}/{SMUID_NUMBERS}"
FEATURE_PATTERN: Final = r"[A-Za-z0-9._-]{1,64}"
FEATURES_MAX: Final = 64
"""What a site knows how to do has a word of this pattern; so many may be told at once."""

_is_server = re.compile(SERVER_PATTERN).fullmatch
_is_account = re.compile(ACCOUNT_PATTERN).fullmatch
_is_channel = re.compile(CHANNEL_PATTERN).fullmatch
_not_in_channels = re.compile(r"[^A-Za-z0-9._-]+")
_address = re.compile(f"({ACCOUNT_PATTERN}):({CHANNEL_PATTERN})@({SERVER_PATTERN})").fullmatch
_dead_address = re.compile(rf"dead\.({ACCOUNT_PATTERN}):({CHANNEL_PATTERN})@(.+)").fullmatch
_smuid = re.compile(f"({SERVER_PATTERN})/{SMUID_NUMBERS}").fullmatch
_is_topic = re.compile(r"[^\s\x00-\x1f\x7f-\x9f/*#>]{1,255}").fullmatch
_is_cmuid = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]{1,255}").fullmatch

SERVER_EXPECTED: Final = "a server name (a lower-case host, optionally with :port)"

OWN_NAME_MAX: Final = 190
"""Characters of a site's own name: with a boot and two record numbers it is the name of a file, 255 bytes."""

OWN_NAME_PATTERN: Final = rf"(?=.{{1,{OWN_NAME_MAX}}}\Z){SERVER_PATTERN}"
OWN_NAME_EXPECTED: Final = f"{SERVER_EXPECTED} of at most {OWN_NAME_MAX} characters"
TOPIC_EXPECTED: Final = "a topic (1 to 255 bytes of UTF-8 without white space, control characters or / * # >)"


class Smuid(msgspec.Struct, frozen=True, order=True):
    """A server's message id, taken apart; `str()` of it is the id. Orders by server, then by age."""

    server: str
    birth_ms: int
    boot: int
    counter: int

    def __str__(self) -> str:
        return make_smuid(self.server, self.birth_ms, self.boot, self.counter)


class Address(msgspec.Struct, frozen=True):
    """`account:channel@server`: the Account header, and the name of a login's system topic."""

    account: str
    channel: str
    server: str

    def __str__(self) -> str:
        return f"{self.account}:{self.channel}@{self.server}"


def server_name(text: str) -> str:
    """The name, checked. Upper case is refused, since names are compared as they are written."""
    if _is_server(text) is None:
        raise Refusal(Refusal.BAD_HEADER, f"{text[:80]!r} is not {SERVER_EXPECTED}")
    return text


def is_server_name(text: str) -> bool:
    """Whether `server_name` would take it."""
    return len(text) <= SERVER_CHARACTERS_MAX and _is_server_name(text)


@lru_cache(maxsize=1024)
def _is_server_name(text: str) -> bool:
    return _is_server(text) is not None


def is_own_name(text: str) -> bool:
    """Whether a site can have this name."""
    return len(text) <= OWN_NAME_MAX and is_server_name(text)


def account_name(text: str) -> str:
    """The account's name, checked; refused as `bad-login`."""
    if _is_account(text) is None:
        raise Refusal(Refusal.BAD_LOGIN, f"{text[:80]!r} is not an account (1 to 64 of A-Z a-z 0-9 . _ - +)")
    return text


def channel_name(text: str) -> str:
    """The channel's name, checked; refused as `bad-login`."""
    if _is_channel(text) is None:
        raise Refusal(Refusal.BAD_LOGIN, f"{text[:80]!r} is not a channel (1 to 64 of A-Z a-z 0-9 . _ -)")
    return text


def make_channel(name: str, shown: str) -> str:
    """A channel for a client whose name is none, as a JID: made of the name alone, so the same each time.

    Args:
        shown: the part of the name that people know it by. A few of its characters begin the channel; a hash
            that tells all names apart ends it.

    >>> make_channel("ID:DESK-7-50123-638.1-1:0", "ID:DESK-7-50123-638.1-1:0")
    'ID_DESK-7-50123-638.1-1_0.e7ca608291a5af1a6d4c3917'
    """
    readable = _not_in_channels.sub("_", shown)[:36]
    return f"{readable.strip('-')}.{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def make_smuid(server: str, birth_ms: int, boot: int, counter: int) -> str:
    """The id of a message born at `birth_ms` (Unix milliseconds); unique if (boot, counter) is."""
    return f"{server}/{birth_ms:012x}-{boot:x}-{counter:x}"


def birth_ms(smuid: str) -> int:
    """The birth, Unix milliseconds, in an id that this program has made; no other is checked here.

    Of ids that come one after the other, equal ones are one object: each that waits keeps its own.
    """
    return _read_birth(smuid.rpartition("/")[2][:12])


@lru_cache(maxsize=256)
def _read_birth(digits: str) -> int:
    return int(digits, 16)


def parse_smuid(text: str) -> Smuid:
    """Take an id apart. Raises HeaderRefusal."""
    match = _smuid(text)
    if match is None:
        raise HeaderRefusal(
            "Smuid", text, "a message id as servers give them, such as alpha.example/019aa5d72900-1-fe"
        )
    server, birth_ms, boot, counter = match.groups()
    return Smuid(server, int(birth_ms, 16), int(boot, 16), int(counter, 16))


def check_cmuid(text: str) -> str:
    """A client's message id: 1 to 255 characters without white space. Raises HeaderRefusal."""
    if _is_cmuid(text) is None:
        raise HeaderRefusal("Cmuid", text, "an id (1 to 255 characters without white space)")
    return text


def make_address(account: str, channel: str, server: str) -> str:
    """The Account header of a login, and its system topic; the parts are not checked."""
    return f"{account}:{channel}@{server}"


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address:
    """Take `account:channel@server` apart. Raises HeaderRefusal."""
    match = _address(text) if len(text) <= ADDRESS_CHARACTERS_MAX else None
    if match is None:
        raise HeaderRefusal("Account", text, "an address (account:channel@server)")
    return Address(*match.groups())


def is_system_topic(topic: str) -> bool:
    """Whether the topic is some login's own: `account:channel@server`."""
    return "@" in topic and len(topic) <= ADDRESS_CHARACTERS_MAX and _is_system_topic(topic)


@lru_cache(maxsize=4096)
def _is_system_topic(topic: str) -> bool:
    return not topic.startswith(DEAD_LETTER_PREFIX) and _address(topic) is not None


@lru_cache(maxsize=4096)
def dead_letter_topic(topic: str) -> str:
    """Where the undeliverable messages of a topic go; a valid topic for any topic."""
    name = DEAD_LETTER_PREFIX + topic
    if _fits(name, TOPIC_BYTES_MAX):
        return name
    hashed = "~" + hashlib.sha256(topic.encode()).hexdigest()[:_HASH_DIGITS]
    return name.encode()[: TOPIC_BYTES_MAX - len(hashed)].decode(errors="ignore") + hashed


@lru_cache(maxsize=4096)
def owner_of(topic: str, server: str) -> Address | None:
    """The login whose own topic this is, or the dead letters of that; None for a topic of nobody's own.

    `server` is the name of this site. Dead letters belong to its own accounts; where they are of another
    server's, the account is "": they belong to nobody.
    """
    if "@" not in topic:
        return None
    if is_system_topic(topic):
        return parse_address(topic)
    match = _dead_address(topic)
    if match is None:
        return None
    owner = Address(match[1], match[2], server)
    if topic == dead_letter_topic(str(owner)):
        return owner
    return Address("", "", server) if _address(topic[len(DEAD_LETTER_PREFIX) :]) else None


def is_topic(text: str) -> bool:
    """Whether `check_topic` would take it."""
    return _is_topic(text) is not None and _fits(text, TOPIC_BYTES_MAX)


@lru_cache(maxsize=4096)
def check_topic(text: str) -> str:
    """The topic's name, checked. Raises Refusal (bad-topic)."""
    if not is_topic(text):
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:80]!r} is not {TOPIC_EXPECTED}")
    return text


def _fits(text: str, bytes_max: int) -> bool:
    if text.isascii():
        return len(text) <= bytes_max
    try:
        return len(text.encode()) <= bytes_max
    except UnicodeEncodeError:  # a lone surrogate: no UTF-8 has it
        return False
