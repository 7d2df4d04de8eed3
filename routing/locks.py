"""What is with subscribers: locked, or received.

    waiting -> locked -> received -> committed
       ^         |           |
       +-- returned <--------+      (given back; the lock timed out; the subscriber left)

A lock times out; what was received does not: once RECEIVED is answered the message is that
subscription's alone until it commits, gives back or unsubscribes, so that no message is worked on twice
(SMQP GUARANTEE, two-phase commit). An unguaranteed message goes the same way with a subscription that
acknowledges all it gets, but in memory only; with any other it is done once it has been handed over.

Here it is taken from those who have it; where it goes then is in `routing.delivery`.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal

from routing.decisions import Deliver, Withdraw
from routing.options import ReturnOutcome
from routing.queue import GROUPED, GUARANTEED, Entry
from routing.state import SiteState
from routing.subscription import Consumer, Lock, Member, Subscription

REACH_MAX: Final = 64
"""Whoever works on so many messages at once may work on all that it has."""


class Locks:
    """What the subscribers of a site have in hand."""

    def __init__(self, state: SiteState) -> None:
        self._state = state

    def of(self, entry: Entry) -> list[Lock]:
        """The locks of a message: of each subscription that has it locked, or received."""
        out = []
        for each in self._state.matching.holders(entry.topic):
            lock = each.locks.get(entry.id) or each.received.get(entry.id)
            if lock is not None:
                out.append(lock)
        return out

    def time_out(self, lock: Lock) -> None:
        """Take a message from a subscriber whose lock has timed out, and who is told so."""
        self.take_from(lock)
        if lock.entry.flags & GROUPED:
            self._state.grouping.end_turn(lock.entry)
        consumer = lock.subscription.consumer
        assert consumer is not None
        del consumer.locks[lock.number]
        self._tell(lock, consumer, "lock-timeout")

    def withdraw(self, lock: Lock, reason: Literal["expired", "removed", "dropped"]) -> None:
        """Take a message from its subscriber, who is told the reason."""
        self.take_from(lock)
        consumer = lock.subscription.consumer
        if consumer is not None and consumer.locks.pop(lock.number, None) is not None:
            self._tell(lock, consumer, reason)

    def _tell(
        self,
        lock: Lock,
        consumer: Consumer,
        reason: Literal["lock-timeout", "expired", "removed", "dropped"],
    ) -> None:
        self._state.out.append(Withdraw(consumer, lock.subscription, lock.number, lock.entry, reason))

    def take_from(self, lock: Lock) -> None:
        """Take a message from its subscriber; where it goes next is the caller's.

        The lock goes on to say `received`: a `Deliver` that is not carried out yet speaks of it.
        """
        if lock.received:
            del lock.subscription.received[lock.entry.id]
        else:
            self.unlock(lock)
        self.note_let_go(lock)

    def note_let_go(self, lock: Lock) -> None:
        """Count an unguaranteed message as with nobody again, so that it is among the first to be dropped."""
        if not lock.entry.flags & GUARANTEED:
            self._state.note_unlocked(lock.entry)

    def unlock(self, lock: Lock) -> None:
        """End a lock, so that it cannot time out any more."""
        locks = lock.subscription.locks
        del locks[lock.entry.id]
        if not locks:
            self._state.locking.pop(lock.subscription, None)

    def let_go(self, whole: Subscription, leaving: Subscription) -> None:
        """Detach one who consumes: what it had received is kept for the subscription, the `whole`."""
        consumer = leaving.detach()
        assert consumer is not None
        for lock in leaving.locks.values():
            consumer.locks.pop(lock.number, None)
            self.note_let_go(lock)
        for lock in leaving.received.values():
            consumer.locks.pop(lock.number, None)
            lock.number = 0
            lock.subscription = whole
        leaving.locks.clear()
        self._state.locking.pop(leaving, None)
        if isinstance(leaving, Member):
            whole.received |= leaving.received
            whole.remove(leaving)
            whole.reach = max(whole.reach, leaving.reach)
            self._state.takers.stop_taking(leaving)
        self._state.release_groups(leaving, whole)

    def _next_of(self, whole: Subscription, entry: Entry) -> Subscription:
        """Which of those who share a subscription is to have what was received before."""
        if entry.flags & GROUPED:
            owner = self._state.grouping.owner(entry)
            if isinstance(owner, Member) and owner in whole.members:
                return owner
        member = whole.members.pop(0)
        whole.members.append(member)
        if entry.flags & GROUPED:
            self._state.hold_group(entry, member)
        return member

    def hand_again(self, whole: Subscription) -> None:
        """Hand out again, marked so, what was received before and not committed."""
        for lock in tuple(whole.received.values()):
            subscription = whole
            if whole.members:
                subscription = self._next_of(whole, lock.entry)
                subscription.received[lock.entry.id] = whole.received.pop(lock.entry.id)
                lock.subscription = subscription
            consumer = subscription.consumer
            assert consumer is not None
            lock.number = consumer.next_number
            consumer.next_number += 1
            consumer.locks[lock.number] = lock
            self._state.out.append(
                Deliver(consumer, subscription, lock.entry, lock.number, lock, lock.attempt, True)
            )


def come_back(leaving: Sequence[Subscription], *, lost: bool) -> list[tuple[Lock, ReturnOutcome]]:
    """What subscribers that leave have locked, as it stood in the queue, and whether that has failed.

    Who leaves in good order has worked on nothing in vain. Who was lost without a word may have been at work
    on its oldest messages, as many as it was ever seen to have begun at once; the others only waited there.
    """
    out: list[tuple[Lock, ReturnOutcome]] = []
    for subscription in leaving:
        begun = subscription.reach if lost else 0
        out += (
            (lock, "failed" if place < begun or begun >= REACH_MAX else "released")
            for place, lock in enumerate(subscription.locks.values())
        )
    return sorted(out, key=lambda back: standing(back[0]))


def note_reach(lock: Lock) -> None:
    """Note that the subscriber has said something of a message that it has locked."""
    subscription, id = lock.subscription, lock.entry.id
    if subscription.reach >= REACH_MAX or next(iter(subscription.locks)) == id:
        return
    oldest = islice(subscription.locks, REACH_MAX)
    place = next((place for place, each in enumerate(oldest, 1) if each == id), REACH_MAX)
    subscription.reach = max(subscription.reach, place)


def standing(lock: Lock) -> tuple[int, int]:
    """Where a message stands in a queue."""
    return -lock.entry.priority, lock.entry.id
