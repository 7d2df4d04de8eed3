"""A hop log that is written, and what is in its directory then."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daemon.hops.files import list_files
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings

SERVER: Final = "alpha.example:7200"
SETTINGS: Final = HopSettings()


class MovedClock:
    """A wall clock that stands until it is moved."""

    def __init__(self) -> None:
        self.us = 1_795_000_000_000_000

    def __call__(self) -> int:
        return self.us


def batch(log: HopLog, count: int) -> int:
    """So many records, written and committed."""
    for number in range(count):
        log.append("published", smuid=f"alpha.example/0198c3a1b2c3-1-{number:x}", topic="news", size=3)
    record = log.flush()
    log.settle(record)
    return record


def numbers(directory: Path) -> list[int]:
    return [record.record for record in HopLogReader(directory).records()]


def names(directory: Path) -> list[str]:
    return [file.path.name for file in list_files(directory)]


@contextmanager
def read_only(log: HopLog) -> Iterator[None]:
    """As on a file system that an error has made read-only: what is open can be neither written nor cut."""
    descriptor = log._file.descriptor
    assert descriptor is not None
    writable = os.dup(descriptor)
    reading = os.open(log._file.path, os.O_RDONLY)
    os.dup2(reading, descriptor)
    os.close(reading)
    try:
        yield
    finally:
        if log._file.descriptor == descriptor:
            os.dup2(writable, descriptor)
        os.close(writable)
