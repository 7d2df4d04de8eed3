"""Copies whose delays have ended at once: routed some at a time, since each is read from the store."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from routing.decisions import RouteDelayed
from routing.queue import GONE, Entry
from routing.state import SiteState
from routing.steps import Task

ROUTED_MAX: Final = 100
"""Copies that one step has routed."""


class EndedDelays(Task):
    """Those that a tick has found."""

    in_turn = True

    def __init__(self, state: SiteState, entries: Iterable[Entry]) -> None:
        self._state = state
        self._entries = deque(entries)

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return "messages whose delays have ended"

    def step(self, now: float) -> bool:
        """Have some routed; True once all are."""
        for _ in range(min(len(self._entries), ROUTED_MAX)):
            entry = self._entries.popleft()
            if not entry.flags & GONE:
                self._state.out.append(RouteDelayed(entry))
        return not self._entries

    def failed(self) -> None:
        """Try the rest again."""
        for entry in self._entries:
            self._state.watch(entry, entry.deadline)
