"""The processes of `tests/run`, some of which die: each test is run once, and none is waited for."""

import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.process import ROOT

pytest.importorskip("xdist")

from tests.support.sharing import NICER, Sharing

NICEST = 19

TESTS = [f"tests/test_x.py::test_{number}" for number in range(9)]
SHARED = [f"tests/plugins/stomp/libraries/test_y.py::test_{number}" for number in range(5)]


@dataclass(eq=False)
class Process:
    """What the scheduler sees of a process."""

    gateway: Any = field(default_factory=lambda: SimpleNamespace(id="gw"))
    given: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, tests: list[int]) -> None:
        assert not self.shutting_down
        self.given += tests

    def shutdown(self) -> None:
        self.shutting_down = True


class Run:
    """A run with two processes; `done` are the tests that came to their end."""

    def __init__(self, tests: list[str]) -> None:
        config: Any = SimpleNamespace(
            getvalue=lambda name: ["2*popen"], option=SimpleNamespace(loadscopereorder=False)
        )
        self.sharing = Sharing(config)
        self.tests = tests
        self.done: list[str] = []
        self.first, self.second = self.start(), self.start()
        self.found_tests(self.first)
        self.found_tests(self.second)

    def start(self) -> Process:
        process = Process()
        self.sharing.add_node(process)
        return process

    def found_tests(self, process: Process) -> None:
        self.sharing.add_node_collection(process, self.tests)
        if self.sharing.collection_is_completed:
            self.sharing.schedule()

    def run_all(self, process: Process) -> None:
        while len(process.given) > 1 or (process.given and process.shutting_down):
            self.run_one(process)

    def run_one(self, process: Process) -> None:
        assert len(process.given) > 1 or process.shutting_down  # it knows what comes next
        test = process.given.pop(0)
        self.done.append(self.tests[test])
        self.sharing.mark_test_complete(process, test)

    def die(self, process: Process) -> str | None:
        return self.sharing.remove_node(process)


def test_the_test_under_which_a_process_dies_is_not_run_again_and_all_others_are_once() -> None:
    run = Run(TESTS)
    run.run_one(run.first)
    fatal = run.die(run.first)
    assert fatal is not None
    replacement = run.start()
    run.found_tests(replacement)
    run.run_all(run.second)
    run.run_all(replacement)
    assert sorted([*run.done, fatal]) == TESTS
    assert run.sharing.tests_finished


def test_a_process_may_die_while_the_one_in_place_of_another_has_not_found_its_tests() -> None:
    run = Run(TESTS)
    fatal = [run.die(run.first)]
    third = run.start()
    fatal.append(run.die(run.second))
    fourth = run.start()
    run.found_tests(third)
    run.found_tests(fourth)
    run.run_all(third)
    run.run_all(fourth)
    assert sorted([*run.done, *map(str, fatal)]) == TESTS


def test_a_process_that_dies_last_leaves_nothing_undone() -> None:
    run = Run(TESTS)
    run.run_one(run.first)
    run.run_all(run.second)
    assert run.second.shutting_down
    assert len(run.first.given) > 2
    fatal = run.die(run.first)
    replacement = run.start()
    run.found_tests(replacement)
    run.run_all(replacement)
    assert sorted([*run.done, str(fatal)]) == TESTS
    assert run.sharing.tests_finished


def test_a_run_that_is_interrupted_names_what_each_process_is_at_and_no_other() -> None:
    run = Run(TESTS)
    run.run_one(run.first)
    lines: list[str] = []
    reporter: Any = SimpleNamespace(write_line=lines.append)
    run.sharing.pytest_terminal_summary(reporter)
    assert lines == []
    run.sharing.pytest_keyboard_interrupt()
    run.sharing.pytest_terminal_summary(reporter)
    at = [TESTS[process.given[0]] for process in (run.first, run.second)]
    assert lines == [f"ERROR {test} - not at its end in gw" for test in at]


def test_what_shares_a_server_goes_to_one_process_also_when_the_first_has_died() -> None:
    run = Run([*SHARED, *TESTS])
    assert run.first.given[: len(SHARED)] == list(range(len(SHARED)))
    run.run_one(run.first)
    assert run.die(run.first) == SHARED[1]
    run.run_all(run.second)
    assert [test for test in run.done if test in SHARED] == [SHARED[0], *SHARED[2:]]


def test_a_process_that_dies_at_its_end_has_failed_no_test() -> None:
    run = Run(TESTS)
    run.run_all(run.first)
    assert sorted(run.done) == sorted(set(run.done))
    run.run_all(run.second)
    assert run.die(run.first) is None
    assert run.die(run.second) is None
    assert sorted(run.done) == TESTS


def test_who_has_another_test_gives_way_once_to_the_process_that_has_most_to_do() -> None:
    tests = [
        "tests/routing/trace/test_x.py::test_1",
        "tests/etc/test_x.py::test_2",
        "tests/etc/test_x.py::test_3",
    ]
    program = f"""\
import os
from tests.support.sharing import GivingWay

giving = GivingWay()
print(os.nice(0))
for test in {tests}:
    giving.pytest_runtest_logstart(test)
    print(os.nice(0))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, *since = map(int, done.stdout.split())
    nicer = min(before + NICER, NICEST)
    assert since == [before, nicer, nicer]


def test_what_gives_way_does_so_in_all_its_threads() -> None:
    """Processes are started in threads that wait for work from before."""
    program = """\
import os
from concurrent.futures import ThreadPoolExecutor
from tests.support.sharing import GivingWay

with ThreadPoolExecutor(1) as thread:
    print(thread.submit(os.nice, 0).result())
    GivingWay().pytest_runtest_logstart("tests/etc/test_x.py::test_1")
    print(thread.submit(os.nice, 0).result())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, since = map(int, done.stdout.split())
    assert since == min(before + NICER, NICEST)
