"""The machine under a site: its disk, its clocks, and the threads that wait for the disk.

The disk is real SQLite and real files, in memory. What a crash leaves is what was committed: a transaction
that is open is gone; one that was being committed is there or gone, as the seed says. A loss of power also
takes what was not synced: of all files where the process is recorded (`tests.sim.power`), else of hop logs.
"""

import contextlib
import contextvars
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trio

from daemon.hops.files import list_files
from daemon.hops.open_file import OpenFile
from daemon.hops.writer import HopLog
from daemon.store.store import Store
from routing.hops import HopRecord
from tests.power.disk import Cut
from tests.sim.power import Power, broken_hop_files, loses_records

WALL_BEGINS_S: Final = 1_795_000_000.0

_machine: contextvars.ContextVar["SimulatedMachine"] = contextvars.ContextVar("machine")


class Gone(BaseException):
    """The process of the calling task has ended: nothing that it still does counts.

    Not an Exception: none of those ends a broker, which would try its closed files again for ever.
    """


class Disk:
    """How the disk of one machine does.

    Attributes:
        latency_s: least and greatest time that a sync takes.
        fails_in: statements until one fails; None while the disk works.
        failures: how many fail from then on, before it works again.
        hops_fail: whether the hop log cannot be written.
    """

    def __init__(self, chance: random.Random) -> None:
        self.latency_s = (0.0003, 0.003)
        self.fails_in: int | None = None
        self.failures = 0
        self.hops_fail = False
        self.failed = 0
        self._chance = chance

    def delay_s(self) -> float:
        """What the next call takes."""
        return self._chance.uniform(*self.latency_s)

    def call(self) -> None:
        """One statement is executed. Raises sqlite3.OperationalError if this is the one that fails."""
        if self.fails_in is None:
            return
        if self.fails_in > 0:
            self.fails_in -= 1
            return
        self.failures -= 1
        self.failed += 1
        if self.failures <= 0:
            self.fails_in = None
        raise sqlite3.OperationalError("disk I/O error")


class _FailingConnection:
    """The connection that writes, on a disk that may fail at any call."""

    def __init__(self, connection: sqlite3.Connection, disk: Disk) -> None:
        self._connection = connection
        self._disk = disk

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if not sql.startswith(("ROLLBACK", "PRAGMA")):
            self._disk.call()
        return self._connection.execute(sql, *arguments)

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
        self._disk.call()
        return self._connection.executemany(sql, rows)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes

    def close(self) -> None:
        self._connection.close()


class SimOpenFile(OpenFile):
    """A file of a hop log on a disk that may be full; a process that is gone writes nothing."""

    disk: Disk
    gone = False

    def write(self, lines: bytes, records: list[HopRecord]) -> None:
        if self.gone or self.disk.hops_fail:
            raise OSError(28, "No space left on device")
        super().write(lines, records)

    def abandon(self) -> None:
        """The process is gone: its files are closed, and nothing is written any more."""
        self.gone = True
        for descriptor in [self.descriptor, *(one.descriptor for one in self._finished)]:
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self.descriptor = None
        self._finished.clear()


class SimHopLog(HopLog):
    """A hop log whose process may go."""

    _file: SimOpenFile

    def __init__(self, directory: Path, **given: Any) -> None:
        super().__init__(directory, **given)
        of_file = (given[name] for name in ("server", "boot", "settings", "now_us"))
        self._file = SimOpenFile(directory, *of_file)

    @property
    def gone(self) -> bool:
        return self._file.gone

    def is_on(self, disk: Disk) -> None:
        self._file.disk = disk

    def flush(self) -> int:
        """As that of a hop log. Raises Gone."""
        if self.gone:
            raise Gone
        return super().flush()

    def close(self) -> None:
        """Nothing is left to close where the process is gone."""
        if not self.gone:
            super().close()

    def abandon(self) -> None:
        """See `SimOpenFile`."""
        self._file.abandon()


