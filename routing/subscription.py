"""Subscriptions, the sessions that consume from them, and what they have in common that is subscribed to.

    Target 1 --- n Subscription n --- 0..1 Consumer (one login's session)
    Topic, Pattern        Subscription 1 --- n Member n --- 1 Consumer, where sessions share it

A topic (`targets.py`) has one shared queue for mode ONE, and each subscription has a queue of its own for
mode ALL. A message handed to a consumer is locked: it is in `Subscription.locks` until it is committed, given
back or timed out, or in `Subscription.received` once the subscriber has said RECEIVED.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, takewhile
from typing import Any, Final

import msgspec

from routing.groups import OwnedGroups
from routing.had_before import HadBefore
from routing.options import SubscribeOptions
from routing.ordering import SequenceOrder
from routing.queue import ONE, Entry, PriorityQueue
from routing.waiting import WaitingQueues


class Lock(msgspec.Struct):
    """A message that is with a subscriber.

    Attributes:
        number: names the delivery within the consumer's session; 0 while nobody is attached.
        began_at: site time at which it was handed out.
        ends_at: site time at which it goes to the next; unused once received.
        attempt: from 1.
        is_untouched: it is known that it has reached nobody.
    """

    number: int
    entry: Entry
    subscription: "Subscription"
    attempt: int
    began_at: float
    ends_at: float
    received: bool = False
    is_untouched: bool = False


class Consumer:
    """A session, as the router sees it: what it has in hand, and whether it can take more.

    Attributes:
        handle: the broker's own object for it: where what is decided for the session is put.
        open: False while too much that was handed over has not been sent yet.
        locks: by delivery number, what the session holds.
    """

    __slots__ = ("account", "channel", "handle", "locks", "next_number", "open", "subscriptions")

    def __init__(self, handle: Any, account: str, channel: str) -> None:
        self.handle = handle
        self.account = account
        self.channel = channel
        self.open = True
        self.next_number = 1
        self.locks: dict[int, Lock] = {}
        self.subscriptions: dict[tuple[str, str], Subscription] = {}

    def pause(self) -> None:
        """Give the session nothing more until `Deliveries.resume`: it has much to send yet."""
        self.open = False


class Subscription:
    """One account and channel's wish for a topic, or for all of a pattern.

    One session consumes from it, or several that share it.

    Attributes:
        id: unique at this site, never reused; kept in the store for durable ones.
        pattern: that it is to; "" where it is to a topic.
        turn: of those who wait for a message of mode ONE the one with the least is next.
        owner: `account:channel@server`, as in the header Account.
        label: what the hop log calls it: its owner, and after a slash its name, where it has one.
        since: messages with a greater id are due to it (and older ones with a stated timeout), but for those
            of topics to which it has had the right for less long.
        in_time: ids of messages that it had in hand when it lost that right and got it back.
        had_before: what it has had of topics whose right it lost; None where nothing is known of that.
        used_at: site time at which a session was last noted to consume from it.
        attempts: failed deliveries so far, by entry id, of messages of mode ALL that came back; 0 of one that
            was not touched.
        reach: how many deliveries its client was ever seen to have begun at once: the place, by age, of the
            youngest of which it said something.
        groups: of messages of mode ONE, those that are its own; None where it never had one.
        joining: the tasks that still offer it what its topics keep; it gets nothing until they have ended.
        members: those who share it, whoever got something last behind the others. While there are any they
            have what is locked and received, and it has no consumer itself.
        is_taken_over: see `taken_over`.
        counted: what of it counts at its target, as `Target.count` has found it.
        locks_cross: a later lock of it may end before an earlier one, as those last shorter now.
    """

    __slots__ = (
        "accepts_all",
        "accepts_one",
        "acknowledges_all",
        "attempts",
        "consumer",
        "counted",
        "groups",
        "had_before",
        "id",
        "in_time",
        "is_taken_over",
        "joining",
        "label",
        "locks",
        "locks_cross",
        "members",
        "offered",
        "options",
        "order",
        "owner",
        "pattern",
        "queue",
        "reach",
        "received",
        "since",
        "target",
        "turn",
        "used_at",
    )

    def __init__(
        self, id: int, target: "Target", owner: str, options: SubscribeOptions, since: int, used_at: float
    ) -> None:
        self.id = id
        self.target = target
        self.pattern = target.name if target.is_pattern else ""
        self.owner = owner
        self.label = f"{owner}/{options.name}" if options.name else owner
        self.since = since
        self.in_time: Collection[int] = ()
        self.had_before: HadBefore | None = None
        self.used_at = used_at
        self.consumer: Consumer | None = None
        self.queue = PriorityQueue()
        self.groups: OwnedGroups[Subscription] | None = None
        self.locks: dict[int, Lock] = {}
        self.locks_cross = False
        self.received: dict[int, Lock] = {}
        self.attempts: dict[int, int] = {}
        self.offered = False
        self.turn = 0
        self.joining: list[Any] = []
        self.reach = 1
        self.order: SequenceOrder | None = None
        self.members: list[Member] = []
        self.is_taken_over = False
        self.counted = 0
        self.set(options)

    def set(self, options: SubscribeOptions) -> None:
        """Take on options."""
        self.options = options
        self.accepts_one = options.accepts != "ALL"
        self.accepts_all = options.accepts != "ONE"
        self.acknowledges_all = options.acknowledges_all
        if not options.ordered:
            self.order = None
        elif self.order is None:
            self.order = SequenceOrder()
        self.target.count(self)

    def attach(self, consumer: Consumer) -> None:
        """Have a session consume from it."""
        self.consumer = consumer
        self.target.count(self)

    def detach(self) -> Consumer | None:
        """Have nobody consume from it; returns the session that did."""
        consumer, self.consumer = self.consumer, None
        self.target.count(self)
        return consumer

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Let it pass for attached meanwhile: those who consume from it are detached for the sake of another.

        What comes back from them would leave the site for want of anybody here who takes it.
        """
        self.is_taken_over = True
        try:
            yield
        finally:
            self.is_taken_over = False
            self.target.count(self)

    def add(self, member: "Member") -> None:
        """Have one more share it."""
        self.members.append(member)
        self.target.count(self)

    def remove(self, member: "Member") -> None:
        """Have one share it no longer."""
        self.members.remove(member)
        self.target.count(self)

    def joined_after(self, entry: Entry) -> bool:
        """Whether it got the message as a late subscriber, of whom a receipt does not speak."""
        if entry.flags & ONE:
            return False
        since = self.since
        if since < entry.id and self.target.was_extended:
            since = self.target.since(entry.topic.name)
        return since >= entry.id and entry.id not in self.in_time

    @property
    def ready(self) -> bool:
        """Whether it can take one more message now."""
        consumer = self.consumer
        return (
            consumer is not None
            and consumer.open
            and not self.joining
            and not (self.target.is_gathering and self.accepts_one)
            and len(self.locks) + len(self.received) < self.options.credit
        )

    def timed_out(self, now: float) -> list[Lock]:
        """Those of its locks that have timed out, which are to be ended now."""
        locks = self.locks.values()
        if not self.locks_cross:
            return list(takewhile(lambda lock: lock.ends_at <= now, locks))
        others = [lock.ends_at for lock in locks if lock.ends_at > now]
        self.locks_cross = any(earlier > later for earlier, later in pairwise(others))
        return [lock for lock in locks if lock.ends_at <= now]

    @property
    def next_time_out(self) -> float:
        """Site time at which the next of its locks times out, of which there is one."""
        locks = self.locks.values()
        return min(lock.ends_at for lock in locks) if self.locks_cross else next(iter(locks)).ends_at

    @property
    def holders(self) -> "Sequence[Subscription]":
        """With whom its messages are, locked or received: itself, or those who share it."""
        return self.members or (self,)

    @property
    def attached(self) -> bool:
        """Whether anybody consumes from it, or is about to in the place of another."""
        return self.consumer is not None or bool(self.members) or self.is_taken_over

    def next_member(self, had: "Subscription | None" = None) -> "Subscription | None":
        """The next of those who share it and can take one more message now; `had` if only that one can."""
        members = self.members
        for place, member in enumerate(members):
            if member is not had and member.ready:
                members.append(members.pop(place))
                return member
        return had if members and had is not None and had.ready else None


