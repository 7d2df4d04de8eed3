"""What a subscriber says of the messages that it has: received, committed, given back.

    RECEIVED     first phase: the message is this subscription's own, and its lock does not time out
    COMMIT       the last phase, or the only one: it never comes again
    RETURN       it goes to the next subscriber

Numbers that the session does not hold, or no longer, are answered `lock-lost` once all others are done
(SMQP GUARANTEE, two-phase commit). The life of a delivery is in `routing.locks`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from routing.decisions import AnswerRequest, Bury, MarkReceived, Record
from routing.delivery import Deliveries
from routing.errors import Refusal, not_all_done
from routing.lifecycle import Lifecycle
from routing.locks import note_reach, standing
from routing.options import ReturnOutcome
from routing.queue import GONE, GUARANTEED, ONE
from routing.state import SiteState
from routing.subscription import Consumer, Lock

UNDONE: Final = "its commit could not be stored"


class Acknowledgements:
    """Finishes messages, or has them taken back, as their subscribers say."""

    def __init__(self, state: SiteState, lifecycle: Lifecycle, deliveries: Deliveries) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._deliveries = deliveries
        self._locks = deliveries.locks

    def received(self, consumer: Consumer, numbers: Iterable[int], request: Any) -> None:
        """Note the first phase; a number that is not held is answered `lock-lost`, after the others."""
        state = self._state
        lost = []
        for number in numbers:
            lock = consumer.locks.get(number)
            if lock is None:
                lost.append(number)
            elif not lock.received:
                note_reach(lock)
                self._locks.unlock(lock)
                lock.received = True
                subscription = lock.subscription
                subscription.received[lock.entry.id] = lock
                if subscription.options.durable and lock.entry.flags & GUARANTEED:
                    state.out.append(MarkReceived(lock.entry.id, subscription.id))
        state.out.append(AnswerRequest(consumer, request, _lost(lost)))

    def commit(self, now: float, consumer: Consumer, numbers: Iterable[int], request: Any) -> None:
        """Finish these deliveries, which are not sent again; as one phase, or after `received`.

        A number that is not held is answered `lock-lost`, after the others are done. What an error of ours
        meets is set aside, and Refusal (store-failed) raised, after the others are done, too.
        """
        lost = []
        freed = {}
        failed = None
        for number in numbers:
            lock = consumer.locks.pop(number, None)
            if lock is None:
                lost.append(number)
                continue
            subscription = lock.subscription
            freed[subscription.id] = subscription
            try:
                if not lock.received:
                    note_reach(lock)
                self._locks.take_from(lock)
                self._lifecycle.finished(lock.entry, subscription, "committed", now, lock.attempt)
            except Exception as error:
                failed = error
                self._deliveries.setting_aside.failed(lock.entry, "a commit", error, now)
        if failed is None:
            self._state.out.append(AnswerRequest(consumer, request, _lost(lost)))
        if self._state.grouping.opened:
            self._deliveries.offer_groups(now)
        for subscription in freed.values():
            self._deliveries.pump(subscription, now)
        if failed is not None:
            raise not_all_done() from failed

    def reached_nobody(self, consumer: Consumer, numbers: Iterable[int]) -> None:
        """Note that these deliveries reached nobody: that they come back counts as no failure."""
        for number in numbers:
            if (lock := consumer.locks.get(number)) is not None and not lock.received:
                lock.is_untouched = True

    def give_back(
        self,
        now: float,
        consumer: Consumer,
        numbers: Iterable[int],
        reason: str,
        delay_s: float,
        request: Any,
        outcome: ReturnOutcome = "failed",
    ) -> None:
        """Give deliveries back: to the next subscriber, or after `delay_s` here; rejected, as dead letters.

        A number that is not held is answered `lock-lost`, after the others are done. What an error of ours
        meets is set aside, and Refusal (store-failed) raised, as with `commit`.
        """
        lost, back = [], []
        failed = None
        for number in numbers:
            lock = consumer.locks.pop(number, None)
            if lock is None:
                lost.append(number)
            else:
                back.append(lock)
        for lock in back:
            if not lock.received:
                note_reach(lock)
            self._locks.take_from(lock)
        # first, so that whoever asked knows when the same message comes to it again
        answer_at = len(self._state.out)
        self._state.out.append(AnswerRequest(consumer, request, _lost(lost)))
        for lock in sorted(back, key=standing):
            try:
                self._deliveries.take_back(lock, outcome, reason or "given back", now, delay_s)
            except Exception as error:
                failed = error
                self._deliveries.setting_aside.failed(lock.entry, "what was given back", error, now)
        for subscription in {lock.subscription.id: lock.subscription for lock in back}.values():
            self._deliveries.pump(subscription, now)
        if failed is not None:
            del self._state.out[answer_at]
            raise not_all_done() from failed

    def buried(self, bury: Bury, now: float) -> None:
        """Finish a message for a subscription, now that it is published on the dead-letter topic."""
        self._lifecycle.finished(bury.entry, bury.subscription, "dead", now, bury.attempts, bury.reason)

    def uncommit(self, commits: Sequence[Record], now: float) -> None:
        """Undo commits that could not be stored: the messages wait again, as if they were given back.

        One that was left to others by its commit, and has ended since, stays ended.
        """
        ended_by_them = {record.entry.id for record in commits if record.final}
        for record in commits:
            if not record.entry.flags & GONE or record.entry.id in ended_by_them:
                self._uncommit(record, now)

    def not_buried(self, record: Record, now: float) -> Bury | None:
        """Undo `buried`, whose dead letter could not be stored: what is to be decided again, once it can be.

        None where the message has been ended since by its timeout, or by whoever removed it. `record` is that
        of its end for the subscription.
        """
        entry, subscription = record.entry, record.subscription
        assert subscription is not None
        if entry.flags & GONE and not record.final:
            return None
        self._lifecycle.unfinished(entry, subscription, "dead", now)
        return Bury(entry, subscription, record.attempt, record.reason)

    def _uncommit(self, record: Record, now: float) -> None:
        entry, subscription = record.entry, record.subscription
        assert subscription is not None
        self._lifecycle.unfinished(entry, subscription, "committed", now)
        if entry.flags & ONE or subscription.id in self._state.subscriptions:
            lock = Lock(0, entry, subscription, record.attempt, now, now)
            self._deliveries.take_back(lock, "released", UNDONE, now)
        else:
            self._lifecycle.given_up(entry, subscription, UNDONE, now)


def _lost(numbers: list[int]) -> Refusal | None:
    if not numbers:
        return None
    shown = ", ".join(map(str, numbers[:10])) + ("" if len(numbers) <= 10 else ", ...")
    return Refusal(Refusal.LOCK_LOST, f"not held by this session, or no longer: {shown}")
