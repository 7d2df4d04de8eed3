"""What one site knows, and the few changes to it that everything else is made of.

`SiteState` belongs to one `Router`. Its parts (publishing, delivering, subscriptions, receipts) share it
and add what they want done to `out`, which the broker takes after each input.
"""

import heapq
import math
from collections.abc import Callable
from typing import Final

import msgspec

from routing.copy_states import is_on_offer
from routing.deadlines import SLOT_MIN_S, Deadlines
from routing.decisions import Decision, DiscardMessage, KeepMessage, StoreMessage
from routing.dedupe import Publications
from routing.grouping import Grouping
from routing.matching import Matching, SubscribeRights
from routing.message import Message
from routing.peering.crossing import Crossing
from routing.peering.removals import Removals
from routing.queue import (
    COUNTED,
    COUNTER_BITS,
    CROSSES,
    DELAYED,
    GONE,
    GROUPED,
    GUARANTEED,
    ONE,
    PASSED_ON,
    SEQUENCED,
    STATED,
    Entry,
)
from routing.shares import Bounds, Shares
from routing.subscription import Lock, Subscription
from routing.system_topics import SystemTopics
from routing.takers import Takers
from routing.targets import Topic

PARKED_SWEPT_FROM: Final = 1_000
"""Pauses that may be of messages which have ended; more only where others were as many at the last sweep."""

