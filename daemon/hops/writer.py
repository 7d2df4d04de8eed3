"""Appends to the hop log; owned by one task, and never waits for the disk except to write.

Records are written before the store commits what they tell of, so that no committed thing is without its
record. What was written and never committed has not come true. Hence three marks, each at most the next:

    settled      the store has committed up to here: true for ever. A file is closed when all of it is.
    flushed      in the open file; cut away at the next start, or by `revert`, if it was never settled
    last_record  numbered, perhaps still in memory; what no transaction has to carry is `confirm`ed there

A record number that was used is never used again with another meaning, except for records that were cut
away unsettled; so a missing number is a lost record. Records that cannot be written (a full disk) wait in
memory and are written with those that follow; beyond `WAITING_MAX` they are lost, and nothing else: they are
counted, reported once, and their numbers are missing in the log. So is the number of a record that cannot be
made or encoded, by an error of ours.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypedDict, Unpack

import msgspec
import trio

from daemon.hops.files import list_files
from daemon.hops.open_file import FinishedFile, OpenFile
from daemon.hops.recovery import close_left_open
from daemon.settings import HopSettings
from daemon.system.private_files import make_directory
from routing.hops import FORMAT_VERSION, HopEvent, HopRecord

_log = logging.getLogger(__name__)

WAITING_MAX: Final = 5_000
"""Records in memory that cannot be written: a few MB."""


class HopFields(TypedDict, total=False):
    """What `append` takes: the fields of `HopRecord` that the log does not fill in itself."""

    smuid: str
    topic: str
    peer: str
    account: str
    subscription: str
    pattern: str
    mode: Literal["ONE", "ALL"]
    depth: int
    attempt: int
    crossing: int
    hops: tuple[str, ...]
    size: int
    priority: int
    guarantee: bool
    final: bool
    reason: str
    receipt: str
    outcome: Literal["", "accepted", "depth", "duplicate", "loop", "denied"]
    sent_us: int
    peer_received_us: int
    peer_sent_us: int
    acknowledged_us: int
    due: int | None
    expires_us: int
    held: int
    destinations: tuple[str, ...]


def utc_us() -> int:
    """The wall clock, microseconds since 1970."""
    return time.time_ns() // 1000


def _say(what: str, error: Exception) -> None:
    _log.error("%s is left out", what, exc_info=error)


class HopLog:
    """The hop log of one boot of one server. See the module for what its marks mean.

    Args:
        mishap: told of a record that cannot be encoded, and of the error.
        make_room: called where the disk is full; whether it is worth another try at once.

    Attributes:
        last_record: number of the last record that was appended.
        lost_records: records that could not be written, in this boot.
        is_behind: whether what was flushed last could not be written.
        owes_heartbeat: whether one is due, to be appended by `beat` where every decision is on record.
    """

    def __init__(
        self,
        directory: Path,
        *,
        server: str,
        boot: int,
        previous: int,
        settings: HopSettings,
        now_us: Callable[[], int] = utc_us,
        mishap: Callable[[str, Exception], None] = _say,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.last_record = previous
        self.lost_records = 0
        self.is_behind = False
        self.owes_heartbeat = False
        self._make_room = make_room
        self._gathers = trio.Event()
        self._flushes: trio.Event | None = None
        """Set, and forgotten, by the next flush; None where nobody waits for it."""
        self.mishap = mishap
        self._server = server
        self._boot = boot
        self._now_us = now_us
        self._encoder = msgspec.json.Encoder()
        self._gathered: list[HopRecord] = []
        self._start = self._settled = self._confirmed = self._beat = previous
        self._tells_previous = True
        self._told_with = previous  # the last record of the batch whose first one told it
        self._failing = False
        self._file = OpenFile(directory, server, boot, settings, now_us)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        server: str,
        boot: int,
        committed_record: int,
        settings: HopSettings,
        now_us: Callable[[], int] = utc_us,
        mishap: Callable[[str, Exception], None] = _say,
        make_room: Callable[[], bool] = lambda: False,
    ) -> "HopLog":
        """Finish what the last boot left open, cut back to `committed_record`, and continue after it.

        `committed_record` is the one that the store committed last, 0 for a new store. Records beyond it in
        a file that was closed had come true; numbering continues after those. Raises OSError where the
        directory cannot be used.
        """
        make_directory(directory, 0o750)
        close_left_open(directory, committed_record)
        found = max((file.last or 0 for file in list_files(directory)), default=0)
        previous = max(committed_record, found)
        if 0 < found < previous:
            _log.warning(
                "the hop log has lost its records %d to %d: the power was cut, or files are gone",
                *(found + 1, previous),
            )
        return cls(
            directory,
            server=server,
            boot=boot,
            previous=previous,
            settings=settings,
            now_us=now_us,
            mishap=mishap,
            make_room=make_room,
        )

    async def until_gathered(self) -> None:
        """Return once records wait for `flush`, or have waited since this was called."""
        if not self._gathered:
            self._gathers = trio.Event()
            await self._gathers.wait()

    async def until_written(self) -> bool:
        """Wait until what has been appended is in the open file, or reverted; False where it cannot be."""
        newest = self.last_record
        while self._gathered and self._gathered[0].record <= newest and not self.is_behind:
            if self._flushes is None:
                self._flushes = trio.Event()
            await self._flushes.wait()
        return not self.is_behind

    def append(self, event: HopEvent, **fields: Unpack[HopFields]) -> int:
        """Number and stamp a record, to be written by the next `flush`; returns its number."""
        return self.append_fields(event, fields)

    def append_fields(self, event: HopEvent, fields: HopFields) -> int:
        """Append what is gathered already, as `append` does: a copy of it costs as much as the record."""
        if not self._gathered:
            self._gathers.set()
        self.last_record = record = self.last_record + 1
        self._gathered.append(
            HopRecord(
                version=FORMAT_VERSION,
                server=self._server,
                boot=self._boot,
                record=record,
                time_us=self._now_us(),
                event=event,
                **fields,
            )
        )
        return record

    def beat(self, held: int) -> None:
        """Append a heartbeat: with all records before it the server holds so many guaranteed copies.

        It is owed again where it is reverted.
        """
        self._beat = self.append("heartbeat", held=held)
        self.owes_heartbeat = False

    def skip(self) -> None:
        """Leave out the number of a record that is due and cannot be made, so that no log seems whole."""
        self.last_record += 1
        self.lost_records += 1

    def flush(self) -> int:
        """Write what was gathered with one call; returns the number to commit to the store with the batch.

        Never raises for the disk: see the module for what a failed write means.
        """
        if self._settled < self._confirmed:
            # on their own, so that they stay if the rest is reverted
            self._write_gathered(self._take_confirmed())
            self.settle(self._confirmed)
        gathered, self._gathered = self._gathered, []
        self._write_gathered(gathered)
        self._tell_of_flush()
        return self.last_record

    def _tell_of_flush(self) -> None:
        if self._flushes is not None:
            self._flushes.set()
            self._flushes = None

    def confirm(self) -> None:
        """Have `revert` leave what was appended until now: it is true, though no transaction carries it."""
        self._confirmed = self.last_record

    def _take_confirmed(self) -> list[HopRecord]:
        true_until = max(self._confirmed, self._settled)  # also what could not be written yet
        confirmed = [record for record in self._gathered if record.record <= true_until]
        del self._gathered[: len(confirmed)]
        return confirmed

    def _write_gathered(self, gathered: list[HopRecord]) -> None:
        if not gathered:
            return
        if self._tells_previous:
            gathered[0].previous = self._start
        try:
            lines = self._encoder.encode_lines(gathered)
        except Exception:
            lines = None  # by one of them, which is told of by itself
        if lines is None:
            self._write_gathered([record for record in gathered if self._can_be_encoded(record)])
            return
        try:
            try:
                self._file.write(lines, gathered)
            except OSError:
                if not self._make_room():
                    raise
                self._file.write(lines, gathered)
        except OSError as error:
            self.is_behind = True
            if len(gathered) > WAITING_MAX:
                self._lose(len(gathered), error)
            else:
                self._gathered = gathered + self._gathered
            return
        self.is_behind = False
        last = gathered[-1].record
        if self._tells_previous:
            self._tells_previous = False
            self._told_with = last
        if self._failing:
            self._failing = False
            _log.warning("the hop log is written again; %d records were lost", self.lost_records)

    def _can_be_encoded(self, record: HopRecord) -> bool:
        try:
            self._encoder.encode(record)
        except Exception as error:
            self.lost_records += 1
            self.mishap(f"record {record.record} of the hop log ({record.event})", error)
            return False
        return True

    def settle(self, record: int) -> None:
        """Note that the store has committed all up to `record`, as returned by the `flush` before it.

        Where that is all that is written, and the file is due, the next record begins a new one.
        """
        self._settled = record
        self._file.settle(record)

    def revert(self) -> None:
        """Cut away what is not settled or confirmed: the store could not commit, so it never came true."""
        self._gathered = self._take_confirmed()
        self._tell_of_flush()
        self.last_record = max(self._settled, self._confirmed)
        self.owes_heartbeat = self.owes_heartbeat or self._beat > self.last_record
        self._tells_previous = not self._start < self._told_with <= self._settled
        self._file.revert()

    def take_finished(self) -> list[FinishedFile]:
        """The files to hand to `close_file`, each once."""
        return self._file.take_finished()

    def close(self) -> None:
        """Write and close everything; after the store has committed for the last time.

        Never raises for the disk: what it does not let be closed the next start closes, and the log says so.
        """
        self.settle(self.flush())
        self._file.close()

    def _lose(self, count: int, error: OSError) -> None:
        self.lost_records += count
        if not self._failing:
            self._failing = True
            _log.error("the hop log cannot be written, records are lost until it can: %s", error)
