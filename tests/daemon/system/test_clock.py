"""Site time goes on through restarts and never back, whatever happens to the wall clock."""

import time

import pytest

from daemon.system.clock import SystemClock

ELSEWHERE = "another boot of the machine"


def test_it_goes_on_from_its_mark() -> None:
    first = SystemClock((500.0, 0.0, "", 0.0))
    assert first.now() >= 500
    second = SystemClock(first.mark())
    assert first.now() <= second.now() <= first.now() + 5


def test_after_the_machine_was_started_again_the_wall_clock_tells_how_long_it_was_off() -> None:
    clock = SystemClock((500.0, time.time() - 100, ELSEWHERE, 1e9))
    assert clock.now() == pytest.approx(600, abs=5)


def test_a_wall_clock_that_was_set_back_does_not_take_site_time_back() -> None:
    clock = SystemClock((500.0, time.time() + 100_000, ELSEWHERE, 1e9))
    assert clock.now() == pytest.approx(500, abs=5)


def test_within_one_boot_of_the_machine_the_wall_clock_decides_nothing() -> None:
    site_time, _, machine_boot, machine_time = SystemClock((500.0, 0.0, "", 0.0)).mark()
    if not machine_boot:
        pytest.skip("this machine does not number its boots")
    clock = SystemClock((site_time, time.time() - 100_000, machine_boot, machine_time))
    assert clock.now() == pytest.approx(500, abs=5)
