"""A broker from the opening of its files to their closing: the one way to bring it up, for sites and tests.

opened_broker         the store, the hop log that goes on where the store ended, and the broker, which has
                      read what they hold; what needs a broker yet to run, as links do, is made now
OpenedBroker.start    hop log       first: a boot is on record before anything happens in it
                      run           shielded: it ends when told to, never in the middle of a commit
                      all others    time, maintenance, log, peers; an error ends none of them for good
the end of the block  the broker carries out what is left, and ends; all other tasks are cancelled; the
                      hop log is closed, then the store
"""

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import trio

from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.broker.committing import GATHER_MAX_S, IN_PLACE_S, Commits
from daemon.broker.session import BrokerSession
from daemon.hops import service as hop_service
from daemon.hops.writer import HopLog
from daemon.metrics import Metrics
from daemon.settings import HOPS, STORE, Settings
from daemon.store.reserve import Reserve
from daemon.store.schema import TooNewError
from daemon.store.store import Store
from daemon.system.clock import Clock, SystemClock
from daemon.system.mishaps import Mishaps
from daemon.system.own_thread import OwnThread

_log = logging.getLogger(__name__)


class StartError(Exception):
    """What keeps a site from starting, in one line."""


class OpenedBroker:
    """A broker with its files; it does nothing before `start`.

    Attributes:
        boot: how often the site has started, this time included.
        tasks: those of the broker, and what is to run as long as it does; cancelled once it has ended.
    """

    def __init__(
        self, broker: Broker, store: Store, hops: HopLog, hops_directory: Path, tasks: trio.Nursery
    ) -> None:
        self.broker = broker
        self.store = store
        self.hops = hops
        self.boot = store.site.boot
        self.tasks = tasks
        self._hops_directory = hops_directory
        self._ended: trio.Event | None = None

    async def start(self, *chores: Callable[[], None]) -> None:
        """Run all tasks of the broker, which does the `chores` each minute.

        Returns once the boot is on record: from then on it takes sessions and links.
        """
        broker, tasks = self.broker, self.tasks
        await tasks.start(self._keep_hops)
        self._ended, recorded = trio.Event(), trio.Event()
        # `tasks.start`, once cancelled, would wait for a task that is shielded and ends when it is told to
        tasks.start_soon(self._run, recorded, self._ended)
        await recorded.wait()
        read_hops = partial(broker.federating.enquiring.run, self._hops_directory, self.hops.until_written)
        for what, task in (
            ("what time brings about", broker.keep_time),
            ("what is done each minute", partial(broker.maintain, *chores)),
            ("the write-ahead log", broker.wal.keep),
            ("what waits for a peer", broker.federating.run),
            ("a question to the hop log", read_hops),
        ):
            tasks.start_soon(broker.mishaps.keep_going, what, task)

    async def _keep_hops(self, task_status: trio.TaskStatus[None]) -> None:
        """Write the hop log where no transaction does."""
        broker = self.broker
        await hop_service.keep(
            self.hops,
            self._hops_directory,
            broker.settings.hops,
            held=lambda: broker.held_guaranteed,
            idle=lambda: broker.idle,
            wall_clock=lambda: broker.clock.wall_ms() / 1000,
            syncing=broker.commits.beside,
            task_status=task_status,
        )

    async def _run(self, recorded: trio.Event, ended: trio.Event) -> None:
        try:
            with trio.CancelScope(shield=True):
                await self.broker.run(recorded)
        finally:
            ended.set()

    async def stop(self) -> None:
        """Close all sessions; returns, cancelled or not, once everything they caused is on disk."""
        self.broker.stop()
        if self._ended is not None:
            with trio.CancelScope(shield=True):
                await self._ended.wait()


