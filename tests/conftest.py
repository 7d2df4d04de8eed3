"""For all tests: how they are shared out among processes, and which of them `tests/run --quick` leaves out.

Hypothesis has no time limit on its examples, which a busy machine would break at random. In the processes of
`tests/run` it does not look for the smallest example that fails, which may take longer than a test may: it
shows the first, and how to come back to it. One test that is run by itself looks for it; with
`--hypothesis-profile unshrunk` it does not, either. `tests/run --quick` draws a quarter of the examples.
"""

import gc
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import pytest
from hypothesis import HealthCheck, Phase, settings
from trio.testing import MockClock

from tests.support.examples import QUICK
from tests.support.virtual_time import virtual_clock

settings.register_profile("smqpd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "unshrunk",
    settings.get_profile("smqpd"),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
settings.register_profile("quick", settings.get_profile("unshrunk"), max_examples=QUICK)
settings.load_profile("unshrunk" if "PYTEST_XDIST_WORKER" in os.environ else "smqpd")

LASTING: Final = {"spark": "spark", "started_server": "server", "daemon": "server"}
"""Those fixtures, with the mark of the tests that ask for them."""

SLOW: Final = ("spark", "kill", "server", "documents")
"""Marks of what `--quick` leaves out. What takes longest begins first: no process works alone at the end."""

LONG: Final = ("tests/sim/",)
"""Of the others, those of which one test takes half a minute."""


YOUNG_OBJECTS_MAX: Final = 20_000
"""With so many new objects one looks for what only points at itself; by itself Python does with 700."""


RUN_S_MAX: Final = 3600
"""A whole run takes a quarter of an hour: this one waits for something, and is to say for what."""

TEMPORARY: Final = "/tmp"
TEMPORARY_LENGTH_MAX: Final = 12
"""The address of a Unix socket has 107 bytes: so much is left beside the names of tests and their folders."""


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)
    if len(tempfile.gettempdir()) > TEMPORARY_LENGTH_MAX:
        tempfile.tempdir = os.environ["TMPDIR"] = TEMPORARY
    if hasattr(config, "workerinput"):
        from tests.support.sharing import GivingWay

        config.pluginmanager.register(GivingWay())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are processors: whoever waits for a kill, a server or a disk leaves one free."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.sharing import Sharing  # pytest alone, without pytest-xdist, needs none

    def too_long(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(RUN_S_MAX)
    sharing = Sharing(config, log)
    config.pluginmanager.register(sharing)
    return sharing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in LASTING.keys() & set(getattr(item, "fixturenames", ())):
            # a fixture of one test may have the name of one that lasts
            if item._fixtureinfo.name2fixturedefs[name][-1].scope == "session":  # type: ignore[attr-defined]
                item.add_marker(LASTING[name])
    items.sort(key=_rank)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and tests stay to the end, and to look through them each time is a third of all work."""
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    others = len(SLOW) + (not item.nodeid.startswith(LONG))
    return next((rank for rank, name in enumerate(SLOW) if item.get_closest_marker(name)), others)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A site that a test sets up in its own process has the log to itself only for as long as that test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def mock_clock() -> MockClock:
    """In place of pytest-trio's: see `tests.support.virtual_time`."""
    return virtual_clock()


@pytest.fixture
def autojump_clock() -> MockClock:
    """Likewise; goes on as soon as nothing is left to do."""
    return virtual_clock(autojump_threshold=0)
