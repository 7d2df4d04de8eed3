"""What ended subscriptions no longer hold up, however much that is: in steps, as topics are emptied.

Messages of mode ALL wait in a queue of each subscription, and end when they are due to nobody any more. A
subscription is gone at once for everybody; what waited for it is counted down afterwards, `STEP_S` apart and
no faster than the decisions are carried out. A crash in between loses nothing: to a subscription that the
store does not know, nothing is due after the start.
"""

import math
from collections import deque
from collections.abc import Iterable

import msgspec

from routing.emptying import DECISIONS_MAX, ENDED_MAX, STEP_S
from routing.lifecycle import Lifecycle
from routing.queue import EXPIRED, GONE, Entry
from routing.setting_aside import SettingAside
from routing.state import SiteState
from routing.subscription import Subscription


class Leaving(msgspec.Struct):
    """One subscription that has ended; what is left of `waiting` and of its queue is still to be given up."""

    subscription: Subscription
    waiting: deque[Entry]
    why: str


class Leavings:
    """All that are not finished; one is worked on at a time."""

    def __init__(self, state: SiteState, lifecycle: Lifecycle, setting_aside: SettingAside) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._setting_aside = setting_aside
        self._open: deque[Leaving] = deque()

    def begin(
        self,
        subscription: Subscription,
        had: Iterable[Entry],
        waiting: Iterable[Entry],
        why: str,
        now: float,
    ) -> None:
        """Give up what the subscriber had in hand, and begin with what waited, there and in the queue."""
        leaving = Leaving(subscription, deque(waiting), why)
        for entry in had:
            if not entry.flags & GONE:
                self._give_up(entry, leaving, now)
        if not self._step(leaving, now):
            self._open.append(leaving)
            self._state.wake_at = min(self._state.wake_at, now + STEP_S)

    def tick(self, now: float) -> None:
        """The next step."""
        if not self._open or len(self._state.out) >= DECISIONS_MAX:
            return
        leaving = self._open[0]
        try:
            if self._step(leaving, now):
                self._open.popleft()
        except Exception as error:
            self._open.popleft()
            self._state.mishap(f"what an ended subscription to {leaving.subscription.topic.name} had", error)

    def next_wake(self, now: float) -> float:
        """Site time of the next step; `inf` for none."""
        return now + STEP_S if self._open else math.inf

    def _step(self, leaving: Leaving, now: float) -> bool:
        """Whether it was the last one."""
        subscription = leaving.subscription
        for _ in range(ENDED_MAX):
            if leaving.waiting:
                entry = leaving.waiting.popleft()
            elif subscription.queue:
                entry = subscription.queue.pop()
            else:
                return True
            # what has expired is due only to those who have received it
            if not entry.flags & (GONE | EXPIRED):
                self._give_up(entry, leaving, now)
        return not (leaving.waiting or subscription.queue)

    def _give_up(self, entry: Entry, leaving: Leaving, now: float) -> None:
        try:
            self._lifecycle.given_up(entry, leaving.subscription, leaving.why, now)
        except Exception as error:
            self._setting_aside.failed(entry, "what an ended subscription had", error, now)
