"""What a loss of power takes from a disk, below SQLite: see `tests.power.disk`.

Only where the process is recorded (`python -m tests.sim` is). What was not synced is there or not as the seed
says, also in part; a commit that was on its way may have come as far as any of its writes.
"""

import random
from pathlib import Path

from daemon.hops.files import LogFile, list_files
from tests.power.disk import Cut, Disk
from tests.power.recorder import Recorder

HOPS = "hops/"


class Power:
    """The disks of all machines of a run, as they are written and synced."""

    def __init__(self, recorder: Recorder, directory: Path) -> None:
        self.recorder = recorder
        recorder.take()
        self._disk = Disk(directory)

    def happened(self) -> None:
        """All that was written until now is on its way to the disks."""
        self._disk.apply(self.recorder.take())

    def cut(self, directory: Path, chance: random.Random) -> Cut:
        """The power of one machine goes, at a moment of what has happened there since `happened`."""
        events = self.recorder.take()
        self._disk.apply(events[: chance.randint(0, len(events))])
        return self._disk.cut(directory, chance)

    def put(self, cut: Cut, directory: Path) -> None:
        """The machine has power again, and finds this, whatever has happened there since the cut."""
        self.recorder.take()
        with self.recorder.paused():
            cut.write(directory)
        self._disk.adopt(directory)


def broken_hop_files(cut: Cut, directory: Path) -> list[str]:
    """Closed files of the hop log, once they are in the place of what the cut left, that are not whole."""
    closed = [file.path.name for file in list_files(directory) if _is_closed(file)]
    paths = [HOPS + name for name in closed]
    return [path for path in paths if path in cut.before and cut.before[path] != cut.tree[path]]


def loses_records(cut: Cut) -> bool:
    """Whether part of the hop log is gone."""
    return any(path.startswith(HOPS) for path in cut.lost)


def _is_closed(file: LogFile) -> bool:
    return not file.is_open
