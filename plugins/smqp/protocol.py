"""What a client may say: frames to typed commands, and how the frames of both sides are spelled.

Pure. A command is a start line (its words are separated by spaces) and attributes; an attribute that a
command does not know is refused, since a misspelt one would otherwise be silently without effect. PUBLISH
has none: all its header lines are the message's. The whole protocol is in README.md beside this file.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from daemon.frontend import ReturnOutcome, SubscribeOptions
from plugins.smqp.requests import (
    Command,
    Commit,
    ConnectTo,
    Detach,
    Login,
    Ping,
    Publish,
    Quit,
    Received,
    Remove,
    RequestKey,
    Return,
    SetDelivery,
    SetTimeout,
    Subscribe,
    Unsubscribe,
)
from routing.errors import HeaderRefusal, Refusal
from routing.frames import Frame, message_of
from routing.headers import BOOLEANS, is_writable, read_seconds
from routing.message import DeliveryMode
from routing.names import (
    account_name,
    channel_name,
    check_topic,
    is_server_name,
    parse_smuid,
)
from routing.patterns import check_wanted

VERSION: Final = "1.0"
DEFAULT_PORT: Final = 720
DEFAULT_CHANNEL: Final = "default"
IDS_MAX: Final = 10_000
"""Deliveries that one RECEIVED, COMMIT or RETURN may name, so that a short line cannot mean endless work."""
LOCK_S_MIN: Final = 0.1
LOCK_S_MAX: Final = 86_400.0
DELAY_S_MAX: Final = 86_400.0

_is_token = re.compile(r"[!-~]{1,64}").fullmatch
_id_range = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?").fullmatch
_is_port = re.compile(r"[0-9]{1,5}").fullmatch
_is_ipv6 = re.compile(r"\[[0-9A-Fa-f:.]{2,45}\]").fullmatch

_T = TypeVar("_T")


def read_command(frame: Frame) -> Command:
    """What the frame asks for. Raises Refusal: bad-command, bad-header, bad-topic, bad-login, too-many."""
    read = _COMMANDS.get(frame.command)
    if read is None:
        if (word := _word(frame)) != frame.command:
            raise Refusal(Refusal.BAD_COMMAND, f"what follows {word[:40]!r} is not separated by a space")
        known = ", ".join(sorted(_COMMANDS))
        raise Refusal(Refusal.BAD_COMMAND, f"{word[:40]!r} is not one of {known}")
    if frame.sections and read is not _publish:
        raise Refusal(Refusal.BAD_FRAME, f"{frame.command} has no sections")
    return read(frame)


def reply_key(frame: Frame) -> RequestKey:
    """How a reply names a frame that could not be read, as far as that could be read."""
    wanted = "cmuid" if frame.command == "PUBLISH" else "request"
    for name, value in frame.headers:
        if name.lower() == wanted:
            return _word(frame), f"{wanted.capitalize()}: {value[:255]}\r\n"
    return _word(frame), ""


def without_secret(frame: Frame, refusal: Refusal) -> Refusal:
    """What a client is told of a frame, and may log: of a login without what a password may have become."""
    if isinstance(refusal, HeaderRefusal) and frame.command in ("PASS", "PASSWORD"):
        return Refusal(refusal.code, "the lines that follow PASS account[/channel] password cannot be read")
    return refusal


def is_answered(frame: Frame) -> bool:
    """Whether a frame that is refused gets an answer, by what could be read of it. Source: SMQP GUARANTEE."""
    return frame.command != "PUBLISH" or not any(
        name.lower() in ("guarantee", "guar") and value.strip().upper() == "NO"
        for name, value in frame.headers
    )


def check_password(text: str) -> str:
    """The password, if PASS can carry it. Raises Refusal (bad-login), which does not quote it."""
    if not text or not is_writable(text):
        expected = "one line of UTF-8 text without control characters"
        raise Refusal(Refusal.BAD_LOGIN, f"the password is {f'not {expected}' if text else 'empty'}")
    return text


def write_login(account: str, password: str, channel: str | None) -> str:
    """What follows PASS. Raises Refusal (bad-login), which does not quote the password."""
    login = f"{account_name(account)}/{channel_name(channel)}" if channel else account_name(account)
    return f"{login} {check_password(password)}"


def write_ids(numbers: Iterable[int]) -> str:
    """Numbers as ids and ranges: `5 17-40`."""
    words: list[str] = []
    first = last = -1
    for number in sorted(set(numbers)):
        if number != last + 1 or first < 0:
            if first >= 0:
                words.append(str(first) if first == last else f"{first}-{last}")
            first = number
        last = number
    if first >= 0:
        words.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(words)


def read_ids(words: Iterable[str]) -> Sequence[int]:
    """Ids and ranges to numbers. Raises Refusal (bad-command, too-many)."""
    numbers: list[int] = []
    for word in words:
        match = _id_range(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise Refusal(
                Refusal.BAD_COMMAND, f"{word[:40]!r} is not a delivery's id or a range such as 17-40"
            )
        if len(numbers) + last - first >= IDS_MAX:
            raise Refusal(Refusal.TOO_MANY, f"one frame names at most {IDS_MAX} deliveries")
        numbers.extend(range(first, last + 1))
    return numbers


def _word(frame: Frame) -> str:
    """The command of a frame, up to a tab or its like: a password may follow there."""
    return frame.command.split(maxsplit=1)[0] if frame.command.strip() else ""


class _Attributes:
    """The attributes of one frame, each taken once; `end` refuses what nobody took."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._left: dict[str, tuple[str, str]] = {}
        for name, value in frame.headers:
            if name.lower() in self._left:
                raise HeaderRefusal(name, value, "the only one (this attribute came before)")
            self._left[name.lower()] = (name, value)

    def take(self, name: str, read: Callable[[str], _T], default: _T) -> _T:
        found = self._left.pop(name.lower(), None) if self._left else None
        return default if found is None else read(found[1].strip())

    def end(self) -> str | None:
        """The Request token, and nothing may be left."""
        if not self._left:
            return None
        request = self.take("Request", _read_token, None)
        for name, value in self._left.values():
            raise HeaderRefusal(name, value, f"an attribute that {self._frame.command} knows")
        return request


