"""The commands of a client, as typed values; what each means is in README.md beside this file."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from daemon.frontend import ReturnOutcome, SubscribeOptions
from routing.message import DeliveryMode, Message

RequestKey = tuple[str, str]
"""A command's word, and the line (with its line end, or "") by which its reply names it."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for.

    Attributes:
        word: the command on the start line.
        request: the token of the attribute Request, which the reply repeats; None where there was none.
    """

    word: ClassVar[str] = ""
    request: str | None = None

    @property
    def key(self) -> RequestKey:
        return self.word, "" if self.request is None else f"Request: {self.request}\r\n"


class Login(Command, frozen=True):
    word: ClassVar[str] = "PASS"
    account: str
    channel: str
    password: str


class Publish(Command, frozen=True):
    word: ClassVar[str] = "PUBLISH"
    topic: str
    message: Message

    @property
    def key(self) -> RequestKey:
        return "PUBLISH", f"Cmuid: {self.message.cmuid}\r\n"


class Subscribe(Command, frozen=True):
    word: ClassVar[str] = "SUBSCRIBE"
    topic: str
    options: SubscribeOptions


class Unsubscribe(Command, frozen=True):
    word: ClassVar[str] = "UNSUBSCRIBE"
    topic: str
    name: str


class Detach(Command, frozen=True):
    word: ClassVar[str] = "DETACH"
    topic: str
    name: str


class Received(Command, frozen=True):
    word: ClassVar[str] = "RECEIVED"
    numbers: Sequence[int]


class Commit(Command, frozen=True):
    word: ClassVar[str] = "COMMIT"
    numbers: Sequence[int]


class Return(Command, frozen=True):
    word: ClassVar[str] = "RETURN"
    numbers: Sequence[int]
    reason: str
    delay_s: float
    outcome: ReturnOutcome = "failed"


class Remove(Command, frozen=True):
    word: ClassVar[str] = "REMOVE"
    topic: str
    smuid: str


class SetDelivery(Command, frozen=True):
    """`mode` is None for NONE: each message says again."""

    word: ClassVar[str] = "SET"
    topic: str
    mode: DeliveryMode | None


class SetTimeout(Command, frozen=True):
    """`timeout_s` is None for NONE: the topic has no timeout of its own."""

    word: ClassVar[str] = "SET"
    topic: str
    timeout_s: float | None


class ConnectTo(Command, frozen=True):
    """`address` is None where the client's own address is meant."""

    word: ClassVar[str] = "CONNECTTO"
    account: str
    channel: str
    address: str | None
    port: int


class Ping(Command, frozen=True):
    word: ClassVar[str] = "PING"


class Quit(Command, frozen=True):
    word: ClassVar[str] = "QUIT"
