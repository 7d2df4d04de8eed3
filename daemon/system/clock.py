"""Two clocks. Deadlines run on site time, stamps are taken from the wall.

Site time is seconds that never go back and never jump, whatever is done to the wall clock, and that go
on through a restart of the daemon: by the machine's own count of seconds since it booted where it has not
booted since, else by the wall clock, and never backwards. So a message's timeout counts its age.
"""

import time
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Protocol

_MACHINE_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the broker needs of time; the simulation has one of its own."""

    def now(self) -> float:
        """Site time, seconds."""

    def wall_ms(self) -> int:
        """Unix time, milliseconds."""

    def wall_us(self) -> int:
        """Unix time, microseconds."""

    def mark(self) -> tuple[float, float, str, float]:
        """What the store keeps, for `continue_from` after a restart."""


def _machine() -> tuple[str, float]:
    try:
        boot = _MACHINE_BOOT.read_text().strip()
    except OSError:
        boot = ""
    return boot, clock_gettime(CLOCK_BOOTTIME)


class SystemClock:
    """The clocks of the machine."""

    def __init__(self, mark: tuple[float, float, str, float] = (0.0, 0.0, "", 0.0)) -> None:
        """Go on from what `mark` gave in an earlier run."""
        site_time, wall, machine_boot, machine_time = mark
        self._machine_boot, machine_now = _machine()
        if machine_boot and machine_boot == self._machine_boot:
            gone = machine_now - machine_time
        else:
            gone = time.time() - wall if wall else 0.0
        self._offset = site_time + max(gone, 0.0) - machine_now

    def now(self) -> float:
        """Site time, seconds."""
        return clock_gettime(CLOCK_BOOTTIME) + self._offset

    def wall_ms(self) -> int:
        """Unix time, milliseconds."""
        return time.time_ns() // 1_000_000

    def wall_us(self) -> int:
        """Unix time, microseconds."""
        return time.time_ns() // 1_000

    def mark(self) -> tuple[float, float, str, float]:
        """What the store keeps, for the next start to go on from."""
        machine_now = clock_gettime(CLOCK_BOOTTIME)
        return (machine_now + self._offset, time.time(), self._machine_boot, machine_now)
