"""Carries out what the router decides, in one place and one order.

    inputs (sessions, time) -> router -> decisions -> | store operations -> one transaction, one fsync |
                                                      | effects          -> released after the commit  |

`Broker.run` is the one task that writes to the store. While it waits for the disk, inputs go on and
their decisions gather for the next transaction: the busier the site, the more messages share an fsync.

A transaction that fails (a full disk) is taken apart: its new messages are refused to their publishers,
everything else in it is kept and tried again, in halves, so that nothing accepted is lost. Where it fails for
single decisions, which no retry mends, those are set aside and whoever caused them is refused: see
`daemon.broker.taking_apart`.
"""

import logging
import math
import sqlite3
from collections.abc import Callable
from typing import Final

import trio

from daemon import frontend
from daemon.accounts.accounts import Accounts
from daemon.broker.account_use import AccountUse
from daemon.broker.bodies import Bodies
from daemon.broker.browsing import Browsing
from daemon.broker.committing import Commits
from daemon.broker.executor import Executor, Prepared
from daemon.broker.federating import BACKLOG_MAX, Federating
from daemon.broker.reading import Reading
from daemon.broker.retries import RETRY_S
from daemon.broker.router_settings import router_settings
from daemon.broker.session import BrokerSession
from daemon.broker.store_room import StoreRoom
from daemon.broker.waking import Waking
from daemon.hops.writer import HopLog
from daemon.metrics import Metrics
from daemon.settings import Limits, Settings
from daemon.store.disk_room import DiskRoom
from daemon.store.health import StoreHealth
from daemon.store.reserve import Reserve
from daemon.store.store import Store
from daemon.store.write_ahead_log import WriteAheadLog
from daemon.system.clock import Clock
from daemon.system.limited_log import LimitedLog
from daemon.system.mishaps import Mishaps
from routing.door import Door
from routing.errors import Refusal
from routing.router import Router

_log = logging.getLogger(__name__)

MAINTENANCE_S: Final = 60.0


