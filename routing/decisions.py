"""All that the router can want done, as tiny values; the broker carries them out in their order.

Two kinds. Those that change the store are gathered into one transaction. The others are effects: they
leave only when the transaction that was open at the time has been committed, so that nothing is
answered, delivered or forwarded that a crash could take back.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from routing.errors import Refusal
from routing.hops import HopEvent
from routing.message import DeliveryMode, Message
from routing.peering.about import OfEntry, OfEntryId, OfNoMessage
from routing.peering.copies import Answered
from routing.peering.decisions import DiscardReceipt, FederationDecision, StoreCopy, StoreSeen
from routing.queue import Entry
from routing.subscription import Consumer, Lock, Subscription, Target
from routing.targets import Topic


class StoreMessage(OfEntry, msgspec.Struct, gc=False):
    """Put a guaranteed message on disk. If that fails, tell `Router.unpublish`, and the publisher.

    Attributes:
        receipt_due: subscriptions that a receipt will speak of, its Y.
        cause: the id of the message of which this one, the server's own, tells (a receipt, a dead letter); it
            is refused with that one, and else stored later. 0 for none.
        head: see `routing.frames.encode_message`; empty where its head has not been encoded yet.
        came_at: site time when it was accepted.
    """

    entry: Entry
    message: Message
    receipt_due: int
    cause: int = 0
    head: bytes = b""
    came_at: float = 0.0


class KeepMessage(OfEntry, msgspec.Struct, gc=False):
    """Keep an unguaranteed message in memory until it is discarded."""

    entry: Entry
    message: Message


class DiscardMessage(OfEntry, msgspec.Struct, gc=False):
    """A message is finished here: delete it and all marks on it, or free its memory."""

    entry: Entry


class SetAside(OfEntry, msgspec.Struct, gc=False):
    """Move what the store has of a message to where the operator can look at it; its end here follows."""

    entry: Entry
    reason: str


class DropSetAside(OfNoMessage, msgspec.Struct, gc=False):
    """Forget what was set aside of a message, or of all where `smuid` is empty."""

    smuid: str


class RouteDelayed(OfEntry, msgspec.Struct, gc=False):
    """Load a message whose delay has ended and give it to `Router.route_delayed`."""

    entry: Entry


class MarkRouted(OfEntry, msgspec.Struct, gc=False):
    """The delay of a message has ended: it is held as any other, with a deadline of its timeout."""

    entry: Entry


class StorePublication(OfNoMessage, msgspec.Struct, gc=False):
    """Remember a Cmuid across restarts."""

    publisher: str
    cmuid: str
    smuid: str


class MarkDue(OfEntryId, msgspec.Struct, gc=False):
    """A message is due to a subscription that another start would take for one that came too late."""

    entry_id: int
    subscription_id: int


class MarkReceived(OfEntryId, msgspec.Struct, gc=False):
    """A subscription has said RECEIVED."""

    entry_id: int
    subscription_id: int


class MarkDone(OfEntryId, msgspec.Struct, gc=False):
    """A subscription is done with a message that others, or late ones, still need.

    Attributes:
        has_it: False where it was moved to the dead-letter topic instead of committed.
    """

    entry_id: int
    subscription_id: int
    has_it: bool


class MarkReceipted(OfEntryId, msgspec.Struct, gc=False):
    """The receipt of a message that lives on has been sent."""

    entry_id: int


class MarkReturned(OfEntryId, msgspec.Struct, gc=False):
    """A message came back, and nobody has it; `subscription_id` is 0 for mode ONE."""

    entry_id: int
    subscription_id: int
    attempts: int


class StoreSubscription(OfNoMessage, msgspec.Struct, gc=False):
    """A durable subscription is new or has new options."""

    subscription: Subscription


class DiscardSubscription(OfNoMessage, msgspec.Struct, gc=False):
    """A durable subscription has ended."""

    subscription_id: int


class StoreTopic(OfNoMessage, msgspec.Struct, gc=False):
    """A topic's own settings have changed."""

    topic: Topic


class StoreAnnotation(OfNoMessage, msgspec.Struct, gc=False):
    """What a front end keeps with a topic has changed; `text` is None where it keeps nothing any more."""

    topic: str
    front_end: str
    text: str | None


class AnswerRequest(msgspec.Struct, gc=False):
    """Answer a request; see `daemon.frontend.Answer`."""

    consumer: Consumer
    request: Any
    error: Refusal | None = None
    smuid: str = ""
    repeated: bool = False
    entry: Entry | None = None

    @property
    def about(self) -> int | None:
        """See `routing.peering.about`."""
        return None if self.entry is None else self.entry.id


