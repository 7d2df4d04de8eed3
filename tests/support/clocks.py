"""A wall clock of its own for a process, which the test sets: libfaketime between it and the C library.

The clocks that count seconds (CLOCK_MONOTONIC, CLOCK_BOOTTIME) stay true, as when an operator sets the
time of a machine.
"""

import sysconfig
from pathlib import Path
from typing import Final

FAKETIME: Final = Path("/usr/lib", sysconfig.get_config_var("MULTIARCH") or "", "faketime/libfaketimeMT.so.1")
"""From Debian's package `libfaketime`."""


class WallClock:
    """How far the clock of a process is ahead of this one's."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        """For the process."""
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, ahead_s: int) -> None:
        """The clock jumps to so many seconds ahead, or behind."""
        made = self._file.with_suffix(".new")
        made.write_text(f"{ahead_s:+d}\n")
        made.replace(self._file)