def _words(frame: Frame, count: int, form: str) -> list[str]:
    words = frame.arguments.split()
    if len(words) != count:
        raise Refusal(Refusal.BAD_COMMAND, f"this command is {form}")
    return words


def _read_token(value: str) -> str | None:
    if _is_token(value) is None:
        raise HeaderRefusal("Request", value, "a token of 1 to 64 visible ASCII characters")
    return value


def _reader_of_words(name: str, words: dict[str, _T]) -> Callable[[str], _T]:
    def read(value: str) -> _T:
        try:
            return words[value.upper()]
        except KeyError:
            raise HeaderRefusal(name, value, " or ".join(words)) from None

    return read


def _read_credit(value: str) -> int:
    if not (value.isdigit() and value.isascii() and len(value) <= 9):
        raise HeaderRefusal("Credit", value, "a number of messages, 0 or more")
    return int(value)


def _reader_of_seconds(name: str, least: float, greatest: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        seconds = read_seconds(value, name)
        if not least <= seconds <= greatest:
            raise HeaderRefusal(name, value, f"from {least:g} to {greatest:g} seconds")
        return seconds

    return read


def _read_subscription_name(value: str) -> str:
    try:
        return channel_name(value)
    except Refusal:
        raise HeaderRefusal("Subscription", value, "a name of 1 to 64 of A-Z a-z 0-9 . _ -") from None


_read_accept = _reader_of_words("Accept", {"ONE": "ONE", "ALL": "ALL", "BOTH": "BOTH"})
_read_durable = _reader_of_words("Durable", BOOLEANS)
_read_ordered = _reader_of_words("Ordered", BOOLEANS)
_read_lock: Callable[[str], float | None] = _reader_of_seconds("Lock", LOCK_S_MIN, LOCK_S_MAX)
_read_shared = _reader_of_words("Shared", BOOLEANS)
_read_acknowledge = _reader_of_words("Acknowledge", {"ALL": True, "GUARANTEED": False})
_OUTCOMES: Final[dict[str, ReturnOutcome]] = {
    "FAILED": "failed",
    "RELEASED": "released",
    "REJECTED": "rejected",
}
_read_outcome: Callable[[str], ReturnOutcome] = _reader_of_words("Outcome", _OUTCOMES)
_read_delay = _reader_of_seconds("Delay", 0, DELAY_S_MAX)


def _login(frame: Frame) -> Login:
    attributes = _Attributes(frame)
    login, _, password = frame.arguments.lstrip(" ").partition(" ")
    account, slash, channel = login.partition("/")
    if not password:
        raise Refusal(Refusal.BAD_COMMAND, "this command is PASS account[/channel] password")
    return Login(
        account_name(account),
        channel_name(channel) if slash else DEFAULT_CHANNEL,
        password,
        request=attributes.end(),
    )


def _publish(frame: Frame) -> Publish:
    topic = check_topic(frame.arguments.strip())
    message = message_of(frame)
    if not message.cmuid:
        raise HeaderRefusal("Cmuid", "", "an id of the client's own, which each PUBLISH carries")
    if not message.created:
        raise HeaderRefusal("Created", "", "a UTC date-time, which each PUBLISH carries")
    return Publish(topic, message)


def _subscribe(frame: Frame) -> Subscribe:
    (topic,) = _words(frame, 1, "SUBSCRIBE topic")
    attributes = _Attributes(frame)
    options = SubscribeOptions(
        credit=attributes.take("Credit", _read_credit, SubscribeOptions().credit),
        accepts=attributes.take("Accept", _read_accept, "BOTH"),  # type: ignore[arg-type]  # checked by the words
        durable=attributes.take("Durable", _read_durable, True),
        ordered=attributes.take("Ordered", _read_ordered, False),
        lock_s=attributes.take("Lock", _read_lock, None),
        acknowledges_all=attributes.take("Acknowledge", _read_acknowledge, False),
        shared=attributes.take("Shared", _read_shared, False),
        name=attributes.take("Subscription", _read_subscription_name, ""),
    )
    return Subscribe(check_wanted(topic), options, request=attributes.end())


def _unsubscribe(frame: Frame) -> Unsubscribe:
    (topic,) = _words(frame, 1, "UNSUBSCRIBE topic")
    attributes = _Attributes(frame)
    name = attributes.take("Subscription", _read_subscription_name, "")
    return Unsubscribe(check_wanted(topic), name, request=attributes.end())


def _detach(frame: Frame) -> Detach:
    (topic,) = _words(frame, 1, "DETACH topic")
    attributes = _Attributes(frame)
    name = attributes.take("Subscription", _read_subscription_name, "")
    return Detach(check_wanted(topic), name, request=attributes.end())


def _ids(frame: Frame) -> Sequence[int]:
    words = frame.arguments.split()
    if not words:
        raise Refusal(
            Refusal.BAD_COMMAND, f"this command is {frame.command} id ..., with ranges such as 17-40"
        )
    return read_ids(words)


def _received(frame: Frame) -> Received:
    return Received(_ids(frame), request=_Attributes(frame).end())


def _commit(frame: Frame) -> Commit:
    return Commit(_ids(frame), request=_Attributes(frame).end())


def _return(frame: Frame) -> Return:
    attributes = _Attributes(frame)
    reason = attributes.take("Reason", lambda value: value[:255], "")
    delay_s = attributes.take("Delay", _read_delay, 0.0)
    outcome = attributes.take("Outcome", _read_outcome, _OUTCOMES["FAILED"])
    return Return(_ids(frame), reason, delay_s, outcome, request=attributes.end())


def _remove(frame: Frame) -> Remove:
    topic, smuid = _words(frame, 2, "REMOVE topic smuid")
    return Remove(check_topic(topic), str(parse_smuid(smuid)), request=_Attributes(frame).end())


def _set(frame: Frame) -> SetDelivery | SetTimeout:
    form = "SET TOPIC DELIVERY topic ONE|ALL|NONE, or SET TOPIC TIMEOUT topic seconds|INFINITE|NONE"
    kind, what, topic, value = _words(frame, 4, form)
    request = _Attributes(frame).end()
    check_topic(topic)
    if kind.upper() != "TOPIC" or what.upper() not in ("DELIVERY", "TIMEOUT"):
        raise Refusal(Refusal.BAD_COMMAND, f"this command is {form}")
    if what.upper() == "TIMEOUT":
        return SetTimeout(topic, None if value.upper() == "NONE" else read_seconds(value), request=request)
    modes: dict[str, DeliveryMode | None] = {"ONE": "ONE", "ALL": "ALL", "NONE": None}
    return SetDelivery(topic, _reader_of_words("Delivery", modes)(value), request=request)


def _connect_to(frame: Frame) -> ConnectTo:
    form = "CONNECTTO account/channel [address:]port"
    login, where = _words(frame, 2, form)
    account, _, channel = login.partition("/")
    address, colon, port = where.rpartition(":")
    if _is_port(port) is None or not 0 < int(port) < 65536:
        raise Refusal(Refusal.BAD_COMMAND, f"{port[:40]!r} is not a port; this command is {form}")
    if colon and not (_is_ipv6(address) or (":" not in address and is_server_name(address.lower()))):
        raise Refusal(Refusal.BAD_COMMAND, f"{address[:80]!r} is not an address; this command is {form}")
    request = _Attributes(frame).end()
    return ConnectTo(
        account_name(account), channel_name(channel), address or None, int(port), request=request
    )


def _ping(frame: Frame) -> Ping:
    return Ping(request=_Attributes(frame).end())


def _quit(frame: Frame) -> Quit:
    return Quit(request=_Attributes(frame).end())


_COMMANDS: Final[dict[str, Callable[[Frame], Command]]] = {
    "PASS": _login,
    "PASSWORD": _login,
    "PUBLISH": _publish,
    "SUBSCRIBE": _subscribe,
    "UNSUBSCRIBE": _unsubscribe,
    "DETACH": _detach,
    "RECEIVED": _received,
    "COMMIT": _commit,
    "RETURN": _return,
    "REMOVE": _remove,
    "SET": _set,
    "CONNECTTO": _connect_to,
    "PING": _ping,
    "QUIT": _quit,
}