ENTRY_BYTES: Final = 1_024
"""Of an unguaranteed message in memory, besides its bodies and unknown headers."""


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds and times that decide over messages; their defaults are in `daemon.settings`.

    Attributes:
        default_timeout_s: how long a message of mode ALL waits where no timeout was stated, and the
            longest wait for a receipt of a message without end.
        lock_s: an unreceived delivery goes to the next subscriber after this.
        max_deliveries: failed deliveries after which a message goes to the dead-letter topic.
        redelivery_wait_s, redelivery_wait_max_s: how long a message waits that has failed twice and that
            nobody else could take, and, the wait doubling with each further failure, the longest.
        queue_messages_max, queue_bytes_max: what one topic may hold; more is refused.
        system_messages_max, system_bytes_max: what may wait on system topics for or from one account.
        unguaranteed_bytes_max: memory for unguaranteed messages that wait or are locked; of those that wait
            the ones that do so longest are dropped, and only where none waits, locked ones.
        dedupe_window_s: how long a Cmuid is remembered.
        subscription_unused_s: a durable subscription that nobody attached to for so long is removed.
        news_kept_s: a site of which nothing later has come for so long is forgotten.
    """

    default_timeout_s: float
    lock_s: float
    max_deliveries: int
    redelivery_wait_s: float
    redelivery_wait_max_s: float
    queue_messages_max: int
    queue_bytes_max: int
    system_messages_max: int
    system_bytes_max: int
    unguaranteed_bytes_max: int
    dedupe_window_s: float
    subscription_unused_s: float
    news_kept_s: float


class SiteState:
    """The router's memory.

    Attributes:
        server: the name of this site.
        boot: raised at each start.
        out: decisions not yet taken by the broker.
        entries: by id, every copy that is held; see `by_age` for their order.
        guaranteed: how many of them have a guarantee.
        is_by_age: False once an old one was held anew.
        delays: copies that nobody is to have before their delays end.
        sequenced: by entry id, publisher and Sequence of those that have one.
        delayed: (site time, tie-break, lock): given back, to be offered again then.
        wake_at: no later than the next thing that time alone brings about; `inf` for none.
        has_account: whether an account of this site is there and can log in.
        shares: what is held of each account, and may be.
        matching: its topics, and who is due for what comes to each.
        takers: those who wait for messages of mode ONE, and what waits for them.
        grouping: whose groups of messages are.
        crossing: of what is held, that which may cross links.
        mishap: told of an error of ours that the site survives, and what was set aside for it.
        removed: tombstones of messages.
        asked_of: by question for a receipt that is not answered for good, the peer that is to answer it; not
            known of a question of an earlier boot whose message has ended here.
        unguaranteed: by id, the unguaranteed messages that wait and nobody has; the longest first.
        unguaranteed_locks: by id, how many subscriptions have an unguaranteed message; the longest first.
        unguaranteed_bytes: what both take.
        header_bytes: by id, of unguaranteed messages that have many headers, or long ones.
        locking: subscriptions with locks that can time out.
    """

    def __init__(
        self,
        server: str,
        boot: int,
        settings: RouterSettings,
        has_account: Callable[[str], bool],
        rights: SubscribeRights,
        mishap: Callable[[str, Exception], None],
        bounds: Callable[[str], Bounds],
        topic_begun: Callable[[str], None],
    ) -> None:
        self.server = server
        self.boot = boot
        self.settings = settings
        self.out: list[Decision] = []
        self.matching = Matching(server, rights, topic_begun)
        self.takers = Takers(self.matching)
        self.grouping = Grouping(self.matching, self.takers)
        self.topics = self.matching.topics
        self.entries: dict[int, Entry] = {}
        self.is_by_age = True
        self.subscriptions: dict[int, Subscription] = {}
        self.by_owner = self.matching.by_owner
        self.sequenced: dict[int, tuple[str, int]] = {}
        self.deadlines = Deadlines()
        self.delays = Deadlines(SLOT_MIN_S)
        self.publications = Publications()
        self.system_topics = SystemTopics(server)
        self.shares = Shares(server, bounds)
        self.locking: dict[Subscription, None] = {}
        self.ordering: dict[int, Subscription] = {}
        self.delayed: list[tuple[float, int, Lock]] = []
        self._swept_at = PARKED_SWEPT_FROM
        self.unguaranteed: dict[int, Entry] = {}
        self.unguaranteed_locks: dict[int, int] = {}
        self.unguaranteed_bytes = 0
        self.header_bytes: dict[int, int] = {}
        self.wake_at = math.inf
        self.removed = Removals()
        self.has_account = has_account
        self.mishap = mishap
        self.crossing = Crossing()
        self.guaranteed = 0
        self.counter = 0
        self.parked = 0
        self.query_counter = 0
        self.asked_of: dict[int, str] = {}
        self.subscription_counter = 0

    @property
    def last_id(self) -> int:
        """The id of the newest message."""
        return self.boot << COUNTER_BITS | self.counter

    def next_id(self) -> int:
        """The id of the next message."""
        self.counter += 1
        return self.last_id

    def next_query(self, peer: str) -> int:
        """The number of the next question for a receipt, which this peer is to answer."""
        self.query_counter += 1
        query = self.boot << COUNTER_BITS | self.query_counter
        self.asked_of[query] = peer
        return query

    def next_subscription_id(self) -> int:
        """The id of the next subscription; those of an earlier boot may still be named by marks."""
        self.subscription_counter += 1
        return self.last_subscription_id

    @property
    def last_subscription_id(self) -> int:
        """The id of the newest subscription, or one below the next."""
        return self.boot << COUNTER_BITS | self.subscription_counter

    def topic(self, name: str) -> Topic:
        """The topic of this name, made if there is none."""
        return self.topics.get(name) or self.matching.begin(name)

    def hold(self, entry: Entry, publisher: str, now: float) -> None:
        """Note a copy that is held from now on; `publisher` is its Account. For `routing.lifecycle`."""
        topic = entry.topic
        self.entries[entry.id] = entry
        topic.messages += 1
        topic.bytes += entry.size
        if (share := entry.share) is not None:
            share.messages += 1
            share.bytes += entry.size
        if entry.deadline != math.inf:
            self.watch(entry, now)
        if entry.flags & GUARANTEED:
            self.guaranteed += 1
        else:
            topic.unguaranteed += 1
        if topic.recipient:
            self.system_topics.hold(entry, publisher)

    def watch(self, entry: Entry, now: float) -> None:
        """Note when the timeout or the delay of a copy ends, which has an end."""
        deadlines = self.delays if entry.flags & DELAYED else self.deadlines
        deadlines.add(entry, now)
        if (ends_at := deadlines.next()) < self.wake_at:
            self.wake_at = ends_at

    def keep(
        self,
        entry: Entry,
        message: Message,
        receipt_due: int,
        now: float,
        cause: int = 0,
        head: bytes = b"",
    ) -> None:
        """Keep the message of a copy, where it is to be kept; see `StoreMessage`."""
        if entry.flags & GUARANTEED:
            self.out.append(StoreMessage(entry, message, receipt_due, cause, head, now))
            return
        self.out.append(KeepMessage(entry, message))
        if header_bytes := message.header_bytes:
            self.header_bytes[entry.id] = header_bytes

    def memory_bytes(self, entry: Entry) -> int:
        """What an unguaranteed message in memory takes, about."""
        return entry.size + ENTRY_BYTES + self.header_bytes.get(entry.id, 0)

    def note_locked(self, entry: Entry) -> None:
        """Note that a subscription has an unguaranteed message: it is among the last to be dropped."""
        locks = self.unguaranteed_locks
        locks[entry.id] = locks.get(entry.id, 0) + 1
        self.unguaranteed.pop(entry.id, None)

    def note_unlocked(self, entry: Entry) -> None:
        """Note that a subscription has an unguaranteed message no longer, by whatever."""
        locks = self.unguaranteed_locks
        if entry.flags & GONE:
            return
        if locks[entry.id] > 1:
            locks[entry.id] -= 1
        else:
            del locks[entry.id]
            self.unguaranteed[entry.id] = entry

    def by_age(self) -> dict[int, Entry]:
        """The `entries` in the order of their ids; those that were held anew stand at the end until then."""
        if not self.is_by_age:
            self.is_by_age = True
            by_age = sorted(self.entries.items())
            self.entries.clear()
            self.entries.update(by_age)
        return self.entries

    def let_go(self, entry: Entry) -> None:
        """Hold a copy no longer: it has ended, and the record of that is written. For `routing.lifecycle`."""
        topic, flags = entry.topic, entry.flags
        del self.entries[entry.id]
        topic.messages -= 1
        topic.bytes -= entry.size
        if (share := entry.share) is not None:
            share.messages -= 1
            share.bytes -= entry.size
        if topic.recipient:
            self.system_topics.discard(entry)
        if entry.deadline != math.inf:
            (self.delays if flags & DELAYED else self.deadlines).forget()
        if flags & GUARANTEED:
            self.guaranteed -= 1
        else:
            topic.unguaranteed -= 1
            if flags & COUNTED:
                self.unguaranteed.pop(entry.id, None)
                self.unguaranteed_locks.pop(entry.id, None)
                self.unguaranteed_bytes -= self.memory_bytes(entry)
            self.header_bytes.pop(entry.id, None)
        if flags & STATED:
            topic.kept.discard(entry.id)
        if flags & ONE:
            topic.attempts.pop(entry.id, None)
            if flags & GROUPED:
                self.grouping.let_go(entry)
                self._wake_for_groups()
        if flags & SEQUENCED:
            self.sequenced.pop(entry.id, None)
        self.out.append(DiscardMessage(entry))
        if flags & CROSSES:
            self.crossing.forget(entry)
        if not topic.messages:
            self.matching.forget_if_unused(topic)

    def recount(self, entry: Entry) -> None:
        """Put right what counts a copy that ended, when an error of ours kept `let_go` from it."""
        self.crossing.forget(entry)
        held = self.entries.values()
        self.guaranteed = sum(1 for each in held if each.flags & GUARANTEED)
        if (share := entry.share) is not None:
            sizes = [each.size for each in held if each.share is share and not each.flags & PASSED_ON]
            share.messages, share.bytes = len(sizes), sum(sizes)
        self.system_topics.discard(entry)
        self.sequenced.pop(entry.id, None)
        if not entry.flags & GUARANTEED:
            topic = entry.topic
            topic.unguaranteed = sum(
                1 for each in held if each.topic is topic and not each.flags & GUARANTEED
            )
            self.unguaranteed.pop(entry.id, None)
            self.unguaranteed_locks.pop(entry.id, None)
            self.header_bytes.pop(entry.id, None)
            self.unguaranteed_bytes = sum(self.memory_bytes(each) for each in held if each.flags & COUNTED)

    def release_groups(
        self,
        leaving: Subscription,
        heir: Subscription | None = None,
        is_released: Callable[[str], bool] = lambda topic: True,
    ) -> None:
        """Release as `Grouping.release` does; offer what others may have now to them, here and elsewhere."""
        self.grouping.release(leaving, heir, is_released)
        crossing, name = self.crossing, leaving.target.name
        if leaving.pattern:
            self.grouping.left.update(crossing.topics.under(name))
        elif name in crossing.by_topic:
            self.grouping.left.add(name)
        self._wake_for_groups()

    def hold_group(self, entry: Entry, subscription: Subscription) -> None:
        """Hold as `Grouping.hold` does; offer the subscription what it may have now."""
        self.grouping.hold(entry, subscription)
        self._wake_for_groups()

    def _wake_for_groups(self) -> None:
        if self.grouping.opened or self.grouping.left:
            self.wake_at = 0.0

    def park(self, lock: Lock, until: float) -> None:
        """Offer what was given back again at a later time."""
        if lock.entry.flags & GROUPED:
            self.grouping.pause(lock.entry)
        self.parked += 1
        heapq.heappush(self.delayed, (until, self.parked, lock))
        self.wake_at = min(self.wake_at, until)
        if len(self.delayed) > self._swept_at:
            self._sweep_parked()

    def _sweep_parked(self) -> None:
        """Forget the pauses of what has ended: a message may be held far shorter than its pause."""
        self.delayed[:] = [each for each in self.delayed if self._is_awaited(each[2])]
        heapq.heapify(self.delayed)
        self._swept_at = max(PARKED_SWEPT_FROM, 2 * len(self.delayed))

    def _is_awaited(self, lock: Lock) -> bool:
        """Whether a message is offered again once its pause is over; of mode ALL, to whoever had it."""
        is_known = lock.entry.flags & ONE or lock.subscription.id in self.subscriptions
        return is_on_offer(lock.entry) and bool(is_known)

    def next_wake(self) -> float:
        """Site time of the next thing that time alone brings about; `inf` for none."""
        wake = min(self.deadlines.next(), self.delays.next())
        if self.delayed:
            wake = min(wake, self.delayed[0][0])
        for subscription in self.locking:
            wake = min(wake, subscription.next_time_out)
        for subscription in self.ordering.values():
            if subscription.order is not None:
                wake = min(wake, subscription.order.next_release() or math.inf)
        return wake


def raise_it(what: str, error: Exception) -> None:
    """Raise an error of ours: what is done with one where no other way is given."""
    raise error
