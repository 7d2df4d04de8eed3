"""One running site: the broker, its links and the front ends, from start to clean stop.

    the broker        its files, its tasks, its end: `daemon.broker.lifetime`
    links             to the peers, if there are any; they get a goodbye after the front ends
    control           what operators ask
    front ends        one task for each plugin

Whatever ends the site (`RunningSite.draining`, cancellation, a task that fails), front ends go first, at
the latest when the drain time is over; then the peers, who get what is left of it; then the broker carries
out what they caused; then the hop log and the store are closed. What a reload changes: `daemon.site.files`.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Final

import trio

from daemon.accounts.accounts import Accounts
from daemon.broker.broker import Broker
from daemon.broker.lifetime import StartError, opened_broker
from daemon.configuration.discovery import Installed
from daemon.connections.listen import Listeners
from daemon.control import operators
from daemon.control.client import AnyQuestion, Question
from daemon.control.socket import Tell, serve_control
from daemon.frontend import Identity, Limits, Plugin, Right, Session, SubscriptionInfo, TopicInfo
from daemon.metrics import Metrics, loop_watched
from daemon.operating.operations import Actor
from daemon.operating.overview import Warned
from daemon.operations.site import SiteFacts, SiteOperations
from daemon.settings import ConfigError, Settings
from daemon.site.admin_login import LOGIN, keep_password
from daemon.site.examination import LINKS_SOCKET, Examination, examine
from daemon.site.files import SiteFiles
from daemon.site.links import SiteLinks
from daemon.site.login_log import LoginLog
from daemon.site.standing import Standing, said
from daemon.site.state_mark import own_state
from daemon.store.store import Store
from daemon.system.allocator import give_back
from daemon.system.outlasting import OutlastingMemory
from daemon.system.systemd import Notifier
from daemon.system.version import VERSION
from daemon.terminal.failure import because
from routing.errors import Refusal
from routing.rights import Operating

_log = logging.getLogger(__name__)

CLOSE_S: Final = 1.0
"""After the drain time, for front ends to end by themselves; and as much for a goodbye to peers."""


class RunningSite:
    """What front ends see (`daemon.frontend.Site`), and what a reload changes."""

    def __init__(
        self,
        config: Path,
        installed: Installed,
        found: Examination,
        accounts: Accounts,
        broker: Broker,
        links: SiteLinks,
        suid: str,
        notifier: Notifier,
        passed: dict[str, list[socket.socket]],
        login_log: LoginLog,
    ) -> None:
        """`found`: in the files of `config`, none of which is refused."""
        settings = found.settings
        self.server_name = settings.site.server_name
        self.server_ident = f"smqpd/{VERSION}"
        self.suid = suid
        self.serving = False
        """Whether all front ends accept."""
        self.draining = trio.Event()
        self.front_ends = trio.CancelScope()
        self.goodbye = trio.CancelScope()
        self.broker = broker
        self.links = links
        self.files = SiteFiles(
            config, installed, found, accounts, broker, links, lambda: self._listeners.need_tls
        )
        self._config = config
        self._notifier = notifier
        self._accounts = accounts
        self._login_log = login_log
        self._listeners = Listeners(
            limits=lambda: self.limits,
            tls_context=lambda: self.files.tls.context,
            http_context=lambda: self.files.tls.http_context,
            draining=self.draining,
            drain_s=settings.site.drain_s,
            passed=passed,
            mishap=broker.mishaps.note,
        )
        self.operations = SiteOperations(
            broker, links.status, self._facts, self._take_on_accounts, self._keep_login
        )

    def _take_on_accounts(self, by: Actor) -> list[str]:
        """For operators that have changed them; says why they are not taken on."""
        refused = self.reload(str(by)).not_taken_on
        if not any(finding.part == "everything" for finding in refused):
            with suppress(ConfigError):
                if self._accounts.every == self._accounts.read():
                    return []
        own = [finding.problem for finding in refused if finding.part in ("accounts", "everything")]
        return own or [finding.problem for finding in refused]

    def _keep_login(self, account: str, password: str) -> str:
        """For operators that have changed a password; a service may write nothing but its state."""
        try:
            is_kept = keep_password(self._config.parent, self.settings, account, password)
        except OSError as error:
            return (
                f"{LOGIN}, with which commands on its machine log in, may lack the password, as the site"
                f" cannot write it ({because(error)}); `smqpd account passwd {account}` there puts it in"
            )
        return f"{LOGIN} has it, for commands on its machine" if is_kept else ""

    @property
    def listening(self) -> tuple[str, ...]:
        """Where it listens, each address after what for."""
        return (*self._listeners.addresses, *(f"links {address}" for address in self.links.addresses))

    def _facts(self) -> SiteFacts:
        """For its operators."""
        return SiteFacts(
            connections=self._listeners.connections,
            listening=self.listening,
            warnings=tuple(
                Warned(
                    level="warning" if finding.level == "warning" else "error",
                    about=finding.part,
                    text=said(finding),
                )
                for finding in self.standing.findings
            ),
        )

    @property
    def settings(self) -> Settings:
        """Those it runs with."""
        return self.files.settings

    @property
    def limits(self) -> Limits:
        """See `daemon.frontend.Site`."""
        return self.files.settings.limits

    @property
    def default_timeout_s(self) -> float:
        """See `daemon.frontend.Site`."""
        return self.settings.queues.default_timeout_s

    @property
    def redirect(self) -> str | None:
        """See `daemon.frontend.Site`."""
        return self.settings.site.redirect or None

    @property
    def standing(self) -> Standing:
        """How it stands to its files."""
        return Standing(
            server=self.server_name,
            version=VERSION,
            connections=self._listeners.connections,
            held=self.broker.held,
            held_guaranteed=self.broker.held_guaranteed,
            errors=self.broker.mishaps.count,
            damaged=self.broker.damaged,
            findings=self.files.findings,
        )

    async def authenticate(self, account: str, password: str, remote: str, *, protocol: str = "") -> Identity:
        """See `daemon.frontend.Site`."""
        try:
            identity = await self._accounts.authenticate(account, password, remote)
        except Refusal as refusal:
            refusal.counted = True
            self._refused(account, self._accounts.why_refused(account), protocol, remote)
            raise
        self.broker.metrics.logins += 1
        return identity

    async def authenticate_token(
        self, token: str, remote: str, *, protocol: str = ""
    ) -> tuple[Identity, str]:
        """See `daemon.frontend.Site`."""
        try:
            found = await self._accounts.authenticate_token(token, remote)
        except Refusal as refusal:
            refusal.counted = True
            self._refused("(by a token)", self._accounts.why_token_refused(token), protocol, remote)
            raise
        self.broker.metrics.logins += 1
        return found

    def _refused(self, account: str, why: str, protocol: str, remote: str) -> None:
        self.broker.metrics.logins_refused += 1
        self._login_log.refused(account, why, protocol, remote)

    def credential(self, account: str) -> str:
        """See `daemon.frontend.Site`."""
        return self._accounts.credential(account)

    def operates(self, account: str) -> Operating:
        """See `daemon.frontend.Site`."""
        return self._accounts.rights.operates(account)

    @property
    def metrics(self) -> Metrics:
        """See `daemon.frontend.Site`."""
        return self.broker.metrics

    def holding(self, identity: Identity, bytes: int, *, remote: str) -> AbstractAsyncContextManager[None]:
        """See `daemon.frontend.Site`."""
        return self.broker.unfinished.holding(identity.account, remote, bytes)

    def open_session(self, identity: Identity, channel: str, *, protocol: str, remote: str) -> Session:
        """See `daemon.frontend.Site`."""
        session = self.broker.open_session(identity, channel, protocol=protocol, remote=remote)
        self._login_log.opened(session)
        return session

    @property
    def topic_count(self) -> int:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.topic_count

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.durable_subscriptions(name_prefix)

    def annotated_topics(self, front_end: str) -> list[TopicInfo]:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.annotated(front_end)

    def allows(self, account: str, right: Right, topic: str) -> bool:
        """See `daemon.frontend.Site`."""
        return self.broker.accounts.rights.allows(account, right, topic)

    def mishap(self, what: str, error: Exception) -> None:
        """See `daemon.frontend.Site`."""
        self.broker.mishaps.note(what, error)

    async def keep_going(self, what: str, task: Callable[[], Awaitable[object]]) -> None:
        """See `daemon.frontend.Site`."""
        await self.broker.mishaps.keep_going(what, task)

    async def serve_streams(
        self,
        listen: tuple[str, ...],
        handler: Callable[[trio.abc.Stream, str, float], Awaitable[object]],
        *,
        socket_name: str,
        tls: bool,
        http: bool = False,
        refusal: bytes = b"",
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """See `daemon.frontend.Site`. Raises ListenError before it has started."""
        await self._listeners.serve(
            listen,
            handler,
            socket_name=socket_name,
            tls=tls,
            http=http,
            refusal=refusal,
            task_status=task_status,
        )

    def stop(self) -> None:
        """Begin to drain; when it drains already, end it now."""
        if self.draining.is_set():
            self.front_ends.cancel()
            self.goodbye.cancel()
        self.draining.set()
        self.broker.drain()

    async def answer(self, question: AnyQuestion, tell: Tell) -> None:
        """Answer what an operator asks, see `daemon.control.socket`. Raises Refusal."""
        if not isinstance(question, Question):
            await tell(await operators.answer(self.operations, question))
            return
        match question.ask:
            case "status":
                await tell(self.standing)
            case "reload":
                await tell(self.reload(str(Actor(name=question.by, via="control"))))
            case "config-diff":
                await tell(self.files.differences())
            case _:
                await self.links.answer(question, tell)

    def reload(self, by: str) -> Standing:
        """Take on new accounts, rights, limits, TLS files, keys and peers; connections of clients stay.

        `by` asked for it. Each part that is refused stays as it was. What only a start can change stays, too.
        """
        tells = self.serving and not self.draining.is_set()  # else it would seem to have started, or to stay
        if tells:
            self._notifier.reloading()
        self.files.reload(by)
        standing = self.standing
        _log.info("reloaded%s: by %s", ", not all of it" if standing.not_taken_on else "", by)
        if tells:
            self._notifier.ready(standing.line)
        return standing


def check_files(config: Path, found: Examination) -> None:
    """Raise StartError for what was found in the files that a site of `config` does not start with."""
    if found.refused:
        more = len(found.refused) - 1
        others = f" ({more} more; `smqpd config check {quote(str(config))}` says all)" if more else ""
        raise StartError(f"{found.refused[0]}{others}")


async def serve_site(
    config: Path,
    settings: Settings,
    installed: Installed,
    notifier: Notifier,
    passed: dict[str, list[socket.socket]],
    task_status: trio.TaskStatus[RunningSite] = trio.TASK_STATUS_IGNORED,
    *,
    memory: OutlastingMemory | None = None,
) -> None:
    """Run the site of `settings`, which stand in `config`, until it is stopped and has drained.

    Started once all front ends accept. The state directory must be locked by the caller; `passed` holds the
    listening sockets that the service manager opened, by name, and `memory` is what it keeps over a restart.
    Raises ConfigError and StartError, and ListenError in an ExceptionGroup.
    """
    found = examine(config, settings, installed, datetime.now(UTC), passed=passed)
    check_files(config, found)
    assert found.peers is not None
    accounts = Accounts(settings.site.accounts_file, settings.site.server_name, memory)

    def own(store: Store) -> None:
        own_state(config, settings.site, store)

    login_log = LoginLog()
    async with opened_broker(
        settings,
        accounts,
        own=own,
        keeps_reserve=True,
        session_ended=login_log.ended,
        own_thread=True,
    ) as opened:
        broker = opened.broker
        suid = f"{settings.site.server_name}/{opened.boot:x}"
        sockets = passed.pop(LINKS_SOCKET, ())
        try:
            links = SiteLinks(settings, broker, opened.boot, found.peers, found.keys, sockets)
        except OSError as error:
            raise StartError(f"{settings.site.state_directory} cannot be used: {because(error)}") from None
        site = RunningSite(
            config, installed, found, accounts, broker, links, suid, notifier, passed, login_log
        )
        await opened.start(site.files.expiry.look, give_back)
        opened.tasks.start_soon(broker.mishaps.keep_going, "what operators are shown", site.operations.run)
        opened.tasks.start_soon(broker.mishaps.keep_going, "the look for pauses", site.metrics.watch_pauses)
        with loop_watched(site.metrics):
            await opened.tasks.start(
                serve_control, settings.site.state_directory, site.answer, broker.mishaps.note
            )
            async with links.listening():
                await _serve_front_ends(
                    site, installed.plugins, lambda: opened.tasks.start(links.run), task_status
                )
            with site.goodbye:
                await links.drain()


async def _serve_front_ends(
    site: RunningSite,
    plugins: Mapping[str, Plugin],
    link: Callable[[], Awaitable[object]],
    task_status: trio.TaskStatus[RunningSite],
) -> None:
    """Once all front ends listen the site begins to `link`: a start that is refused has met no peer."""
    with site.front_ends:
        async with trio.open_nursery() as nursery:
            for name, plugin_settings in site.settings.plugins.items():
                await nursery.start(plugins[name].serve, site, plugin_settings)
            await link()
            site.serving = True
            task_status.started(site)
            await site.draining.wait()
            drained = trio.current_time() + site.settings.site.drain_s
            site.front_ends.deadline, site.goodbye.deadline = drained + CLOSE_S, drained + 2 * CLOSE_S
