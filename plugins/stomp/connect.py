"""CONNECT and STOMP: what a client says of itself, and what is agreed. Source: STOMP 1.2 "Connecting"."""

import base64
import binascii
from typing import Final

import msgspec

from plugins.stomp.codec import VERSIONS, Frame, Version
from routing.errors import HeaderRefusal, Refusal
from routing.names import channel_name, make_channel

HEART_BEAT_MS_MAX: Final = 86_400_000  # beyond a day a beat tells nothing, and timers stay small


class Connect(msgspec.Struct, frozen=True):
    """A login that a client asks for.

    Attributes:
        version: the greatest that both sides know.
        channel: None where the client names none.
        sends_every_ms: how often the client can send a heart-beat; 0 for never.
        wants_every_ms: how often it wants one; 0 for never.
    """

    version: Version
    account: str
    password: str
    channel: str | None
    sends_every_ms: int
    wants_every_ms: int


class NoCommonVersion(Refusal):
    """The client knows no version of STOMP that this server knows."""

    def __init__(self, offered: str) -> None:
        text = f"Supported protocol versions are {', '.join(VERSIONS)}; accept-version was {offered[:80]!r}"
        super().__init__(Refusal.NOT_AVAILABLE, text)


def read_connect(frame: Frame, *, token_passcode: bool) -> Connect:
    """Read a CONNECT or STOMP frame. Raises Refusal: the ERROR to send.

    Args:
        token_passcode: the passcode is the password in base64.
    """
    headers = frame.headers
    version = _version(headers.get("accept-version"))
    if version == "1.0":
        headers = {name: value.strip(" ") for name, value in headers.items()}
    sends, wants = read_heart_beat(headers.get("heart-beat", "0,0"))
    if version == "1.0":  # which has no heart-beats: the client is told of none, and so sends none
        sends = wants = 0
    password = headers.get("passcode", "")
    return Connect(
        version,
        headers.get("login", ""),
        _from_token(password) if token_passcode else password,
        _channel(headers.get("client-id", "")),
        sends,
        wants,
    )


def _channel(client_id: str) -> str | None:
    """Libraries make ids up that are no channels, as Apache.NMS.Stomp does for every connection."""
    if not client_id:
        return None
    try:
        return channel_name(client_id)
    except Refusal:
        return make_channel(client_id, client_id)


def with_advice(refusal: Refusal, asked: Connect) -> Refusal:
    """A refusal of a login that says what was left out of it, where something was."""
    left_out = [name for name, value in (("login", asked.account), ("passcode", asked.password)) if not value]
    if not left_out:
        return refusal
    text = f"CONNECT has no {' and no '.join(left_out)}: give an account of this site as the header login,"
    advised = Refusal(refusal.code, f"{text} and its password as passcode")
    advised.counted = refusal.counted
    return advised


def _version(accepted: str | None) -> Version:
    if accepted is None:
        return "1.0"
    offered = {version.strip(" ") for version in accepted.split(",")}
    for version in reversed(VERSIONS):
        if version in offered:
            return version
    raise NoCommonVersion(accepted)


def read_heart_beat(value: str) -> tuple[int, int]:
    """Two numbers of milliseconds. Raises HeaderRefusal."""
    first, _, second = value.partition(",")
    numbers = [number.strip(" ") for number in (first, second)]
    if not all(number.isascii() and number.isdigit() and len(number) <= 18 for number in numbers):
        raise HeaderRefusal("heart-beat", value, "two numbers of milliseconds separated by a comma")
    sends, wants = (min(int(number), HEART_BEAT_MS_MAX) for number in numbers)
    return sends, wants


def _from_token(passcode: str) -> str:
    try:
        return base64.b64decode(passcode, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        # The passcode itself must not be shown: an ERROR ends in logs.
        raise Refusal(Refusal.BAD_LOGIN, "the passcode is not a base64 token") from None
