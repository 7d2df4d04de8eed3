"""Carries out what the router decides, in one place and one order.

    inputs (sessions, time) -> router -> decisions -> | store operations -> one transaction, one fsync |
                                                      | effects          -> released after the commit  |

`Broker.run` is the one task that writes to the store. While it waits for the disk, inputs go on and
their decisions gather for the next transaction: the busier the site, the more messages share an fsync.

What a transaction holds, and what becomes of one that fails, is in `daemon.broker.carrying_out`.
"""

import logging
import math
from collections.abc import Callable
from typing import Final

import trio

from daemon import frontend
from daemon.accounts.accounts import Accounts, wrong_login
from daemon.broker.account_use import AccountUse
from daemon.broker.bodies import Bodies
from daemon.broker.browsing import Browsing
from daemon.broker.carrying_out import CarryingOut
from daemon.broker.committing import Commits
from daemon.broker.executor import Executor
from daemon.broker.federating import BACKLOG_MAX, Federating
from daemon.broker.reading import Reading
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
        self._disk = DiskRoom(reserve)
        self.account_use = AccountUse(
            settings, accounts, lambda account: self.door.view.share(account), self.metrics, clock
        )
        self.unfinished = self.account_use.unfinished
        self._sessions: dict[BrokerSession, None] = {}
        self._session_ids = 0
        self._session_ended = session_ended
        self.draining = False
        self._closing = False
        self._rests = True
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
        browsing = Browsing(self.door, self._bodies, self.reading, clock)
        self.browse, self.browse_every = browsing.page, browsing.every
        self.wal = WriteAheadLog(store, self._disk, self.reading.lock, self.wake, commits.beside)
        self.federating = Federating(
            self.door,
            self._bodies,
            clock,
            self.wake,
            self.reading.load_some,
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
        self._carrying_out = CarryingOut(
            self._executor,
            store,
            hops,
            commits,
            self.wal,
            self._disk,
            self._store_health,
            self._bodies,
            self._waking,
            self.door.view,
            clock,
            mishaps,
            lambda: self.settings.queues.dedupe_window_s,
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
        """Whether more waits for a store that fails than is to be kept in memory."""
        return self._executor.backlog >= BACKLOG_MAX

    @property
    def damaged(self) -> int:
        """Rows of the store that were damaged when they were read."""
        return self._store.damaged

    @property
    def held(self) -> int:
        """All messages that the site holds, with a guarantee or without."""
        return self.door.view.held

    @property
    def held_guaranteed(self) -> int:
        """Those of them that have a guarantee."""
        return self.door.view.guaranteed

    @property
    def idle(self) -> bool:
        """Whether all that was decided is carried out, and no transaction is under way."""
        return self._rests and not (self.door.view.untaken or self._executor.backlog)

    @property
    def disk_full(self) -> bool:
        """Whether no message is taken until there is room on the disk."""
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
            raise wrong_login()
        self.account_use.begin_session(identity.account)
        self._session_ids += 1
        session = BrokerSession(self, self._session_ids, identity.account, channel, protocol, remote)
        self._sessions[session] = None
        return session

    def close_session(self, session: BrokerSession, *, lost: bool, why: str = "") -> None:
        """End a session that its front end is done with; its client was `lost` or not. Twice changes nothing.

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
        self.door.take_on_rights()

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
        self._rests = False
        self._waking.carry_out_all()
        self.unfinished.begin_commit()
        try:
            prepared = await self._carrying_out.transact(commits=commits)
        finally:
            self.unfinished.committed()
        if prepared is None:
            return
        self._executor.release(prepared)
        try:
            self.federating.carried_out()
            self._note_retries()
            self._rests = True
            if self._executor.backlog:
                self._waking.wake()
            await self.wal.tend(idle=not self._has_more)
        except Exception as error:
            self.mishaps.note("what follows a transaction", error)

    def _note_retries(self) -> None:
        """Wake in time to try again what found no room."""
        now = self.clock.now()
        letters_s = max(self._executor.again_at - now, 0.0)  # their time may have come during the commit
        copies_s = self.federating.again_at - now  # those were looked at after it
        in_s = min(letters_s, copies_s if copies_s > 0 else math.inf)
        if in_s < math.inf:
            self._waking.wake_in(in_s)

    # -- time -------------------------------------------------------------------------------------

    async def keep_time(self) -> None:
        """Wake the router when time alone brings something about. Runs until cancelled."""
        await self._waking.keep_time(self.door.tick)

    async def maintain(self, *chores: Callable[[], None]) -> None:
        """Do the `chores` each minute, and reclaim what is no longer needed. Runs until cancelled."""
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
            self._carrying_out.forgets = True
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
