"""What ended subscriptions no longer hold up, however much that is.

Messages of mode ALL wait in a queue of each subscription, and end when they are due to nobody any more. A
subscription is gone at once for everybody; what waited for it is counted down afterwards. A crash in between
loses nothing: to a subscription that the store does not know, nothing is due after the start.
"""

from collections import deque
from collections.abc import Iterable

from routing.copy_states import has_timed_out
from routing.lifecycle import Lifecycle
from routing.queue import GONE, Entry, PriorityQueue
from routing.setting_aside import SettingAside
from routing.steps import ENDED_MAX, Task
from routing.subscription import Subscription


class Leaving(Task):
    """One subscription that has ended, or may not have all that it might: gives up what waited for it.

    Args:
        waiting: what is in no queue.
        queue: what is given up behind that; None for nothing.
        why: in the hop log.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        setting_aside: SettingAside,
        subscription: Subscription,
        waiting: Iterable[Entry],
        queue: PriorityQueue | None,
        why: str,
    ) -> None:
        self._lifecycle = lifecycle
        self._setting_aside = setting_aside
        self._subscription = subscription
        self._waiting = deque(waiting)
        self._queue = queue
        self._why = why

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return f"what an ended subscription to {self._subscription.target.name} had"

    def step(self, now: float) -> bool:
        """Give up some of what was due to the subscription; True once nothing is left."""
        waiting, queue = self._waiting, self._queue
        for _ in range(ENDED_MAX):
            if waiting:
                entry = waiting.popleft()
            elif queue:
                entry = queue.pop()
            else:
                return True
            # what has expired is due only to those who have received it
            if not has_timed_out(entry):
                self.give_up(entry, now)
        return not (waiting or queue)

    def give_up(self, entry: Entry, now: float) -> None:
        """Give up a message that waited for the subscription, or that it had in hand."""
        if entry.flags & GONE:
            return
        try:
            self._lifecycle.given_up(entry, self._subscription, self._why, now)
        except Exception as error:
            self._setting_aside.failed(entry, "what an ended subscription had", error, now)