@asynccontextmanager
async def opened_broker(
    settings: Settings,
    accounts: Accounts,
    *,
    own: Callable[[Store], object] = lambda store: None,
    clock: Callable[[tuple[float, float, str, float]], Clock] = SystemClock,
    hop_log: type[HopLog] = HopLog,
    keeps_reserve: bool = False,
    session_ended: Callable[[BrokerSession, str], None] = lambda session, why: None,
    gather_max_s: float = GATHER_MAX_S,
    in_place_s: float = IN_PLACE_S,
    own_thread: bool = False,
) -> AsyncIterator[OpenedBroker]:
    """The broker of the site whose state directory the settings name, until the end of the block.

    Whatever ends the block, a broker that has started carries out what its sessions caused before the files
    are closed. What ends a task of the broker ends the block, too, and comes in an ExceptionGroup.

    Args:
        own: told of the store as soon as it is open; what it raises ends the start.
        clock: made of the mark that the run before left in the store.
        keeps_reserve: whether room is kept for a full disk.
        session_ended: told of each session that ends, and why.
        gather_max_s, in_place_s: see `Commits`.
        own_thread: whether commits have a thread of their own, instead of trio's.

    Raises StartError where the files cannot be used.
    """
    mishaps = Mishaps()
    broker: Broker
    with (
        # where the disk is full the store gives the room, by the broker that is made of both
        _opened(
            settings,
            own,
            clock,
            partial(hop_log.open, mishap=mishaps.note, make_room=lambda: broker.wal.make_room()),
        ) as (store, hops, now),
        _reserve(settings, keeps_reserve) as reserve,
        closing(OwnThread("commits")) as thread,
    ):
        metrics = Metrics()
        commits = Commits(
            store,
            metrics.commit_s,
            thread.run_sync if own_thread else trio.to_thread.run_sync,
            gather_max_s=gather_max_s,
            in_place_s=in_place_s,
        )
        try:
            broker = Broker(
                settings, accounts, store, hops, now, mishaps, metrics, commits, reserve, session_ended
            )
        except sqlite3.Error as error:
            raise _unusable(settings.site.state_directory, error) from error
        async with trio.open_nursery() as tasks:
            opened = OpenedBroker(broker, store, hops, settings.site.state_directory / HOPS, tasks)
            try:
                yield opened
            finally:
                await opened.stop()
            tasks.cancel_scope.cancel()


@contextmanager
def _opened(
    settings: Settings,
    own: Callable[[Store], object],
    clock: Callable[[tuple[float, float, str, float]], Clock],
    open_hop_log: Callable[..., HopLog],
) -> Iterator[tuple[Store, HopLog, Clock]]:
    """The store and the hop log, which belong together, and the clock that goes on where they ended."""
    state = settings.site.state_directory
    try:
        Reserve(state).give_room()
        store = Store(state / STORE)
    except (TooNewError, sqlite3.Error, OSError) as error:
        raise _unusable(state, error) from error
    with closing(store):
        try:
            own(store)
        except sqlite3.Error as error:
            raise _unusable(state, error) from error
        now = clock(store.site.clock)
        try:
            hops = open_hop_log(
                state / HOPS,
                server=settings.site.server_name,
                boot=store.site.boot,
                committed_record=store.site.last_record,
                settings=settings.hops,
                now_us=now.wall_us,
            )
        except OSError as error:
            raise StartError(f"the hop log in {state / HOPS} cannot be used: {error}") from error
        with closing(hops):
            yield store, hops, now


def _unusable(state: Path, error: Exception) -> StartError:
    """What to say where the store cannot be opened."""
    reserve = Reserve(state) if state.is_dir() else None
    if reserve is not None and reserve.free_bytes < reserve.last_bytes and isinstance(error, sqlite3.Error):
        need = -(-reserve.last_bytes // 2**20)
        return StartError(
            f"the disk of {state} is full: to start, the site needs {need} MiB of room ({error})"
        )
    return StartError(f"the store {state / STORE} cannot be used: {error}")


@contextmanager
def _reserve(settings: Settings, keeps_reserve: bool) -> Iterator[Reserve | None]:
    """Room for the day when the disk is full; None where there can be none, or is to be none."""
    if not keeps_reserve:
        yield None
        return
    reserve = Reserve(settings.site.state_directory)
    try:
        reserve.take()
    except OSError as error:
        _log.warning("no room can be kept for a full disk: %s", error)
        yield None
        return
    yield reserve
    if reserve.given_up:
        with suppress(OSError):
            reserve.take()  # for the next start
