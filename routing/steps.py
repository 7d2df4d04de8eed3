"""What takes long on a large topic is done in steps: the site goes on with everything else in between.

The first step is taken at once, so what is small is done when the call returns. The next ones follow by time,
`STEP_S` apart, and those that want much done no faster than it is carried out. Of each kind of task one is
worked on at a time. An error of ours ends the task that it meets, and no other.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar, Final

from routing.state import SiteState

STEP_S: Final = 0.001

ENDED_MAX: Final = 500
"""Messages that one step ends."""

DECISIONS_MAX: Final = 5_000
"""With more than these still to be carried out, a step that adds to them waits."""


class Task(ABC):
    """Something that is done in steps.

    Attributes:
        in_turn: it does not begin before those of its kind that began earlier have ended.
        decides: its steps want things done, which are carried out before the next step.
    """

    in_turn: ClassVar = False
    decides: ClassVar = True

    @property
    @abstractmethod
    def what(self) -> str:
        """The name of the task in the log."""

    @abstractmethod
    def step(self, now: float) -> bool:
        """Do the next part of it, as much as others can wait for; whether it was the last one."""

    def failed(self) -> None:
        """Called where an error of ours has ended the task."""
        return

    def ended(self, now: float) -> None:
        """Called once the task has ended, done or failed, in another step than its first."""
        return


class Steps:
    """The tasks of a site that are not finished."""

    def __init__(self, state: SiteState) -> None:
        self._state = state
        self._open: dict[type[Task], deque[Task]] = {}

    def begin(self, task: Task, now: float) -> None:
        """Take the first step now, unless the task has to wait its turn; the others follow."""
        others = self._open.setdefault(type(task), deque())
        if (task.in_turn and others) or not self._step(task, now):
            others.append(task)
            self._state.wake_at = min(self._state.wake_at, now + STEP_S)

    def tick(self, now: float) -> None:
        """Take the next step of each kind."""
        for tasks in list(self._open.values()):
            if tasks and not (tasks[0].decides and len(self._state.out) >= DECISIONS_MAX):
                self._go_on(tasks, now)

    def _go_on(self, tasks: deque[Task], now: float) -> None:
        task, has_ended = tasks[0], True
        try:
            has_ended = self._step(task, now)
        finally:
            if has_ended:
                tasks.popleft()
        if has_ended:
            task.ended(now)

    def _step(self, task: Task, now: float) -> bool:
        """Take the next step of a task; whether it has ended with that, done or failed."""
        try:
            return task.step(now)
        except Exception as error:
            task.failed()
            self._state.mishap(task.what, error)
            return True

    def next_wake(self, now: float) -> float:
        """Site time of the next step; `inf` for none."""
        return now + STEP_S if any(self._open.values()) else math.inf
