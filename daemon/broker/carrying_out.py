"""How decisions come true: one transaction of the store and one fsync, and what becomes of one that fails.

A transaction that fails (a full disk) is taken apart: its new messages are refused to their publishers,
everything else in it is kept and tried again, in halves, so that nothing accepted is lost. Where it fails for
single decisions, which no retry mends, those are set aside and whoever caused them is refused: see
`daemon.broker.taking_apart`.
"""

import math
import sqlite3
from collections.abc import Callable

import trio

from daemon.broker.bodies import Bodies
from daemon.broker.committing import Commits
from daemon.broker.executor import Executor, Prepared
from daemon.broker.retries import RETRY_S
from daemon.broker.waking import Waking
from daemon.hops.writer import HopLog
from daemon.store.disk_room import DiskRoom
from daemon.store.health import StoreHealth
from daemon.store.store import Store
from daemon.store.write_ahead_log import WriteAheadLog
from daemon.system.clock import Clock
from daemon.system.mishaps import Mishaps
from routing.errors import Refusal
from routing.view import SiteView


class CarryingOut:
    """The transactions of one site, made by the broker's one task.

    Args:
        dedupe_window_s: for how long Cmuids are remembered.

    Attributes:
        forgets: the next transaction deletes what is no longer needed.
    """

    def __init__(
        self,
        executor: Executor,
        store: Store,
        hops: HopLog,
        commits: Commits,
        wal: WriteAheadLog,
        disk: DiskRoom,
        health: StoreHealth,
        bodies: Bodies,
        waking: Waking,
        view: SiteView,
        clock: Clock,
        mishaps: Mishaps,
        dedupe_window_s: Callable[[], float],
    ) -> None:
        self.forgets = False
        self._executor = executor
        self._store = store
        self._hops = hops
        self._commits = commits
        self._wal = wal
        self._disk = disk
        self._health = health
        self._bodies = bodies
        self._waking = waking
        self._view = view
        self._clock = clock
        self._mishaps = mishaps
        self._dedupe_window_s = dedupe_window_s

    async def transact(self, *, commits: bool = False) -> Prepared | None:
        """Make one transaction of what was decided; `commits` also where nothing is to be stored.

        Returns what is true now, whose effects are to be released. None where it failed: all is to be tried
        again, and whoever waits for that is woken.
        """
        try:
            prepared, record = await self._stored(commits=commits)
        except Exception as error:  # of ours, and not of what is carried
            self._mishaps.note("a transaction", error)
            await self._begin_anew()
            return None
        if prepared is not None:
            try:
                self._settle(record)
            except Exception as error:
                self._mishaps.note("what a transaction settles", error)
        return prepared

    async def _stored(self, *, commits: bool) -> tuple[Prepared | None, int | None]:
        """What is true now, None where the store failed, and all is to be tried again; and `_store_batch`."""
        while True:
            prepared = self._executor.prepare()
            try:
                record = await self._store_batch(prepared, commits=commits)
                break
            except sqlite3.OperationalError as error:
                await self._failed(error)
                return None, None
            except Exception as error:  # of ours, or at one place of a store that is damaged
                if not self._set_aside(prepared, error):
                    await self._failed(error)
                    return None, None
        self._executor.committed()
        return prepared, record

    def _settle(self, record: int | None) -> None:
        """All that was carried is true, up to this hop record; None where nothing was to be stored."""
        if record is not None:
            self._hops.settle(record)
            self._bodies.committed(besides=self._executor.unstored())
            self.forgets = False
            if self._executor.again_at == math.inf:  # else what was accepted waits for room
                self._health.works()
            self._waking.recorded()
        else:
            self._hops.confirm()
            self._waking.record_later()

    async def _begin_anew(self) -> None:
        """Try all again that is not on disk, in a moment."""
        try:
            self._store.roll_back()
            self._hops.revert()
        except Exception as error:
            self._mishaps.note("what is undone of a transaction", error)
        self._executor.keep_all()
        await trio.sleep(RETRY_S)
        self._waking.wake()

    async def _store_batch(self, prepared: Prepared, *, commits: bool) -> int | None:
        """The last hop record that is true with it; None where there was nothing to store."""
        if prepared.faults:
            raise prepared.faults[0].error
        if self.forgets and not self._disk.short:
            publications_until = self._clock.now() - self._dedupe_window_s()
            prepared.batch.forget(publications_until, self._view.oldest_removal_at)
        if self._disk.short:
            prepared.batch.returned_pages = self._disk.returned_pages(self._store.growth_bytes())
        # after a failure, an empty transaction tells whether the store works again
        if not (commits or prepared.batch or self._health.failed is not None or self._waking.record_due):
            return None
        record = self._hops.flush()
        self._store.write(prepared.batch, record, self._clock.mark())
        await self._commits.commit(len(prepared.decisions))
        return record

    def _set_aside(self, prepared: Prepared, error: Exception) -> bool:
        """Set aside what a transaction cannot be carried out with; False where that cannot be found."""
        self._store.roll_back()
        self._hops.revert()
        try:
            faults = prepared.faults or self._executor.find_faults()
        except sqlite3.Error:
            faults = []
        if faults:
            self._executor.set_aside(faults, self._clock.now())
        elif self.forgets:
            self._mishaps.note("what is forgotten each minute", error)
            self.forgets = False
            self._executor.set_aside([], self._clock.now())
        else:
            self._mishaps.note("a transaction", error)
            return False
        return True

    async def _failed(self, error: Exception) -> None:
        has_room = self._wal.make_room()
        if not has_room:
            self._health.fails(error)
        self._store.roll_back()
        self._hops.revert()
        refusal = Refusal(Refusal.STORE_FAILED, f"the site cannot store messages: {error}")
        will_be_less = self._executor.take_apart(refusal, self._clock.now())
        await self._wal.tend(idle=False)  # what it holds twice is the first to give back
        if not (has_room or will_be_less):
            await trio.sleep(RETRY_S)
        self._waking.wake()
