"""Keeps the store's write-ahead log short.

Where there is room, a thread moves it into the database beside running commits (`keep`), and what is little
then is moved between two transactions (`tend`). The log keeps its length, and what comes is written over it:
a sync of a file that grows costs twice as much. On a small disk it is cut.

On a full disk it is done at once, between two transactions, since each byte of the log that is not moved yet
stands in the way: the database may have to grow by it first. So a disk counts as full while there is still
room for that. What is finished leaves free pages, which are
given back to the file system bit by bit, so that there is room again.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import trio

from daemon.store.disk_room import LOOK_EVERY_S, DiskRoom
from daemon.store.store import WAL_CHECKPOINT_BYTES, Store

_log = logging.getLogger(__name__)

RETRY_S: Final = 5.0
"""After it could not be emptied, because a backup reads from it."""

FAILED_RETRY_S: Final = 60.0
"""After the disk failed."""


class WriteAheadLog:
    """Owned by the broker; `wake` has it carry out a transaction, though it may be an empty one.

    Args:
        reading: held by whoever reads from the store, which keeps the log from being cut.
        beside: entered while a thread moves it.
    """

    def __init__(
        self,
        store: Store,
        disk: DiskRoom,
        reading: trio.Lock,
        wake: Callable[[], None],
        beside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._store = store
        self._disk = disk
        self._reading = reading
        self._wake = wake
        self._beside = beside
        self._full = trio.Event()
        self._checkpointed = False
        self._rests_until = -float("inf")

    def make_room(self) -> bool:
        """Make room where something could not be written; whether it may be tried again at once."""
        if not self._disk.make():
            return False
        self._full.set()  # to look from now on whether there is room
        return True

    async def tend(self, *, idle: bool) -> None:
        """Keep the log in its bounds, between two transactions, by the task that writes.

        `idle`: nothing waits for the next transaction.
        """
        logged_bytes = self._store.logged_bytes
        if not self._disk.short and self._outgrows_the_disk(logged_bytes):
            self.make_room()
        if self._disk.short:
            await self._give_back(idle=idle)
        elif self._checkpointed:
            self._checkpointed = False
            # On a small disk its length is room that others need, and tells exactly how much is in it.
            keeps_length = self._disk.wal_bytes_max(WAL_CHECKPOINT_BYTES) == WAL_CHECKPOINT_BYTES
            if not await (self._moved() if keeps_length else self._emptied()):
                self._rest(RETRY_S)
        elif logged_bytes > self._disk.wal_bytes_max(WAL_CHECKPOINT_BYTES) and (
            trio.current_time() >= self._rests_until
        ):
            self._full.set()

    def _outgrows_the_disk(self, logged_bytes: int) -> bool:
        """Whether commits have outrun the thread that moves the log, on a disk that is nearly full."""
        store, disk = self._store, self._disk
        return not disk.could_move(logged_bytes) and not disk.could_move(store.growth_bytes())

    async def _give_back(self, *, idle: bool) -> None:
        """The disk is full: move the log into the database; go on as long as pages are to be given back."""
        store, disk = self._store, self._disk
        growth_bytes = store.growth_bytes()
        wal_bytes_max = 0 if idle else disk.wal_bytes_max(WAL_CHECKPOINT_BYTES)
        if store.wal_bytes() <= wal_bytes_max and not growth_bytes:
            return
        if (
            disk.lets_grow(growth_bytes)
            and await self._emptied()
            and idle
            and disk.wants_back(store.unused_bytes)
        ):
            self._wake()

    async def _moved(self) -> bool:
        return await self._done(self._store.move_rest)

    async def _emptied(self) -> bool:
        async with self._reading:
            return await self._done(self._store.empty_wal)

    async def _done(self, moves: Callable[[], bool]) -> bool:
        try:
            return await trio.to_thread.run_sync(moves)
        except sqlite3.Error as error:
            if not self.make_room():
                _log.error("the write-ahead log cannot be emptied: %s", error)
            return False

    async def keep(self) -> None:
        """Move it into the database when it is long. Runs until cancelled.

        Where the disk was full, it also looks whether there is room again.
        """
        while True:
            await self._full.wait()
            while self._disk.short:
                await self._disk.look()
                self._wake()  # to give back what has become free
                await trio.sleep(LOOK_EVERY_S)
            try:
                with self._beside():
                    await trio.to_thread.run_sync(self._store.checkpoint)
                self._checkpointed = True
            except sqlite3.Error as error:
                if self.make_room() or self._disk.short:
                    continue
                _log.error("the write-ahead log cannot be moved into the store: %s", error)
                self._rest(FAILED_RETRY_S)
            self._full = trio.Event()
            if self._disk.short:  # since a transaction beside the checkpoint
                self._full.set()

    def _rest(self, seconds: float) -> None:
        self._rests_until = trio.current_time() + seconds
