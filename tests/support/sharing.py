"""How `tests/run` shares the tests out among its processes."""

import os
import re
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = (
    r"tests/routing/trace/(?!test_cluster)",
    r"tests/etc/test_package",
    r"tests/plugins/stomp/libraries/",
    r"tests/plugins/xmpp/.*\[prosody",
    r"tests/plugins/xmpp/.*\[ejabberd",
)
"""The tests of each of these run in one process: they share a Spark, a server, a daemon or a package that
lasts as long as the run. All others go wherever there is room."""

FIRST: Final = TOGETHER[0]
"""No other process has as much to do as the one with these: when it ends, the run does."""

NICER: Final = 5
"""By so much: where two want a processor, a process gets a third of what the one with `FIRST` gets."""


class GivingWay:
    """In each process of a run: whoever has another test than those of `FIRST` lets these go first."""

    _gives_way = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self._gives_way and not re.match(FIRST, nodeid):
            self._gives_way = True
            os.nice(NICER)


class Sharing(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """pytest-xdist shares tests out by this; its groups by mark do not work with pytest 9.2.

    A process may die under a test. That test has failed, and is not run again: one that hangs would hang in
    one process after the other. What else the process had goes to the others, and to the one in its place.
    """

    _is_interrupted = False

    def _split_scope(self, nodeid: str) -> str:
        return next((together for together in TOGETHER if re.match(together, nodeid)), nodeid)

    def _reschedule(self, node: Any) -> None:
        # another may have died while this one, new, has not found its tests yet; it asks again when it has
        if node in self.registered_collections:
            super()._reschedule(node)
            # a process runs a test when it knows of the next, or that there is none
            super()._reschedule(node)

    def pytest_keyboard_interrupt(self) -> None:
        self._is_interrupted = True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Of a run that is interrupted, since it does not end, say what each process is at."""
        for process, work in self.assigned_work.items() if self._is_interrupted else ():
            undone = (test for tests in work.values() for test, done in tests.items() if not done)
            if (at := next(undone, None)) is not None:
                terminalreporter.write_line(f"ERROR {at} - not at its end in {process.gateway.id}")

    def remove_node(self, node: Any) -> str | None:
        """The test under which it died, if it was not at its end."""
        work = self.assigned_work.pop(node)
        undone = {
            scope: left
            for scope, tests in work.items()
            if (left := [test for test, done in tests.items() if not done])
        }
        if not undone:
            return None
        fatal: str = next(iter(undone.values())).pop(0)
        for scope, left in undone.items():
            if left:
                self.workqueue[scope] = dict.fromkeys(left, False)
        for other in self.nodes:
            self._reschedule(other)
        return fatal
