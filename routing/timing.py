"""What time alone brings about: locks, timeouts, pauses and delays end, receipts are due, steps follow.

Each of these is taken out of its schedule before it is carried out, and one that fails by an error of ours is
set aside: it comes up once, and holds up none of the others.
"""

import heapq
from typing import Final

from routing.delivery import Deliveries
from routing.ended_delays import EndedDelays
from routing.federation.federation import Federation
from routing.locks import standing
from routing.receipts import Receipts
from routing.state import SiteState
from routing.steps import Steps
from routing.subscription import Lock

FAILED_WAIT_S: Final = 1.0
"""After an error that belongs to nothing that can be set aside."""


class Timing:
    """Owned by the router."""

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        receipts: Receipts,
        steps: Steps,
        federation: Federation,
    ) -> None:
        self._state = state
        self._deliveries = deliveries
        self._steps = steps
        self._parts = (
            self._end_locks,
            self._end_pauses,
            self._end_delays,
            self._end_waits,
            self._expire,
            receipts.tick,
            steps.tick,
            federation.spreading.tick,
            federation.rerouting.tick,
            federation.counting.tick,
            deliveries.offer_groups,
            lambda now: federation.custody.pull_left(),
        )
        self._wakes = (
            lambda now: state.next_wake(),
            lambda now: receipts.next_wake(),
            steps.next_wake,
            lambda now: federation.spreading.due_at,
            lambda now: federation.rerouting.due_at,
            lambda now: federation.counting.due_at,
        )

    def tick(self, now: float) -> None:
        """Carry out what is due, and say in `SiteState.wake_at` when there is more."""
        soonest = now
        for part in self._parts:
            try:
                part(now)
            except Exception as error:
                self._state.mishap("what time brings about", error)
                soonest = now + FAILED_WAIT_S
        try:
            wake_at = min(wake(now) for wake in self._wakes)
        except Exception as error:
            self._state.mishap("when time brings something about", error)
            wake_at = soonest = now + FAILED_WAIT_S
        self._state.wake_at = max(wake_at, soonest)

    def _end_locks(self, now: float) -> None:
        state, deliveries = self._state, self._deliveries
        for subscription in list(state.locking):
            late = subscription.timed_out(now)
            for lock in late:
                try:
                    deliveries.locks.time_out(lock)
                except Exception as error:
                    subscription.locks.pop(lock.entry.id, None)
                    if not subscription.locks:
                        state.locking.pop(subscription, None)
                    deliveries.setting_aside.failed(lock.entry, "the end of a lock", error, now)
            for lock in late:
                try:
                    deliveries.take_back(lock, "failed", "lock timed out", now)
                except Exception as error:
                    deliveries.setting_aside.failed(lock.entry, "the end of a lock", error, now)
            if late:
                deliveries.pump(subscription, now)

    def _end_pauses(self, now: float) -> None:
        delayed = self._state.delayed
        again: list[Lock] = []
        while delayed and delayed[0][0] <= now:
            again.append(heapq.heappop(delayed)[2])
        for lock in sorted(again, key=standing):
            try:
                self._deliveries.offer_again(lock, now)
            except Exception as error:
                self._deliveries.setting_aside.failed(lock.entry, "the end of a pause", error, now)

    def _end_delays(self, now: float) -> None:
        if ended := self._state.delays.expired(now):
            self._steps.begin(EndedDelays(self._state, ended), now)

    def _end_waits(self, now: float) -> None:
        """Sequences that never came."""
        for subscription in list(self._state.ordering.values()):
            try:
                self._deliveries.release(subscription, now)
            except Exception as error:
                self._state.ordering.pop(subscription.id, None)  # until the next one arrives
                self._state.mishap("what waits for a Sequence", error)

    def _expire(self, now: float) -> None:
        for entry in self._state.deadlines.expired(now):
            try:
                self._deliveries.expire(entry, now)
            except Exception as error:
                self._deliveries.setting_aside.failed(entry, "the end of a timeout", error, now)