class SimulatedMachine:
    """What outlives a process of the site.

    Attributes:
        alive: set while a process runs; an event that tells of its end.
        wall_offset_s: how far its wall clock is off.
        lost_tails: hop logs that lost something, by a loss of power or a full disk.
        broken: files that a loss of power must not have changed, and has.
    """

    def __init__(self, name: str, directory: Path, chance: random.Random, power: Power | None = None) -> None:
        self.name = name
        self.directory = directory
        self.chance = chance
        self.disk = Disk(chance)
        self.died: trio.Event | None = None
        self.wall_offset_s = 0.0
        self.lost_tails = 0
        self.broken: list[str] = []
        self._power = power
        self._boot = 1
        self._booted_at = trio.current_time()
        self._in_threads: list[Callable[[], object]] = []
        self._open: tuple[Store, SimHopLog] | None = None
        directory.mkdir()

    @property
    def has_unwritten(self) -> bool:
        """Whether the hop log is behind."""
        return self._open is not None and bool(self._open[1]._gathered)

    def wall_s(self) -> float:
        """What its wall clock shows, seconds since 1970."""
        return WALL_BEGINS_S + trio.current_time() + self.wall_offset_s

    def uptime(self) -> tuple[str, float]:
        """Which boot of the machine this is, and for how long it has been up."""
        return f"{self.name}-{self._boot}", trio.current_time() - self._booted_at

    # -- processes --------------------------------------------------------------------------------

    def begin(self, store: Store, hops: HopLog) -> None:
        """A process has opened its files."""
        self.died = trio.Event()
        assert isinstance(hops, SimHopLog)
        hops.is_on(self.disk)
        store._writer = _FailingConnection(store._writer, self.disk)  # type: ignore[assignment] # on purpose
        self._open = store, hops

    def enter(self) -> None:
        """The calling task and its children belong to this machine's process."""
        _machine.set(self)

    def end(self) -> None:
        """The process has closed its files and ended."""
        self._open = self.died = None

    def kill(self, *, power: bool) -> None:
        """The process is gone, at once; `power`: and what the disk had not synced."""
        assert self.died is not None
        cut = self._cut(self._power) if power and self._power is not None else None
        if cut is None:
            self._end_calls()
        self._in_threads.clear()
        self.died.set()
        assert self._open is not None
        store, hops = self._open
        store.close()
        hops.abandon()
        self.end()
        if power:
            self._boot += 1
            self._booted_at = trio.current_time()
            if cut is None:
                self._lose_unsynced()
            else:
                self._find(cut)

    def _end_calls(self) -> None:
        """What a thread was doing comes true, or does not."""
        for call in self._in_threads:
            if self.chance.random() < 0.5:
                with contextlib.suppress(sqlite3.Error, OSError):
                    call()

    def _cut(self, power: Power) -> Cut:
        power.happened()
        self._end_calls()
        return power.cut(self.directory, self.chance)

    def _find(self, cut: Cut) -> None:
        """The machine starts again, with what the cut has left."""
        assert self._power is not None
        self._power.put(cut, self.directory)
        self.broken += broken_hop_files(cut, self.directory / "hops")
        self.lost_tails += loses_records(cut)

    def _lose_unsynced(self) -> None:
        for file in list_files(self.directory / "hops"):
            if file.is_open and self.chance.random() < 0.7:
                kept = self.chance.randint(0, file.size_bytes)
                if kept < file.size_bytes:
                    self.lost_tails += 1
                    os.truncate(file.path, kept)

    # -- threads ----------------------------------------------------------------------------------

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """As `trio.to_thread.run_sync`: not ended by a cancellation, but by the end of the process."""
        died = self.died
        if died is None:
            raise Gone
        await trio.lowlevel.cancel_shielded_checkpoint()
        self._in_threads.append(call)
        with trio.CancelScope(shield=True), trio.move_on_after(self.disk.delay_s()):
            await died.wait()
        if died.is_set():
            raise Gone
        self._in_threads.remove(call)
        return call()


async def run_sync(call: Callable[..., Any], *arguments: Any, **_options: object) -> Any:
    """In the place of `trio.to_thread.run_sync`."""
    return await _machine.get().in_thread(lambda: call(*arguments))


class SimClock:
    """The clocks of a machine, as `daemon.system.clock.SystemClock` reads them."""

    def __init__(self, machine: SimulatedMachine, mark: tuple[float, float, str, float]) -> None:
        site_time, wall_s, boot, up_s = mark
        self._machine = machine
        now_boot, now_up_s = machine.uptime()
        gone_s = machine.wall_s() - wall_s if wall_s else 0.0
        if boot == now_boot:
            gone_s = now_up_s - up_s
        self._offset_s = site_time + max(gone_s, 0.0) - now_up_s

    def now(self) -> float:
        return self._machine.uptime()[1] + self._offset_s

    def wall_ms(self) -> int:
        return int(self._machine.wall_s() * 1_000)

    def wall_us(self) -> int:
        return int(self._machine.wall_s() * 1_000_000)

    def mark(self) -> tuple[float, float, str, float]:
        boot, up_s = self._machine.uptime()
        return (self.now(), self._machine.wall_s(), boot, up_s)


def is_gone() -> bool:
    """Whether the process that the calling task belongs to has ended."""
    current = _machine.get(None)
    return current is not None and current.died is None