class Together(OfNoMessage, msgspec.Struct, gc=False):
    """Where decisions begin, and where they end, that come true together or not at all.

    The last one before the end is the `AnswerRequest`. If one of them cannot be stored, tell
    `Acknowledgements.uncommit` of the commits among them, and `Router.unpublish` of each message.

    Attributes:
        removes: a message is removed among them, which cannot be undone: where only room is missing, they
            wait for it.
    """

    begins: bool
    removes: bool = False


class InputEnd(OfNoMessage, msgspec.Struct, gc=False, frozen=True):
    """What one input has brought about ends here, and so may a transaction, but for one inside `Together`."""


INPUT_END: Final = InputEnd()


class OwnError(OfNoMessage, msgspec.Struct, gc=False):
    """An error of ours met what was to come true together: none of it does."""

    error: Exception


class Deliver(OfEntry, msgspec.Struct, gc=False):
    """Hand a message to a session.

    Attributes:
        number: names the delivery within the session.
        lock: None where it is not acknowledged: unguaranteed, to one that does not acknowledge all.
        attempt: one more than the deliveries that have failed.
        redelivered: it was with somebody before.
    """

    consumer: Consumer
    subscription: Subscription
    entry: Entry
    number: int
    lock: Lock | None
    attempt: int
    redelivered: bool


class Withdraw(OfEntry, msgspec.Struct, gc=False):
    """Tell a session that a delivery is no longer its own."""

    consumer: Consumer
    subscription: Subscription
    number: int
    entry: Entry
    reason: Literal["lock-timeout", "expired", "removed", "dropped"]


class TellRemoval(OfEntry, msgspec.Struct, gc=False):
    """Tell a session that a message that was kept for all has been removed, here or at another site."""

    consumer: Consumer
    subscription: Subscription
    entry: Entry


class Detach(OfNoMessage, msgspec.Struct, gc=False):
    """Tell a session that a subscription no longer delivers to it."""

    consumer: Consumer
    target: Target
    name: str
    reason: Literal["replaced", "removed", "forbidden"]


class Bury(OfEntry, msgspec.Struct, gc=False):
    """Load a message and give it to `Router.buried`, which moves it to the dead-letter topic."""

    entry: Entry
    subscription: Subscription
    attempts: int
    reason: str


OF_A_DELIVERY: Final = frozenset({"delivered", "committed"})
"""Events whose records say no more than the subscription, the attempt, and whether the copy ends with it."""


class Record(OfEntry, msgspec.Struct, gc=False):
    """Write a record to the hop log; see `routing.hops.HopRecord`.

    Attributes:
        due: on published and received, the subscriptions that a receipt counts; None on all others.
        receipt: X/Y on the event receipt; on published, which was asked for, "" for none.
        answered: what a peer said, where the record is of that; else None.
        destinations: on arrived.
    """

    event: HopEvent
    entry: Entry
    subscription: Subscription | None = None
    account: str = ""
    peer: str = ""
    depth: int = 0
    hops: tuple[str, ...] = ()
    attempt: int = 0
    crossing: int = 0
    final: bool = False
    reason: str = ""
    receipt: str = ""
    due: int | None = None
    answered: Answered | None = None
    destinations: tuple[str, ...] = ()


class Refused(OfNoMessage, msgspec.Struct, gc=False):
    """Write a record about a message of which no copy was made, here or at the peer."""

    event: Literal["denied", "duplicate", "loop", "dropped"]
    topic: str
    publisher: str
    reason: str
    size: int
    smuid: str = ""
    peer: str = ""
    depth: int = 0
    hops: tuple[str, ...] = ()
    attempt: int = 0
    mode: DeliveryMode = "ALL"
    priority: int = 0
    guarantee: bool = True


Decision = (
    StoreMessage
    | KeepMessage
    | DiscardMessage
    | SetAside
    | DropSetAside
    | StorePublication
    | MarkDue
    | MarkReceived
    | MarkDone
    | MarkReceipted
    | RouteDelayed
    | MarkRouted
    | MarkReturned
    | StoreSubscription
    | DiscardSubscription
    | StoreTopic
    | StoreAnnotation
    | AnswerRequest
    | Together
    | InputEnd
    | OwnError
    | Deliver
    | Withdraw
    | TellRemoval
    | Detach
    | Bury
    | Record
    | Refused
    | FederationDecision
)


_UNAWAITED: Final = frozenset(
    (Record, MarkDone, DiscardMessage, MarkReceipted, StoreCopy, StoreSeen, DiscardReceipt)
)


def are_awaited(decided: Sequence[Decision]) -> bool:
    """Whether somebody waits for what comes of these; else they may be carried out with what comes next."""
    kinds = set(map(type, decided)) - _UNAWAITED
    if kinds != {AnswerRequest}:
        return bool(kinds)
    answers = (d for d in decided if type(d) is AnswerRequest)
    return any(answer.request is not None or answer.error is not None for answer in answers)


def message_of(decision: Decision) -> int | None:
    """The id of the message that a decision is about, if it is about one; each kind says so itself."""
    return decision.about
