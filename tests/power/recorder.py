"""What a process does to the files below a directory, write by write, as `recorder.c` saw it.

The recorder is a library that is preloaded, so that it sees SQLite as well as Python. It is compiled when it
is first needed, once for each text of it.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

SOURCE: Final = Path(__file__).with_name("recorder.c")
ROOT: Final = "SMQPD_RECORD_ROOT"
FILE: Final = "SMQPD_RECORD_FILE"
_HEADER: Final = struct.Struct("<QQIIII")

Kind = Literal["create", "mkdir", "write", "truncate", "sync", "rename", "link", "unlink", "mark"]
_KINDS: Final[dict[int, Kind]] = {
    ord("C"): "create",
    ord("M"): "mkdir",
    ord("W"): "write",
    ord("T"): "truncate",
    ord("S"): "sync",
    ord("R"): "rename",
    ord("L"): "link",
    ord("U"): "unlink",
    ord("K"): "mark",
}


class Event(msgspec.Struct, frozen=True, gc=False):
    """One call that succeeded.

    Attributes:
        inode: of the file or directory; 0 where a path names it.
        offset: of a write; the size of a truncation; the number of a mark.
        path, to: absolute; "" for none.
    """

    kind: Kind
    inode: int
    offset: int
    path: str
    to: str
    data: bytes


def memory() -> Path:
    """Where files are kept in memory, if there is such a place."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


def can_record() -> bool:
    """Whether there is what compiles the recorder."""
    return shutil.which("gcc") is not None


@functools.cache
def library() -> Path:
    """The compiled recorder."""
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    compiled = Path(tempfile.gettempdir()) / f"smqpd-recorder-{os.getuid()}-{name}.so"
    if not compiled.exists():
        new = compiled.with_suffix(f".{os.getpid()}")
        subprocess.run(
            ["gcc", "-O2", "-Wall", "-fPIC", "-shared", "-o", new, SOURCE, "-lpthread"],
            check=True,
            capture_output=True,
        )
        new.rename(compiled)
    return compiled


def preloaded(root: Path, file: Path) -> dict[str, str]:
    """The environment of a process whose doings below `root` are recorded in `file`."""
    return {**os.environ, "LD_PRELOAD": str(library()), ROOT: str(root.resolve()), FILE: str(file)}


def read(data: bytes) -> Iterator[Event]:
    """The events of a record."""
    position = 0
    while position < len(data):
        inode, offset, first, second, kind, _ = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        one, two = data[position : position + first], data[position + first : position + first + second]
        position += first + second
        name = _KINDS[kind]
        if name == "write":
            yield Event(name, inode, offset, "", "", one)
        else:
            yield Event(name, inode, offset, os.fsdecode(one), os.fsdecode(two), b"")


class Recorder:
    """The recorder in this process, which was started with it."""

    def __init__(self) -> None:
        self.root = Path(os.environ[ROOT])
        self._file = Path(os.environ[FILE])
        self._library = ctypes.CDLL(None)
        self._marks = 0

    @classmethod
    def here(cls) -> "Recorder | None":
        """None where this process is not recorded."""
        return cls() if ROOT in os.environ and hasattr(ctypes.CDLL(None), "recorder_mark") else None

    def take(self) -> list[Event]:
        """What has happened since it was last taken; not while other threads write."""
        events = list(read(self._file.read_bytes()))
        os.truncate(self._file, 0)
        return events

    def mark(self, number: int) -> None:
        """Leave a mark among the events."""
        self._library.recorder_mark(ctypes.c_uint64(number))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is not recorded."""
        self._library.recorder_pause(1)
        try:
            yield
        finally:
            self._library.recorder_pause(0)
