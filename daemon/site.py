"""One running site: the store, the broker and the front ends, from start to clean stop.

    broker.run        shielded: it ends when told to, never in the middle of a commit
    links             to the peers, if there are any; they get a goodbye after the front ends
    broker.keep_...   time, house, write-ahead log, hop log
    front ends        one task for each plugin

Whatever ends the site (`RunningSite.draining`, cancellation, a task that fails), front ends go first, at
the latest when the drain time is over; then the broker carries out what they caused; then the hop log and
the store are closed.
"""

import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import trio

from daemon.accounts import Accounts
from daemon.broker import Broker
from daemon.clock import SystemClock
from daemon.control import serve_control
from daemon.frontend import Identity, Limits, Plugin, Session, SubscriptionInfo
from daemon.hops.writer import HopLog
from daemon.listen import Listeners
from daemon.settings import Settings
from daemon.site_links import HOPS, SiteLinks
from daemon.store.schema import TooNewError
from daemon.store.store import Store
from daemon.tls import ClientTls
from daemon.version import VERSION

STORE: Final = "smqpd.db"
"""In the state directory."""

LINKS_SOCKET: Final = "smqp-links"
"""The name of a socket that the service manager opens for peers."""

CLOSE_S: Final = 1.0
"""After the drain time, for front ends to end by themselves."""


class RunningSite:
    """What front ends see (`daemon.frontend.Site`), and what a reload changes."""

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        broker: Broker,
        links: SiteLinks,
        suid: str,
        passed: dict[str, list[socket.socket]],
    ) -> None:
        """Raises ConfigError where the TLS files cannot be used."""
        self.server_name = settings.site.server_name
        self.server_ident = f"smqpd/{VERSION}"
        self.suid = suid
        self.draining = trio.Event()
        self.front_ends = trio.CancelScope()
        self.broker = broker
        self.links = links
        self.settings = settings
        self._accounts = accounts
        self._tls = ClientTls(settings.tls)
        self._listeners = Listeners(
            limits=lambda: self.limits,
            tls_context=lambda: self._tls.context,
            draining=self.draining,
            drain_s=settings.site.drain_s,
            passed=passed,
        )

    @property
    def limits(self) -> Limits:
        """See `daemon.frontend.Site`."""
        return self.settings.limits

    @property
    def default_timeout_s(self) -> float:
        """See `daemon.frontend.Site`."""
        return self.settings.queues.default_timeout_s

    @property
    def redirect(self) -> str | None:
        """See `daemon.frontend.Site`."""
        return self.settings.site.redirect or None

    @property
    def status(self) -> str:
        """One line for people."""
        return f"{self._listeners.connections} connections, {self.broker.held} messages held"

    async def authenticate(self, account: str, password: str, remote: str) -> Identity:
        """See `daemon.frontend.Site`."""
        return await self._accounts.authenticate(account, password, remote)

    def open_session(self, identity: Identity, channel: str, *, protocol: str, remote: str) -> Session:
        """See `daemon.frontend.Site`."""
        return self.broker.open_session(identity, channel, protocol=protocol, remote=remote)

    @property
    def topic_count(self) -> int:
        """See `daemon.frontend.Site`."""
        return self.broker.topic_count

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        """See `daemon.frontend.Site`."""
        return self.broker.durable_subscriptions(name_prefix)

    async def serve_streams(
        self,
        listen: tuple[str, ...],
        handler: Callable[[trio.abc.Stream, str], Awaitable[object]],
        *,
        socket_name: str,
        tls: bool,
        refusal: bytes = b"",
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """See `daemon.frontend.Site`. Raises ListenError before it has started."""
        await self._listeners.serve(
            listen, handler, socket_name=socket_name, tls=tls, refusal=refusal, task_status=task_status
        )

    def stop(self) -> None:
        """Begin to drain; when it drains already, end it now."""
        if self.draining.is_set():
            self.front_ends.cancel()
        self.draining.set()
        self.broker.drain()

    def reload(self, settings: Settings) -> None:
        """Take on new accounts, rights, limits, TLS files and peers; connections of clients stay.

        What only a start can change stays as it is. Raises ConfigError, and then nothing has changed.
        """
        tls = ClientTls(settings.tls)
        accounts = self._accounts.read()
        self.links.reload()  # the last that can refuse
        self._accounts.replace(accounts)
        self._tls = tls
        self.settings = settings
        self.broker.reconfigure(settings)


class StartError(Exception):
    """What keeps a site from starting, in one line."""


async def serve_site(
    settings: Settings,
    plugins: Mapping[str, Plugin],
    passed: dict[str, list[socket.socket]],
    task_status: trio.TaskStatus[RunningSite] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a site until it is stopped and has drained; started once all front ends accept.

    The state directory must be locked by the caller; `passed` holds the listening sockets that the service
    manager opened, by name. Raises ConfigError and StartError, and ListenError in an ExceptionGroup.
    """
    accounts = Accounts(settings.site.accounts_file, settings.site.server_name)
    with _opened(settings) as (store, hops, clock):
        broker = Broker(settings, accounts, store, hops, clock)
        suid = f"{settings.site.server_name}/{store.site.boot:x}"
        try:
            links = SiteLinks(settings, broker, store.site.boot, passed.pop(LINKS_SOCKET, ()))
        except OSError as error:
            raise StartError(f"{settings.site.state_directory} cannot be used: {error}") from None
        site = RunningSite(settings, accounts, broker, links, suid, passed)
        async with trio.open_nursery() as core:
            await core.start(broker.keep_hops, settings.site.state_directory / HOPS)
            broker_ended = trio.Event()
            try:
                await core.start(_run_broker, broker, broker_ended)
                core.start_soon(broker.keep_time)
                core.start_soon(broker.keep_house)
                core.start_soon(broker.keep_wal)
                await core.start(links.run)
                await core.start(serve_control, settings.site.state_directory, links.answer)
                await _serve_front_ends(site, plugins, task_status)
                await links.drain()
            finally:
                broker.stop()
                with trio.CancelScope(shield=True):
                    await broker_ended.wait()
            core.cancel_scope.cancel()


@contextmanager
def _opened(settings: Settings) -> Iterator[tuple[Store, HopLog, SystemClock]]:
    """The store and the hop log, which belong together, and the clock that goes on where they ended."""
    state = settings.site.state_directory
    try:
        store = Store(state / STORE)
    except (TooNewError, sqlite3.Error, OSError) as error:
        raise StartError(f"the store {state / STORE} cannot be used: {error}") from None
    with closing(store):
        clock = SystemClock(store.site.clock)
        try:
            hops = HopLog.open(
                state / HOPS,
                server=settings.site.server_name,
                boot=store.site.boot,
                committed_record=store.site.last_record,
                settings=settings.hops,
                now_us=clock.wall_us,
            )
        except OSError as error:
            raise StartError(f"the hop log in {state / HOPS} cannot be used: {error}") from None
        with closing(hops):
            yield store, hops, clock


async def _run_broker(broker: Broker, ended: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    try:
        with trio.CancelScope(shield=True):
            await broker.run(task_status)
    finally:
        ended.set()


async def _serve_front_ends(
    site: RunningSite, plugins: Mapping[str, Plugin], task_status: trio.TaskStatus[RunningSite]
) -> None:
    with site.front_ends:
        async with trio.open_nursery() as nursery:
            for name, plugin_settings in site.settings.plugins.items():
                await nursery.start(plugins[name].serve, site, plugin_settings)
            task_status.started(site)
            await site.draining.wait()
            site.front_ends.deadline = trio.current_time() + site.settings.site.drain_s + CLOSE_S
