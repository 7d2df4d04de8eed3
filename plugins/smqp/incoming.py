"""What a server says, as a client reads it: frames to values. Pure.

Every function raises Refusal for what no server of this protocol says.
"""

import re
from typing import Final

import msgspec

from plugins.smqp.protocol import VERSION
from routing.errors import HeaderRefusal, Refusal
from routing.frames import Frame
from routing.headers import parse_headers, read_seconds
from routing.message import Message
from routing.names import SERVER_ACCOUNT, make_address, parse_smuid

_READY: Final = "Ready"
_NOT_AVAILABLE: Final = "Not Available"
_counts = re.compile(rb"([0-9]{1,10})/([0-9]{1,10})").fullmatch


class Greeting(msgspec.Struct, frozen=True):
    """A server that is not ready says why in `text`, and in `redirect` where to go, where it knows that."""

    ready: bool
    server_ident: str
    redirect: str | None
    text: str


class Delivery(msgspec.Struct, eq=False):
    """A message that has come.

    Attributes:
        subscription: the name of the subscription that it came for, "" for one without.
        pattern: that this subscription is to; "" where it is to the topic itself.
        number: names the delivery on this connection; 0 for an unguaranteed message: it has no phases.
        attempt: 1 the first time, one more after each return; 0 for an unguaranteed message.
        received: it came before, to this subscription, which said RECEIVED and did not commit.
        lock_s: seconds, from when it came, until it goes to another; None where it does not.
        expires_in_s: seconds, from when it came, that are left of its timeout; None where none was stated.
        withdrawn: why it is no longer this client's; None while it is.
    """

    topic: str
    message: Message
    subscription: str = ""
    number: int = 0
    attempt: int = 0
    received: bool = False
    lock_s: float | None = None
    expires_in_s: float | None = None
    withdrawn: str | None = None
    pattern: str = ""


class Receipt(msgspec.Struct, frozen=True):
    """Of the `due` subscriptions that a message was for, `have` have it."""

    smuid: str
    have: int
    due: int

    def __str__(self) -> str:
        return f"{self.have}/{self.due}"


def read_greeting(frame: Frame) -> Greeting:
    """The server's first frame."""
    version, _, rest = frame.arguments.partition(" ")
    if frame.command != "SMQP" or version.partition(".")[0] != VERSION.partition(".")[0]:
        raise Refusal(Refusal.BAD_FRAME, f"this is no SMQP {VERSION} server: {frame.command} {version}"[:200])
    told = attributes(frame)
    for status, ready in ((_READY, True), (_NOT_AVAILABLE, False)):
        if rest == status or rest.startswith(status + " "):
            return Greeting(ready, rest[len(status) + 1 :], told.get("redirect"), told.get("text", ""))
    raise Refusal(Refusal.BAD_FRAME, f"{rest[:80]!r} is not a status of a server")


def read_delivery(frame: Frame) -> Delivery:
    """A MESSAGE: what stands before the line `Smuid` is the delivery's, the rest the message's."""
    names = [name.lower() for name, _ in frame.headers]
    if "smuid" not in names:
        raise Refusal(Refusal.BAD_FRAME, "a MESSAGE without Smuid")
    at = names.index("smuid")
    delivery = Delivery(
        frame.arguments, Message(**parse_headers(frame.headers[at:]), sections=frame.sections)
    )
    for name, value in frame.headers[:at]:
        folded = name.lower()
        if folded == "subscription":
            delivery.subscription = value
        elif folded == "pattern":
            delivery.pattern = value
        elif folded == "id":
            delivery.number = read_number(value)
        elif folded == "attempt":
            delivery.attempt = read_number(value)
        elif folded == "received":
            delivery.received = value.upper() == "YES"
        elif folded == "lock":
            delivery.lock_s = read_seconds(value, name)
        elif folded == "expires":
            delivery.expires_in_s = read_seconds(value, name)
    return delivery


def read_receipt(message: Message) -> Receipt | None:
    """The receipt that a message to a system topic is; None for any other.

    Whoever may publish can write what looks like one. Only the server that published the message speaks for
    it: the account is that server's own, to which nobody can log in.
    """
    smuid = dict(message.others).get("Receipt-Smuid", "")
    counts = _counts(message.sections[0].body) if len(message.sections) == 1 else None
    try:
        server = parse_smuid(smuid).server
    except Refusal:
        return None
    if counts is None or message.account != make_address(SERVER_ACCOUNT, "system", server):
        return None
    have, due = int(counts[1]), int(counts[2])
    return Receipt(smuid, have, due) if have <= due else None


def read_refusal(frame: Frame) -> Refusal:
    """An ERROR, as the exception that the server's own code raised."""
    reply = attributes(frame)
    if "header" in reply and "expected" in reply:
        return HeaderRefusal(reply["header"], reply.get("value", ""), reply["expected"])
    return Refusal(frame.arguments, reply.get("text", frame.arguments))


def read_number(text: str) -> int:
    """Digits, at most 18."""
    if not (text.isdigit() and text.isascii() and len(text) <= 18):
        raise Refusal(Refusal.BAD_FRAME, f"{text[:40]!r} is not a number")
    return int(text)


def attributes(frame: Frame) -> dict[str, str]:
    """The attributes of a frame by lower-case name."""
    return {name.lower(): value for name, value in frame.headers}
