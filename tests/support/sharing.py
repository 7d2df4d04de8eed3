"""How `tests/run` shares the tests out among its processes."""

import contextlib
import os
import re
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

TOGETHER: Final = (
    r"tests/routing/trace/(?!test_cluster)",
    r"tests/routing/federation/test_destinations_many",
    r"tests/etc/test_package",
    r"tests/plugins/stomp/libraries/",
    r"tests/plugins/web/test_browser",
    r"tests/plugins/xmpp/.*\[prosody",
    r"tests/plugins/xmpp/.*\[ejabberd",
)
"""The tests of each of these run in one process: they share a Spark, a server, a browser, a daemon, a
package or a federation of many sites that lasts as long as the run. All others go wherever there is room."""

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
            be_nicer(NICER)


def be_nicer(by: int) -> None:
    """Have every thread of this process, and what it starts from now on, be nicer.

    Linux keeps a niceness for each thread, and `os.nice` changes that of the one that calls it. trio keeps
    idle threads and starts processes in them: these were as nice as before.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, 0) + by
    done: set[str] = set()
    while remaining := set(os.listdir("/proc/self/task")) - done:  # a thread may have begun another meanwhile
        for thread in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), wanted)
        done |= remaining


class Sharing(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """pytest-xdist shares tests out by this; its groups by mark do not work with pytest 9.2.

    A process may die under a test. That test has failed, and is not run again: one that hangs would hang in
    one process after the other. What else the process had goes to the others, and to the one in its place.
    """

    _is_interrupted = False

    def _split_scope(self, nodeid: str) -> str:
        return next((together for together in TOGETHER if re.match(together, nodeid)), nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """What is done is forgotten: what a process has left is counted after each test."""
        test = self.registered_collections[node][item_index]
        work, scope = self.assigned_work[node], self._split_scope(test)
        del work[scope][test]
        if not work[scope]:
            del work[scope]
        self._reschedule(node)

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
            if (at := next((test for tests in work.values() for test in tests), None)) is not None:
                terminalreporter.write_line(f"ERROR {at} - not at its end in {process.gateway.id}")

    def remove_node(self, node: Any) -> str | None:
        """The test under which it died, if it was not at its end."""
        undone = self.assigned_work.pop(node)
        if not undone:
            return None
        first = next(iter(undone.values()))
        fatal: str = next(iter(first))
        del first[fatal]
        self.workqueue.update({scope: tests for scope, tests in undone.items() if tests})
        for other in self.nodes:
            self._reschedule(other)
        return fatal