class Broker:
    """The messages of one site.

    Args:
        store: opened, of this site; closed by whoever opened it, after `run` has ended.
        hops: likewise.
        commits: of the store.
        reserve: what is given up where the disk is full; None for nothing.
        session_ended: told of each session that ends, and why.

    Attributes:
        idle: no transaction is gathered, written or being committed.
        wake: the router has decisions, or what was decided is to be carried out.
    """

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        store: Store,
        hops: HopLog,
        clock: Clock,
        mishaps: Mishaps,
        metrics: Metrics,
        commits: Commits,
        reserve: Reserve | None,
        session_ended: Callable[[BrokerSession, str], None],
    ) -> None:
        self.server_name = settings.site.server_name
        self.accounts = accounts
        self.clock = clock
        self.settings = settings
        self.mishaps = mishaps
        self.changes = LimitedLog(_log, "changes of topics")
        self.metrics = metrics
        self.commits = commits
        self._store_health = StoreHealth()
        self._store = store
        self._hops = hops
        self._disk = DiskRoom(reserve)
        self.account_use = AccountUse(
            settings, accounts, lambda account: self.door.view.share(account), self.metrics, clock
        )
        self.unfinished = self.account_use.unfinished
        self._sessions: dict[BrokerSession, None] = {}
        self._session_ids = 0
        self._session_ended = session_ended
        self._maintenance_due = False
        self.draining = False
        self._closing = False
        self.idle = True
        self._router = Router(
            self.server_name,
            store.site.boot,
            router_settings(settings),
            clock.wall_ms,
            store.recall,
            accounts.enabled,
            accounts,
            self.mishaps.note,
            self.account_use.held_max,
        )
        self._waking = Waking(self._router, clock, lambda: commits.patience_s)
        self.wake = self._waking.wake
        self.door = Door(self._router, clock.now, self.wake, self._waking.wake_later)
        self.room = StoreRoom(
            store, self._disk, self._store_health, self.door.room, lambda: self.settings.store
        )
        self._bodies = Bodies(self.door.view.last_id)
        self.reading = Reading(self.door, store)
        self.browse = Browsing(self.door, self._bodies, self.reading, clock).page
        self.wal = WriteAheadLog(store, self._disk, self.reading.lock, self.wake, commits.beside)
        hops.make_room = self.wal.make_room
        self.federating = Federating(
            self.door,
            self._bodies,
            clock,
            self.wake,
            self.reading.load,
            self.room.has_room,
            self.room.has_room_for_peers,
            self.mishaps,
        )
        self._executor = Executor(
            self._router,
            self._bodies,
            hops,
            clock,
            store,
            self.reading,
            self.federating.effects,
            self.mishaps,
            self.federating.end_link,
            self.metrics,
            self.federating.put_back,
        )
        restore = self._router.restore(clock.now())
        store.restore_into(restore, clock.now(), settings.queues.dedupe_window_s)

    @property
    def limits(self) -> Limits:
        """The bounds of front ends."""
        return self.settings.limits

    @property
    def store_failed(self) -> str | None:
        """Why the last transaction failed; None where it did not."""
        return self._store_health.failed

    @property
    def overloaded(self) -> bool:
        """More waits for a store that fails than is to be kept in memory."""
        return self._executor.backlog >= BACKLOG_MAX

    @property
    def damaged(self) -> int:
        """Rows of the store that were damaged when they were read."""
        return self._store.damaged

    @property
    def held(self) -> int:
        """Guaranteed messages that the site holds."""
        return self.door.view.held

    @property
    def disk_full(self) -> bool:
        """No message is taken until there is room on the disk."""
        return self._disk.short

    @property
    def store_bytes(self) -> int:
        """Size of the store."""
        return self._store.size_bytes

    # -- sessions ---------------------------------------------------------------------------------

    @property
    def sessions(self) -> list[BrokerSession]:
        """Those that are open, the oldest first."""
        return list(self._sessions)

    def open_session(
        self, identity: frontend.Identity, channel: str, *, protocol: str, remote: str
    ) -> BrokerSession:
        """See `daemon.frontend.Site`."""
        if self.draining or self._closing:
            raise Refusal(Refusal.NOT_AVAILABLE, "the site is stopping")
        if not self.accounts.enabled(identity.account):
            raise Refusal(Refusal.BAD_LOGIN, "account or password is wrong")
        self.account_use.begin_session(identity.account)
        self._session_ids += 1
        session = BrokerSession(self, self._session_ids, identity.account, channel, protocol, remote)
        self._sessions[session] = None
        return session

    def close_session(self, session: BrokerSession, *, lost: bool, why: str = "") -> None:
        """The front end is done with a session, whose client was `lost` or not; twice changes nothing.

        `why` is for the log.
        """
        if session in self._sessions:
            self._session_ended(session, why or ("the connection was lost" if lost else "its client left"))
            del self._sessions[session]
            self.account_use.end_session(session.account)
            self.door.close(session.consumer, lost=lost)

    def reconfigure(self, settings: Settings) -> None:
        """Take on new limits, and end what rights and accounts no longer allow. Never raises."""
        self.settings = settings
        self.door.reconfigure(router_settings(settings))
        self.account_use.reconfigure(settings)
        for session in list(self._sessions):
            session.limit_pace()
            if not self.accounts.enabled(session.account):
                session.end(frontend.Ending("disabled", "the account has been disabled"))
        self.door.end_forbidden()

    # -- the one task -----------------------------------------------------------------------------

    async def run(self, recorded: trio.Event) -> None:
        """Carry decisions out until `stop`; then carry out what is left, and return.

        Sets `recorded` once the hop log is committed as far as it goes: a boot in which something happened
        is on record. To be shielded from cancellation by whoever starts it: a commit that is under way has
        to end.
        """
        await self._carry_out(commits=True)
        recorded.set()
        while not self._closing or self._has_more:
            await self._waking.wait()
            await self.commits.gather()
            self._waking.begin()
            await self._carry_out()
            self._waking.note_time()  # what is carried out brings things about: dead letters, what comes back
            if self.draining and not self._has_more:
                for session in list(self._sessions):
                    session.end(frontend.Ending("draining", "the site is stopping"))

    @property
    def _has_more(self) -> bool:
        """Whether there is something to carry out, other than what a failing store keeps waiting."""
        return bool(self.door.view.untaken or (self._executor.backlog and self.store_failed is None))

    async def _carry_out(self, *, commits: bool = False) -> None:
        """One transaction; `commits` also where nothing is to be stored."""
        self.idle = False
        self._waking.carry_out_all()
        self.unfinished.begin_commit()
        try:
            prepared, record = await self._transact(commits=commits)
        except Exception as error:  # of ours, and not of what is carried
            self.mishaps.note("a transaction", error)
            await self._begin_anew()
            return
        finally:
            self.unfinished.committed()
        if prepared is None:
            return
        try:
            self._note_transaction(record)
        except Exception as error:
            self.mishaps.note("what a transaction settles", error)
        self._executor.release(prepared)
        try:
            self.federating.carried_out()
            self._note_retries()
            self.idle = not self._has_more
            if self._executor.backlog:
                self._waking.wake()
            await self.wal.tend(idle=self.idle)
        except Exception as error:
            self.mishaps.note("what follows a transaction", error)

    async def _transact(self, *, commits: bool) -> tuple[Prepared | None, int | None]:
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

    def _note_retries(self) -> None:
        """Wake in time to try again what found no room."""
        now = self.clock.now()
        letters_s = max(self._executor.again_at - now, 0.0)  # their time may have come during the commit
        copies_s = self.federating.again_at - now  # those were looked at after it
        in_s = min(letters_s, copies_s if copies_s > 0 else math.inf)
        if in_s < math.inf:
            self._waking.wake_in(in_s)

    def _note_transaction(self, record: int | None) -> None:
        """All that was carried is true, up to this hop record; None where nothing was to be stored."""
        if record is not None:
            self._hops.settle(record)
            self._bodies.committed(besides=self._executor.unstored())
            self._maintenance_due = False
            if self._executor.again_at == math.inf:  # else what was accepted waits for room
                self._store_health.works()
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
            self.mishaps.note("what is undone of a transaction", error)
        self._executor.keep_all()
        await trio.sleep(RETRY_S)
        self._waking.wake()

    async def _store_batch(self, prepared: Prepared, *, commits: bool) -> int | None:
        """The last hop record that is true with it; None where there was nothing to store."""
        if prepared.faults:
            raise prepared.faults[0].error
        if self._maintenance_due and not self._disk.short:
            publications_until = self.clock.now() - self.settings.queues.dedupe_window_s
            prepared.batch.forget(publications_until, self.door.view.oldest_removal_at)
        if self._disk.short:
            prepared.batch.returned_pages = self._disk.returned_pages(self._store.growth_bytes())
        # after a failure, an empty transaction tells whether the store works again
        if not (commits or prepared.batch or self.store_failed is not None or self._waking.record_due):
            return None
        record = self._hops.flush()
        self._store.write(prepared.batch, record, self.clock.mark())
        await self.commits.commit(len(prepared.decisions))
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
            self._executor.set_aside(faults, self.clock.now())
        elif self._maintenance_due:
            self.mishaps.note("what is forgotten each minute", error)
            self._maintenance_due = False
            self._executor.set_aside([], self.clock.now())
        else:
            self.mishaps.note("a transaction", error)
            return False
        return True

    async def _failed(self, error: Exception) -> None:
        has_room = self.wal.make_room()
        if not has_room:
            self._store_health.fails(error)
        self._store.roll_back()
        self._hops.revert()
        refusal = Refusal(Refusal.STORE_FAILED, f"the site cannot store messages: {error}")
        will_be_less = self._executor.take_apart(refusal, self.clock.now())
        await self.wal.tend(idle=False)  # what it holds twice is the first to give back
        if not (has_room or will_be_less):
            await trio.sleep(RETRY_S)
        self._waking.wake()

    # -- time -------------------------------------------------------------------------------------

    async def keep_time(self) -> None:
        """Wake the router when time alone brings something about. Runs until cancelled."""
        await self._waking.keep_time(self.door.tick)

    async def maintain(self, *chores: Callable[[], None]) -> None:
        """Each minute, do the `chores`, and reclaim what is no longer needed. Runs until cancelled."""
        while True:
            await trio.sleep(MAINTENANCE_S)
            for chore in chores:
                try:
                    chore()
                except Exception as error:
                    self.mishaps.note("what is done each minute", error)
            for subscription in self.door.maintain():
                name = subscription.options.name
                _log.warning(
                    "removed the subscription of %s to %s%s: nobody has used it for %g days",
                    subscription.owner,
                    subscription.target.name,
                    f" ({name})" if name else "",
                    self.settings.queues.subscription_unused_s / 86_400,
                )
            self._maintenance_due = True
            self.wake()

    def drain(self) -> None:
        """Refuse whatever is asked from now on, and end each session once what it had asked is answered."""
        self.draining = True
        self._waking.wake()

    def stop(self) -> None:
        """Close all sessions; `run` returns once everything they caused is on disk."""
        self._closing = True
        for session in list(self._sessions):
            self.close_session(session, lost=False, why="the site stops")
        self._waking.wake()
