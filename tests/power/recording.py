"""A process that works on files below a directory, and all that is needed to make states of its disk."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.power.disk import Disk
from tests.power.recorder import Event, Recorder, preloaded
from tests.support.process import ROOT

BEGIN: Final = 1
"""The first mark; what comes before it is how the disk was at first."""


class Recording(msgspec.Struct):
    """What a workload did.

    Attributes:
        disk: as it was before the events.
        notes: by the number of a mark, what the workload knew then: a pickle, since most are never asked for.
    """

    workload: str
    seed: int
    disk: Disk
    events: list[Event]
    notes: dict[int, bytes]

    def note(self, mark: int) -> Any:
        return pickle.loads(self.notes[mark])


class Recorded:
    """The workload's end: it says when its disk is ready, and leaves notes."""

    def __init__(self, workload: str, seed: int) -> None:
        recorder = Recorder.here()
        assert recorder is not None
        self._recorder = recorder
        self.root = recorder.root
        self._workload, self._seed = workload, seed
        self._notes: dict[int, bytes] = {}
        self._disk: Disk | None = None

    def begin(self) -> None:
        """What is there now is how the disk was at first."""
        self._recorder.take()
        self._disk = Disk(self.root)

    def note(self, value: Any) -> None:
        """This is known now, and what happens from now on happens after it."""
        if self._disk is not None:
            mark = BEGIN + len(self._notes)
            self._notes[mark] = pickle.dumps(value)
            self._recorder.mark(mark)

    def end(self, file: Path) -> None:
        """Write the recording, and end the process as it stands."""
        assert self._disk is not None
        recording = Recording(self._workload, self._seed, self._disk, self._recorder.take(), self._notes)
        file.write_bytes(pickle.dumps(recording))
        os._exit(0)


def record(workload: str, seed: int, directory: Path) -> Recording:
    """Run a module of `tests.power` that is a workload, below a new directory."""
    root, file = directory / "root", directory / "recording"
    root.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.power.work", workload, str(seed), str(file)],
        env={**preloaded(root, directory / "record"), "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the workload {workload} {seed} failed: {done.stdout}{done.stderr}")
    (directory / "record").unlink(missing_ok=True)
    recording: Recording = pickle.loads(file.read_bytes())
    return recording
