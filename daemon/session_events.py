"""What a session tells its front end, as values, and what is in the messages that it tells of.

They come from `Session.events` of `daemon.frontend`, which has these names, too: front ends take them
from there.
"""

from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from routing.errors import Refusal
from routing.message import Message


class StoredMessage(Protocol):
    """A message as the broker holds it, shared by all its deliveries."""

    @property
    def wire(self) -> bytes:
        """SMQP's header lines, an empty line, and the sections: what follows a frame's own attributes."""

    @property
    def message(self) -> Message:
        """The message of `wire`, parsed; kept once parsed."""

    @property
    def header_bytes(self) -> int:
        """`Message.header_bytes`, found once for all to whom it is delivered."""

    shared: Any
    """None until a front end keeps something here that it has encoded once for many subscribers."""


class Answer(msgspec.Struct):
    """A request is done, or refused (`error`).

    Attributes:
        request: what the front end gave with the call; a call without one is answered only where it is
            refused.
        smuid: of a PUBLISH that was accepted, or that was accepted earlier with this Cmuid.
        repeated: True where the Cmuid had been seen before and nothing was routed.
        due_to_nobody: True where a PUBLISH of mode ALL found no subscription, here or at a peer that it may
            go to, and states no time to wait for one: the message is gone.
    """

    request: Any
    error: Refusal | None = None
    smuid: str = ""
    repeated: bool = False
    due_to_nobody: bool = False


class Delivered(msgspec.Struct):
    """A message for a subscription of this session.

    Attributes:
        number: names the delivery within the session, from 1, rising.
        topic: the topic it was published to.
        subscription: the name of the subscription, "" for one without.
        pattern: that the subscription is to; "" where it is to the topic itself.
        stored: the message.
        attempt: 1 the first time, one more after each delivery that failed.
        redelivered: True where it was with somebody before, who may have worked on it.
        received: True where this subscription has said RECEIVED before, so the message is its own.
        lock_s: seconds until the lock ends; None where there is none (not acknowledged, or received).
        expires_in_s: seconds of its timeout that are left; None where none was stated.
        ends_in_s: seconds until the site gives it up, whether or not a timeout was stated; infinite where it
            waits until somebody has finished it.
        acknowledge: False for an unguaranteed message to a subscription that does not acknowledge all: it is
            finished.
        size: bytes of the bodies.
        message_id: the message's number at this site; the same for all its deliveries.
        late: True where it is for all, and was published before the subscription began.
    """

    number: int
    topic: str
    subscription: str
    stored: StoredMessage
    attempt: int
    redelivered: bool
    received: bool
    lock_s: float | None
    expires_in_s: float | None
    ends_in_s: float
    acknowledge: bool
    size: int
    message_id: int
    pattern: str = ""
    late: bool = False


class Withdrawn(msgspec.Struct):
    """A delivery is no longer this session's: its lock timed out, or it expired or was removed.

    Or it was dropped: unguaranteed, under pressure, or set aside.
    """

    number: int
    topic: str
    subscription: str
    reason: Literal["lock-timeout", "expired", "removed", "dropped"]
    pattern: str = ""


class Retracted(msgspec.Struct):
    """A message that was kept for all has been removed, here or at another site.

    Told to a subscription with `tells_removals`, whether or not it ever had the message; not where its whole
    topic was purged or deleted here. `pattern` as in `Delivered`.
    """

    topic: str
    subscription: str
    message_id: int
    pattern: str = ""


class Detached(msgspec.Struct):
    """A subscription no longer delivers to this session.

    Attributes:
        topic: or the pattern, as it was subscribed to.
        reason: `replaced` where another session of the account and channel took it over, `removed`
            where an operator, who may administer the topic, its long disuse or another session that shared
            it ended it, `forbidden` where rights were withdrawn.
    """

    topic: str
    name: str
    reason: Literal["replaced", "removed", "forbidden"]


class Ending(msgspec.Struct):
    """The session is about to end; the front end says goodbye and closes.

    Attributes:
        reason: `draining` (the daemon stops), `disabled` (the account), `closed` (by an operator; the client
            may come back), or `failed`.
    """

    reason: Literal["draining", "disabled", "closed", "failed"]
    text: str


SessionEvent = Answer | Delivered | Withdrawn | Retracted | Detached | Ending


class HeldEntry(msgspec.Struct):
    """What is known of a message that a topic holds, without reading it.

    Attributes:
        message_id: the message's number at this site; rises in the order of arrival.
        locked: of mode ONE, and with a subscriber, or received by one.
    """

    message_id: int
    smuid: str
    locked: bool


class HeldMessage(HeldEntry):
    """A message that a topic holds; `expires_in_s` is None where it has no end."""

    stored: StoredMessage
    expires_in_s: float | None


class HeldPage(NamedTuple):
    """Some of what a topic holds.

    Attributes:
        more: whether anything may follow. There is something on the page then, if anything was asked for.
    """

    held: list[HeldMessage]
    more: bool
