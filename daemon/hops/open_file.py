"""The file of the hop log that is being written, if there is one, and those that are still to be closed.

It may be ahead of the store: what of it has come true is settled, and what is not can be cut away again.
"""

import logging
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from daemon.hops import closing
from daemon.hops.files import closed_name, open_name
from daemon.settings import HopSettings
from daemon.system.private_files import sync_directory
from routing.hops import FORMAT_VERSION, Closing, HopRecord

_log = logging.getLogger(__name__)


class FinishedFile(msgspec.Struct, frozen=True):
    """A file that gets no more records and is still to be ended, synced and renamed (`close_file`)."""

    descriptor: int
    path: Path
    closed_path: Path
    size_bytes: int
    closing: Closing


def close_file(finished: FinishedFile) -> None:
    """End a file with its checksum, sync it and give it its final name.

    May take long, so call it in a thread.

    Raises OSError: the file keeps its name and is closed at the next start.
    """
    try:
        closing.append(finished.descriptor, finished.size_bytes, finished.closing)
        os.fsync(finished.descriptor)
    finally:
        os.close(finished.descriptor)
    finished.path.rename(finished.closed_path)
    sync_directory(finished.path.parent)


@contextmanager
def _left_to_the_next_start() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _log.error("a file of the hop log stays open until the next start: %s", error)


class _Extent(msgspec.Struct, frozen=True):
    """How far the file is: its last record, bytes, records, and the checksum of all of it."""

    last: int = 0
    size_bytes: int = 0
    records: int = 0
    crc32: int = 0


class OpenFile:
    """Where the records of one boot go; a new one begins once it is due.

    Attributes:
        descriptor: None while there is no file.
        path: of the file.
    """

    def __init__(
        self, directory: Path, server: str, boot: int, settings: HopSettings, now_us: Callable[[], int]
    ) -> None:
        self.descriptor: int | None = None
        self.path = directory
        self._directory = directory
        self._server = server
        self._boot = boot
        self._settings = settings
        self._now_us = now_us
        self._first = 0
        self._opened_us = 0
        self._flushed: deque[_Extent] = deque()
        self._written = self._settled = _Extent()
        self._finished: list[FinishedFile] = []
        self._uncut = False
        """It is longer than what was written: to be cut before anything else is."""

    def write(self, lines: bytes, records: list[HopRecord]) -> None:
        """Append to the file, beginning one if there is none; OSError leaves no part of a line."""
        first, written = records[0].record, self._written
        if self.descriptor is None:
            path = self._directory / open_name(first)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
            self.path = path
        if not written.size_bytes:
            self._first, self._opened_us = first, self._now_us()
        if self._uncut:
            self._cut(self.descriptor)
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError:
            self._cut(self.descriptor)
            raise
        self._written = _Extent(
            records[-1].record,
            written.size_bytes + len(lines),
            written.records + len(records),
            zlib.crc32(lines, written.crc32),
        )
        self._flushed.append(self._written)

    def settle(self, record: int) -> None:
        """Note that all up to `record` has come true.

        Where that is all that is written, and the file is due, the next record begins a new one.
        """
        while self._flushed and self._flushed[0].last <= record:
            self._settled = self._flushed.popleft()
        if not self._flushed and self._is_due():
            self._finish()

    def revert(self) -> None:
        """Cut away what is not settled."""
        self._flushed.clear()
        if self.descriptor is not None and self._written.size_bytes > self._settled.size_bytes:
            self._written = self._settled
            try:
                self._cut(self.descriptor)
                if not self._written.size_bytes:
                    self._drop()
            except OSError as error:
                _log.error("the hop log cannot be cut back, and is not written until it can: %s", error)

    def take_finished(self) -> list[FinishedFile]:
        """The files to hand to `close_file`, each once."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Close what has come true, and all that was finished; the next start does what the disk refuses."""
        if self._uncut and self.descriptor is not None:
            os.close(self.descriptor)  # the next start cuts it back
            self.descriptor = None
        elif self._settled.size_bytes:
            self._finish()
        elif self.descriptor is not None:
            with _left_to_the_next_start():
                self._drop()
        for finished in self.take_finished():
            with _left_to_the_next_start():
                close_file(finished)

    def _cut(self, descriptor: int) -> None:
        self._uncut = True
        os.ftruncate(descriptor, self._written.size_bytes)
        self._uncut = False

    def _is_due(self) -> bool:
        if not self._written.size_bytes or self._uncut:
            return False
        age_s = (self._now_us() - self._opened_us) / 1e6
        # A clock that was set back must not keep a file open for as long as it was set back.
        is_full = self._written.size_bytes >= self._settings.file_bytes_max
        return is_full or not 0 <= age_s < self._settings.file_s

    def _finish(self) -> None:
        assert self.descriptor is not None
        written = self._settled
        closed_path = self._directory / closed_name(self._server, self._boot, self._first, written.last)
        line = Closing(
            version=FORMAT_VERSION,
            server=self._server,
            boot=self._boot,
            first=self._first,
            last=written.last,
            records=written.records,
            crc32=written.crc32,
        )
        self._finished.append(FinishedFile(self.descriptor, self.path, closed_path, written.size_bytes, line))
        self.descriptor = None
        self._written = self._settled = _Extent()

    def _drop(self) -> None:
        """Remove the file, which is empty: a name tells of records."""
        assert self.descriptor is not None
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)
        self.descriptor = None
