"""Handing messages to subscribers, and taking back what they do not finish.

Who is due for a message is in `routing.matching`, what is with subscribers in `routing.locks`, and what they
say of it in `routing.acknowledging`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from routing.copy_states import is_kept, is_on_offer
from routing.decisions import Deliver, MarkDone, Record, TellRemoval
from routing.groups import Group
from routing.lifecycle import Lifecycle, has_failed
from routing.locks import Locks, come_back
from routing.options import ReturnOutcome
from routing.queue import COUNTED, GONE, GROUPED, GUARANTEED, ONE, STATED, Entry
from routing.setting_aside import SettingAside
from routing.state import SiteState
from routing.subscription import Consumer, Lock, Subscription

WAIT_DOUBLINGS_MAX: Final = 16
DELAY_MAX_S: Final = 86_400.0
"""The longest that a client may have a message that it gives back wait."""


class Deliveries:
    """Assigns messages to subscriptions that can take them, and ends or returns them.

    Args:
        hand_over: gives a message of mode ONE that nobody here can take to another site, if one wants it.
    """

    def __init__(self, state: SiteState, lifecycle: Lifecycle, hand_over: Callable[[Entry], bool]) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._hand_over = hand_over
        self.locks = Locks(state)
        self._hungry: list[Subscription] = []
        self._feeding = False
        self.setting_aside = SettingAside(state, lifecycle, self.drop)

    # -- to the subscriber ------------------------------------------------------------------------

    def offer_to_one(self, entry: Entry, now: float, had: Subscription | None = None) -> None:
        """Give a message of mode ONE, new or come back, to the next subscription that can take it.

        `had` has just had it: that one is next only where nobody else can take it. One of a group goes to
        the subscription whose group it is.
        """
        if entry.flags & GROUPED:
            self._offer_of_group(entry, now)
            return
        subscription = self._state.takers.next_taker(entry.topic, had)
        if subscription is not None:
            self._assign(subscription, entry, now)
            return
        if self._hand_over(entry):
            return
        entry.compact(self._state.server)
        self._state.takers.wait(entry)
        self._count(entry, now)

    def _offer_of_group(self, entry: Entry, now: float) -> None:
        """Let it wait in its group, where it stood, and give what is first there to whose it is."""
        entry.compact(self._state.server)
        self._state.grouping.wait(entry)
        self._count(entry, now)
        self.offer_groups(now)
        waiting = entry.topic.shared
        if entry in waiting and self._hand_over(entry):
            waiting.take(entry)

    def offer_groups(self, now: float) -> None:
        """Give on what is first in groups of which somebody may have it, who could not before."""
        grouping = self._state.grouping
        while grouping.opened:
            opened, grouping.opened = grouping.opened, []
            for group in sorted(opened, key=_urgency):
                if (found := grouping.take_of(group)) is not None:
                    self._give(*found, now)
                    grouping.opened.append(group)
                elif group.is_free:
                    for entry in list(group.waiting):
                        if self._hand_over(entry):
                            group.queue.take(entry)

    def offer_to_all(self, entry: Entry, due: list[Subscription], now: float) -> None:
        """Offer a new message of mode ALL to the subscriptions to which it is `due`."""
        self._keep_for_others(entry, now)
        for subscription in due:
            if entry.flags & GONE:
                return
            self.offer(subscription, entry, now)

    def _keep_for_others(self, entry: Entry, now: float) -> None:
        """Keep a message of mode ALL for late subscribers, and store who has it by another subscription."""
        matching = self._state.matching
        if entry.flags & STATED:
            matching.keep(entry)
            self._count(entry, now)
        if entry.flags & GUARANTEED:
            for passed_over in entry.topic.followers.passed_over:  # as they were found for `due`
                if passed_over.options.durable:
                    self._state.out.append(MarkDone(entry.id, passed_over.id, has_it=False))

    def hold_back(self, entry: Entry, now: float) -> None:
        """Take in a copy that nobody is to have yet."""
        entry.compact(self._state.server)
        self._count(entry, now)

    def offer_delayed(self, entry: Entry, due: list[Subscription], now: float) -> None:
        """Offer as `offer_to_all` does, where others that came later may be waiting."""
        self._keep_for_others(entry, now)
        for subscription in due:
            self.offer_late(subscription, entry, now)
            self.pump_all(subscription, now)

    def offer(self, subscription: Subscription, entry: Entry, now: float) -> None:
        """Queue a message of mode ALL for a subscription, in its order where it asks for one."""
        order = subscription.order
        if order is None or (key := self._state.sequenced.get(entry.id)) is None:
            self._enqueue(subscription, entry, now)
            return
        self._count(entry, now)
        for each in order.arrived(entry, *key, now):
            self._enqueue(subscription, each, now)
        self._watch_order(subscription)

    def offer_late(self, subscription: Subscription, entry: Entry, now: float) -> None:
        """Offer as `offer` does, to one that is joining: what has come since may wait for it already."""
        if subscription.order is not None:
            self.offer(subscription, entry, now)
        elif is_on_offer(entry):
            entry.compact(self._state.server)
            subscription.queue.insert(entry)
            self._count(entry, now)

    def _watch_order(self, subscription: Subscription) -> None:
        release_at = subscription.order.next_release() if subscription.order is not None else None
        if release_at is None:
            self._state.ordering.pop(subscription.id, None)
        else:
            self._state.ordering[subscription.id] = subscription
            self._state.wake_at = min(self._state.wake_at, release_at)

    def _enqueue(self, subscription: Subscription, entry: Entry, now: float) -> None:
        if not is_on_offer(entry):
            return
        if subscription.ready and not subscription.queue:
            self._assign(subscription, entry, now)
        elif subscription.members and not subscription.queue and (member := subscription.next_member()):
            self._assign(member, entry, now)
        else:
            entry.compact(self._state.server)
            subscription.queue.push(entry)
            self._count(entry, now)

    def _count(self, entry: Entry, now: float) -> None:
        """An unguaranteed message that waits or is locked takes memory, of which there is only so much.

        What nobody has is dropped first, and there what has waited longest.
        """
        state = self._state
        if entry.flags & (GUARANTEED | COUNTED):
            return
        entry.flags |= COUNTED
        state.unguaranteed_bytes += state.memory_bytes(entry)
        if entry.id not in state.unguaranteed_locks:
            state.unguaranteed[entry.id] = entry
        while state.unguaranteed_bytes > state.settings.unguaranteed_bytes_max:
            if state.unguaranteed:
                oldest, holders = next(iter(state.unguaranteed.values())), []
            else:
                oldest = state.entries[next(iter(state.unguaranteed_locks))]
                holders = self.locks.of(oldest)
            self._end(oldest, holders, "dropped", now, "unguaranteed, and memory for such messages is full")

    def pump(self, subscription: Subscription, now: float) -> None:
        """Give a subscription what waits for it, as far as it can take more."""
        failed_before = False
        while subscription.ready:
            entry = self._state.takers.take_next(subscription)
            if entry is None:
                return
            if not self._give(subscription, entry, now):
                if failed_before:  # it may be the subscription: what waits is not all to be set aside
                    return
                failed_before = True

    def _give(self, subscription: Subscription, entry: Entry, now: float) -> bool:
        """Give a subscription what was taken out of a queue for it; False where an error of ours met it."""
        try:
            if entry.deadline <= now:
                self.expire(entry, now)
            else:
                self._assign(subscription, entry, now)
        except Exception as error:  # it is in no queue any more
            self.setting_aside.failed(entry, "a delivery", error, now)
            return False
        return True

    def pump_all(self, subscription: Subscription, now: float) -> None:
        """Pump a subscription and each of those who may share it."""
        for each in tuple(subscription.holders):
            self.pump(each, now)

    def _assign(self, subscription: Subscription, entry: Entry, now: float) -> None:
        state = self._state
        consumer = subscription.consumer
        assert consumer is not None
        number = consumer.next_number
        consumer.next_number = number + 1
        entry.topic.traffic.delivered += 1
        entry.origin = entry.smuid(state.server)  # made once for all records of the delivery
        flags = entry.flags
        attempts = entry.topic.attempts if flags & ONE else subscription.attempts
        failed = attempts.get(entry.id) if attempts else None
        attempt, redelivered = (1, False) if failed is None else (failed + 1, True)
        guaranteed = flags & GUARANTEED
        if not guaranteed and not subscription.acknowledges_all:
            state.out.append(Deliver(consumer, subscription, entry, number, None, attempt, redelivered))
            self._lifecycle.finished(entry, subscription, "delivered", now)
            return
        lock_s = subscription.options.lock_s
        ends_at = now + (state.settings.lock_s if lock_s is None else lock_s)
        lock = Lock(number, entry, subscription, attempt, now, ends_at)
        if not subscription.locks:
            state.locking[subscription] = None
            subscription.locks_cross = False
        elif ends_at < next(reversed(subscription.locks.values())).ends_at:
            subscription.locks_cross = True
        if ends_at < state.wake_at:
            state.wake_at = ends_at
        subscription.locks[entry.id] = lock
        consumer.locks[number] = lock
        state.out.append(Deliver(consumer, subscription, entry, number, lock, attempt, redelivered))
        state.out.append(Record("delivered", entry, subscription, attempt=attempt))
        if not guaranteed:
            state.note_locked(entry)
            self._count(entry, now)

    def resume(self, now: float, consumer: Consumer) -> None:
        """Give a session that can take more again what waits for it."""
        consumer.open = True
        for subscription in consumer.subscriptions.values():
            self.pump(subscription, now)

    # -- back into the queue ----------------------------------------------------------------------

    def take_back(
        self, lock: Lock, outcome: ReturnOutcome, reason: str, now: float, delay_s: float = 0.0
    ) -> None:
        """Let what was with a subscriber wait again, where it stood, unless it ends or is buried."""
        if outcome == "withheld" and is_on_offer(lock.entry) and not lock.entry.flags & ONE:
            self._lifecycle.withheld(lock.entry, lock.subscription, reason, now)
            return
        if not self._lifecycle.returned(lock, outcome, reason):
            return
        settings = self._state.settings
        if lock.attempt > 1 and has_failed(lock, outcome) and self._is_only_taker(lock):
            # a growing pause, or one bad message would be delivered in circles
            doublings = min(lock.attempt - 2, WAIT_DOUBLINGS_MAX)
            wait_s = settings.redelivery_wait_s * 2.0**doublings
            delay_s = max(delay_s, min(wait_s, settings.redelivery_wait_max_s))
        if delay_s > 0:
            self._state.park(lock, now + min(delay_s, DELAY_MAX_S))
        else:
            self.offer_again(lock, now)

    def _is_only_taker(self, lock: Lock) -> bool:
        had = lock.subscription
        if lock.entry.flags & GROUPED and self._state.grouping.stays_with(lock.entry, had):
            return True
        if not lock.entry.flags & ONE:
            return all(member is had for member in self._state.subscriptions[had.id].members)
        return self._state.takers.is_only_taker(lock.entry.topic, had)

    def offer_again(self, lock: Lock, now: float) -> None:
        """Offer a message that was given back to the next who can take it."""
        entry, subscription = lock.entry, lock.subscription
        if not is_on_offer(entry):
            return
        if entry.flags & ONE:
            self.offer_to_one(entry, now, subscription)
        elif (whole := self._state.subscriptions.get(subscription.id)) is not None:
            if whole.pattern and not self._state.matching.may_have(whole, entry.topic.name):
                if whole.had_before is not None:
                    whole.had_before.lack(entry.id)
                self._lifecycle.given_up(entry, whole, "forbidden", now)
                return
            whole.queue.insert(entry)
            self.pump(whole.next_member(subscription) or whole, now)

    def abandon(
        self, whole: Subscription, leaving: Sequence[Subscription], now: float, reason: str, *, lost: bool
    ) -> None:
        """Detach those who have left: what is locked goes on; what was received stays the subscription's.

        `leaving` is `whole` itself, or some of those who share it. `lost`: without a word, see `come_back`.
        """
        back = come_back(leaving, lost=lost)
        for each in leaving:
            self.locks.let_go(whole, each)
        for lock, outcome in back:
            self.take_back(lock, outcome, reason, now)
        if whole.members:
            self.locks.hand_again(whole)

    # -- time -------------------------------------------------------------------------------------

    def release(self, subscription: Subscription, now: float) -> None:
        """Hand on what has waited long enough for a Sequence that did not come."""
        if subscription.order is not None:
            for entry in subscription.order.release(now):
                try:
                    self._enqueue(subscription, entry, now)
                except Exception as error:
                    self.setting_aside.failed(entry, "the end of a wait for a Sequence", error, now)
        self._watch_order(subscription)

    def expire(self, entry: Entry, now: float) -> None:
        """End a message whose timeout has ended; what a subscriber has already received is left to it."""
        if not is_on_offer(entry):
            return
        holders = self.locks.of(entry)
        self._lifecycle.timed_out(entry, sum(lock.received for lock in holders), now)
        self._take_away([lock for lock in holders if not lock.received], "expired", now)

    def retract(self, entry: Entry, now: float) -> None:
        """Remove as `remove` does, and tell those who want to know of what was kept for all."""
        if is_kept(entry):
            for subscription in self._state.matching.taking(entry.topic, "ALL"):
                if subscription.consumer is not None and subscription.options.tells_removals:
                    self._state.out.append(TellRemoval(subscription.consumer, subscription, entry))
        self.remove(entry, now)

    def remove(self, entry: Entry, now: float) -> None:
        """End a copy everywhere at this site, with whomever it is: nobody is to have it."""
        self._end(entry, self.locks.of(entry), "removed", now)

    def drop(self, entry: Entry, now: float, reason: str) -> None:
        """Remove as `remove` does, where the site cannot keep the copy; recorded as dropped."""
        self._end(entry, self.locks.of(entry), "dropped", now, reason)

    def _end(
        self,
        entry: Entry,
        holders: list[Lock],
        event: Literal["removed", "dropped"],
        now: float,
        reason: str = "",
    ) -> None:
        self._lifecycle.take_away(entry, event, now, reason)
        self._take_away(holders, event, now)

    def _take_away(
        self, holders: list[Lock], reason: Literal["expired", "removed", "dropped"], now: float
    ) -> None:
        for lock in holders:
            self.locks.withdraw(lock, reason)
        # what is pumped may find more that has expired: a list, since a chain of it can be long
        self._hungry += [lock.subscription for lock in holders]
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._hungry:
                self.pump(self._hungry.pop(), now)
        finally:
            self._feeding = False


def _urgency(group: Group[Subscription]) -> tuple[int, int]:
    first = group.waiting.peek()
    return (0, 0) if first is None else (-first.priority, first.id)
