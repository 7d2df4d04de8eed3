"""Keeps a hop log while its site runs: one task, started by the broker and ended by its cancellation.

It writes records that no batch of the store carries, adds the heartbeats, and has finished files synced
and renamed in a thread, so that the loop never waits for the disk to be done. A quiet site wakes it once a
minute.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import trio

from daemon.hops.open_file import FinishedFile, close_file
from daemon.hops.retention import delete_old
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings

_log = logging.getLogger(__name__)

FLUSH_S: Final = 0.1
"""How long a record that no batch carries may wait in memory: a reader of the open file hardly notices."""

RETENTION_S: Final = 60.0
"""Between looks for files to delete; at one new file a minute the bounds are kept to within a file."""


async def keep(
    log: HopLog,
    directory: Path,
    settings: HopSettings,
    *,
    held: Callable[[], int],
    idle: Callable[[], bool],
    wall_clock: Callable[[], float] = time.time,
    syncing: Callable[[], AbstractContextManager[None]] = nullcontext,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until cancelled; closing the log is left to its owner, after the store's last commit.

    It has started once the first heartbeat is written, if it is `idle` then: a boot is on record before
    anything happens in it.

    A heartbeat states how many copies are held as of the records before it. So it is appended while it is
    `idle`, or else by whoever carries decisions out, once these are on record.

    Args:
        held: how many guaranteed copies the server holds, for the heartbeat.
        idle: whether nothing is decided that is not on record, and no batch is gathered, flushed or being
            committed. Then every record that was appended is true as it stands; else the batch will flush and
            settle, and it is left to it.
        syncing: entered while a finished file is synced.
    """
    next_retention = trio.current_time()
    next_heartbeat = trio.current_time() + settings.heartbeat_s
    log.owes_heartbeat = True
    if idle():
        log.beat(held())
        log.settle(log.flush())
    task_status.started()
    async with trio.open_nursery() as nursery:
        while True:
            try:
                if trio.current_time() >= next_heartbeat:
                    next_heartbeat = trio.current_time() + settings.heartbeat_s
                    log.owes_heartbeat = True
                if idle():
                    if log.owes_heartbeat:
                        log.beat(held())
                    log.settle(log.flush())
            except Exception as error:
                log.mishap("what no batch carries to the hop log", error)
            if finished := log.take_finished():
                nursery.start_soon(_close_in_thread, log, finished, syncing)
            if trio.current_time() >= next_retention:
                next_retention = trio.current_time() + RETENTION_S
                nursery.start_soon(_delete_in_thread, log, directory, settings, wall_clock())
            at_most_s = FLUSH_S if log.owes_heartbeat else settings.file_s
            with trio.move_on_at(min(next_heartbeat, trio.current_time() + at_most_s)):
                await log.until_gathered()
                await trio.sleep(FLUSH_S)


async def _close_in_thread(
    log: HopLog, finished: list[FinishedFile], syncing: Callable[[], AbstractContextManager[None]]
) -> None:
    # What was taken is owed: who cancels waits for the disk rather than leave files to the next start.
    with trio.CancelScope(shield=True), syncing():
        for file in finished:
            try:
                await trio.to_thread.run_sync(close_file, file)
            except OSError as error:
                _log.error("a file of the hop log stays open until the next start: %s", error)
            except Exception as error:
                log.mishap("a file of the hop log that stays open until the next start", error)


async def _delete_in_thread(log: HopLog, directory: Path, settings: HopSettings, now_s: float) -> None:
    try:
        await trio.to_thread.run_sync(delete_old, directory, settings, now_s)
    except Exception as error:
        log.mishap("the deletion of old files of the hop log", error)
