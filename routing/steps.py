"""What takes long on a large topic is done in steps: the site goes on with everything else in between.

The first step is taken at once, so what is small is done when the call returns. The next ones follow by time,
`STEP_S` apart, and those that want much done no faster than it is carried out. Of each kind of task one step
is taken at a time, in turn of those that have begun lately, which may be small, and of the first of those
that are large. So what is small does not wait for all that is large, nor has all that is large to be
remembered at once. An error of ours ends the task that it meets, and no other.
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


STEPS_AT_FIRST: Final = 8
"""A task that takes more is large: it waits for those that were found to be before it."""


class Task(ABC):
    """Something that is done in steps.

    Attributes:
        in_turn: it does not begin before those of its kind that began earlier have ended.
        decides: its steps want things done, which are carried out before the next step.
        taken: how many steps it has taken.
    """

    in_turn: ClassVar = False
    decides: ClassVar = True
    taken = 0

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


class _Open:
    """The tasks of a kind that are not finished."""

    def __init__(self) -> None:
        self.begun: deque[Task] = deque()
        self.large: deque[Task] = deque()
        self._was_large = True

    def __bool__(self) -> bool:
        return bool(self.begun or self.large)

    def add(self, task: Task) -> None:
        """Have it taken on, after its first step or before."""
        (self.large if task.in_turn or task.taken >= STEPS_AT_FIRST else self.begun).append(task)

    def next(self) -> deque[Task]:
        """Where the task is first that is to take the next step."""
        self._was_large = bool(self.large) and not (self._was_large and self.begun)
        return self.large if self._was_large else self.begun


class Steps:
    """The tasks of a site that are not finished."""

    def __init__(self, state: SiteState) -> None:
        self._state = state
        self._open: dict[type[Task], _Open] = {}

    def begin(self, task: Task, now: float) -> None:
        """Take the first step now, unless the task has to wait its turn; the others follow."""
        others = self._open.setdefault(type(task), _Open())
        if (task.in_turn and others) or not self._step(task, now):
            others.add(task)
            self._state.wake_at = min(self._state.wake_at, now + STEP_S)

    def tick(self, now: float) -> None:
        """Take the next step of each kind."""
        for tasks in list(self._open.values()):
            if tasks:
                line = tasks.next()
                if not (line[0].decides and len(self._state.out) >= DECISIONS_MAX):
                    self._go_on(tasks, line, now)

    def _go_on(self, tasks: _Open, line: deque[Task], now: float) -> None:
        task, has_ended = line[0], True
        try:
            has_ended = self._step(task, now)
        finally:
            if has_ended:
                line.popleft()
            elif line is tasks.begun:
                tasks.add(line.popleft())
        if has_ended:
            task.ended(now)

    def _step(self, task: Task, now: float) -> bool:
        """Take the next step of a task; whether it has ended with that, done or failed."""
        task.taken += 1
        try:
            return task.step(now)
        except Exception as error:
            task.failed()
            self._state.mishap(task.what, error)
            return True

    def next_wake(self, now: float) -> float:
        """Site time of the next step; `inf` for none."""
        return now + STEP_S if any(self._open.values()) else math.inf