class Member(Subscription):
    """A session's part in a subscription that is shared: its credit, and what it has in hand.

    To the store and the hop log it is the subscription, whose id, queue and attempts it has.
    """

    __slots__ = ("whole",)

    def __init__(self, whole: Subscription, consumer: Consumer, options: SubscribeOptions) -> None:
        super().__init__(whole.id, whole.target, whole.owner, options, whole.since, whole.used_at)
        self.whole = whole
        self.consumer = consumer
        self.queue = whole.queue
        self.attempts = whole.attempts
        self.reach = whole.reach
        self.in_time = whole.in_time

    @property
    def ready(self) -> bool:
        """Whether it can take one more message now."""
        return super().ready and not self.whole.joining


_TAKES_ONE: Final = 1
_TAKES_ALL: Final = 2
_ATTENDS: Final = 4


class Target:
    """What a subscription is to.

    Who takes its messages is counted, as each that comes or goes asks whether another one is there.

    Attributes:
        name: of the topic, or the pattern.
        subscriptions: by id; for `enter` and `leave` alone to change.
        taking_one, taking_all: how many of them take messages of that mode.
        attended: to how many of those that take mode ONE somebody is attached.
        shared: the messages of mode ONE that wait for a subscriber; of a pattern None while nobody needs it.
        is_gathering: what is in `shared` is still looked for, of a pattern; who takes it gets nothing yet.
        was_extended: of a pattern, the account came to have some of it later; see `since`.
        takers: subscriptions that may be able to take a message of mode ONE, next first.
    """

    __slots__ = ("attended", "name", "subscriptions", "takers", "taking_all", "taking_one")

    shared: PriorityQueue | WaitingQueues[str] | None
    is_pattern = False
    is_gathering = False
    was_extended = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: dict[int, Subscription] = {}
        self.takers: deque[Subscription] = deque()
        self.taking_one = self.taking_all = self.attended = 0

    def enter(self, subscription: Subscription) -> None:
        """Add a subscription."""
        self.subscriptions[subscription.id] = subscription
        self.count(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Take out a subscription that has ended."""
        del self.subscriptions[subscription.id]
        self.count(subscription)

    def since(self, topic: str) -> int:
        """The id after which those who subscribe may have messages of a topic; 0 for all."""
        return 0

    def count(self, subscription: Subscription) -> None:
        """Count a subscription as it is now, instead of as it was when it was last counted.

        One that is not entered, or is part of one that is shared, does not count.
        """
        counts = 0
        if self.subscriptions.get(subscription.id) is subscription:
            if subscription.accepts_one:
                counts = _TAKES_ONE | _ATTENDS if subscription.attached else _TAKES_ONE
            if subscription.accepts_all:
                counts |= _TAKES_ALL
        before = subscription.counted
        if counts != before:
            subscription.counted = counts
            self.taking_one += bool(counts & _TAKES_ONE) - bool(before & _TAKES_ONE)
            self.taking_all += bool(counts & _TAKES_ALL) - bool(before & _TAKES_ALL)
            self.attended += bool(counts & _ATTENDS) - bool(before & _ATTENDS)
