"""When the write-ahead log is moved into the store, and what becomes of its file."""

import math
from typing import cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.store.batch import Batch
from daemon.store.changes import Surroundings
from daemon.store.disk_room import SHORT_S, DiskRoom
from daemon.store.reserve import Reserve
from daemon.store.store import WAL_CHECKPOINT_BYTES, Store
from daemon.store.write_ahead_log import WriteAheadLog
from routing.decisions import StoreMessage
from routing.message import Message
from routing.queue import GUARANTEED, ONE, Entry
from routing.targets import Topic

MIB = 2**20


class Disk:
    """A reserve on a disk that others fill and empty."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.free_bytes = 100 * size_bytes
        self.held, self.given_up = True, False

    @property
    def room_bytes(self) -> int:
        return self.free_bytes + (self.size_bytes * 3 // 4 if self.held else 0)

    def give_up(self) -> bool:
        self.free_bytes = self.room_bytes
        self.held, self.given_up = False, True
        return True

    def take(self) -> bool:
        self.held = self.free_bytes >= 2 * self.size_bytes
        self.given_up = not self.held
        return self.held


class FillingStore:
    """A store on whose disk the room ends while a thread moves the log for the first time."""

    logged_bytes = math.inf

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._fills = True
        self.log: WriteAheadLog | None = None
        self.has_filled = trio.Event()

    def growth_bytes(self) -> int:
        return 0

    def checkpoint(self) -> None:
        if not self._fills:
            return
        self._fills = False
        self._disk.free_bytes = 0
        assert self.log is not None
        assert trio.from_thread.run_sync(self.log.make_room)  # as by the transaction that meets it
        self._disk.free_bytes = 100 * self._disk.size_bytes
        trio.from_thread.run_sync(self.has_filled.set)


def log_of(store: Store | FillingStore, disk: Disk) -> tuple[WriteAheadLog, DiskRoom]:
    room = DiskRoom(cast(Reserve, disk))
    return WriteAheadLog(cast(Store, store), room, trio.Lock(), lambda: None), room


def publish(store: Store, first: int, count: int, size: int) -> None:
    batch = Batch(Surroundings("a.example", lambda: 0.0, lambda: 0.0, lambda: 0, {}))
    for id in range(first, first + count):
        entry = Entry(id, Topic("jobs", "a.example"), 1_000, 3, size, GUARANTEED | ONE, 1, math.inf)
        batch.begin_message(StoreMessage(entry, Message(), receipt_due=0), bytes(size))
    store.write(batch, 1, (0.0, 0.0, "", 0.0))
    store.commit()


async def moved(store: Store, log: WriteAheadLog, nursery: trio.Nursery) -> None:
    """The log is long, is moved, and the next transaction is over."""
    nursery.start_soon(log.keep)
    await log.tend(idle=True)
    while store.logged_bytes:
        await wait_all_tasks_blocked()
        await log.tend(idle=True)


async def test_a_disk_that_fills_beside_a_checkpoint_is_looked_at_until_there_is_room(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = Disk(4 * MIB)
    store = FillingStore(disk)
    store.log, room = log_of(store, disk)
    nursery.start_soon(store.log.keep)
    await store.log.tend(idle=True)
    await store.has_filled.wait()
    assert room.short
    for _ in range(1_000):  # a thread looks, which takes the time that it takes
        if room.short:
            mock_clock.jump(SHORT_S)
            await wait_all_tasks_blocked(0.01)
    assert not room.short


async def test_where_there_is_room_the_log_keeps_its_length(store: Store, nursery: trio.Nursery) -> None:
    log, _ = log_of(store, Disk(96 * MIB))
    publish(store, 1, 100, WAL_CHECKPOINT_BYTES // 100 + 1)
    length = store.wal_bytes()
    await moved(store, log, nursery)
    assert store.wal_bytes() == length


async def test_on_a_small_disk_it_is_cut(store: Store, nursery: trio.Nursery) -> None:
    log, _ = log_of(store, Disk(4 * MIB))
    publish(store, 1, 3, MIB)
    await moved(store, log, nursery)
    assert store.wal_bytes() == 0


async def test_a_disk_is_full_while_there_is_room_to_move_a_log_that_is_long(store: Store) -> None:
    disk = Disk(4 * MIB)
    log, room = log_of(store, disk)
    publish(store, 1, 4, MIB)
    disk.free_bytes = 4 * MIB
    await log.tend(idle=False)
    assert not room.short
    disk.free_bytes = 2 * MIB
    await log.tend(idle=False)
    assert room.short
    assert store.wal_bytes() == store.growth_bytes() == 0


def test_what_is_written_over_counts_with_all_its_bytes(store: Store) -> None:
    publish(store, 1, 10, MIB)
    store.checkpoint()
    assert store.move_rest()
    publish(store, 11, 5, MIB)
    assert 5 * MIB <= store.logged_bytes < 10 * MIB <= store.wal_bytes()
