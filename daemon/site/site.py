"""One running site: the broker, its links and the front ends, from start to clean stop.

    the broker        its files, its tasks, its end: `daemon.broker.lifetime`
    links             to the peers, if there are any; they get a goodbye after the front ends
    control           what operators ask
    front ends        one task for each plugin

Whatever ends the site (`RunningSite.draining`, cancellation, a task that fails), front ends go first, at
the latest when the drain time is over; then the broker carries out what they caused; then the hop log and
the store are closed.

A reload reads all files again and takes each part on by itself: what is refused stays as it was, is logged,
and is told to the service manager and to each command of the operator until it is mended.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.accounts.accounts import Accounts
from daemon.accounts.accounts_file import Account
from daemon.broker.broker import Broker
from daemon.broker.lifetime import StartError, opened_broker
from daemon.broker.session import BrokerSession
from daemon.certificates.expiry import ExpiryWatch
from daemon.certificates.tls import ClientTls
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.connections.listen import Listeners
from daemon.control import operators
from daemon.control.socket import AnyQuestion, Question, Tell, serve_control
from daemon.frontend import Identity, Limits, Plugin, Right, Session, SubscriptionInfo, TopicInfo
from daemon.link.peers_file import PeerEntry
from daemon.metrics import Metrics
from daemon.operating.operations import Actor
from daemon.operating.overview import Warned
from daemon.operations.site import SiteFacts, SiteOperations
from daemon.settings import ConfigError, Settings
from daemon.site.difference import Differences, of_accounts, of_peers, of_settings
from daemon.site.examination import LINKS_SOCKET, Examination, Finding, Part, examine, expired
from daemon.site.links import SiteLinks
from daemon.site.standing import Standing, said
from daemon.site.state_mark import own_state
from daemon.store.store import Store
from daemon.system import log
from daemon.system.allocator import give_back
from daemon.system.limited_log import LimitedLog
from daemon.system.outlasting import OutlastingMemory
from daemon.system.systemd import Notifier
from daemon.system.version import VERSION
from routing.errors import Refusal
from routing.rights import Operating

logger = logging.getLogger(__name__)

FIXED: Final = ("site", "hops", "links", "plugins")
"""Tables that only a start reads."""

LOGGED_NAME_MAX: Final = 65
"""Of the name of an account that is tried."""

CHANGES_LOGGED_MAX: Final = 1_000
"""Of one reload."""

_OWN_ERROR: Final = "an error of smqpd met it; its log says more, and not all of it is taken on"

CLOSE_S: Final = 1.0
"""After the drain time, for front ends to end by themselves."""


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
    ) -> None:
        """`found`: in the files of `config`, none of which is refused."""
        assert found.tls is not None
        settings = found.settings
        self.server_name = settings.site.server_name
        self.server_ident = f"smqpd/{VERSION}"
        self.suid = suid
        self.serving = False
        """Whether all front ends accept."""
        self.draining = trio.Event()
        self.front_ends = trio.CancelScope()
        self.broker = broker
        self.links = links
        self.settings = settings
        self._config = config
        self._installed = installed
        self._notifier = notifier
        self._accounts = accounts
        self._tls: ClientTls = found.tls
        self._findings: list[Finding] = []
        self._logins = LimitedLog(logger, "logins")
        self._ends = LimitedLog(logger, "ends of sessions")
        broker.session_ended = self._log_end
        self.expiry = ExpiryWatch(broker.clock.wall_us)
        self._found(found.findings)
        self._listeners = Listeners(
            limits=lambda: self.limits,
            tls_context=lambda: self._tls.context,
            http_context=lambda: self._tls.http_context,
            draining=self.draining,
            drain_s=settings.site.drain_s,
            passed=passed,
            mishap=broker.mishaps.note,
        )
        self.operations = SiteOperations(broker, links.status, self._facts, self._take_on_accounts)

    def _take_on_accounts(self, by: Actor) -> list[str]:
        """For operators that have changed them; says why they are not taken on."""
        refused = self.reload(str(by)).not_taken_on
        with suppress(ConfigError):
            if self._accounts.every == self._accounts.read():
                return []
        own = [finding.problem for finding in refused if finding.part == "accounts"]
        return own or [finding.problem for finding in refused]

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
    def standing(self) -> Standing:
        """How it stands to its files."""
        return Standing(
            server=self.server_name,
            version=VERSION,
            connections=self._listeners.connections,
            held=self.broker.held,
            errors=self.broker.mishaps.count,
            damaged=self.broker.damaged,
            findings=[*self._findings, *expired(self.expiry.expiries, self.expiry.now)],
        )

    async def authenticate(self, account: str, password: str, remote: str, *, protocol: str = "") -> Identity:
        """See `daemon.frontend.Site`."""
        try:
            identity = await self._accounts.authenticate(account, password, remote)
        except Refusal:
            self._log_refused(account, self._accounts.why_refused(account), protocol, remote)
            raise
        self.broker.metrics.logins += 1
        return identity

    async def authenticate_token(
        self, token: str, remote: str, *, protocol: str = ""
    ) -> tuple[Identity, str]:
        """See `daemon.frontend.Site`."""
        try:
            found = await self._accounts.authenticate_token(token, remote)
        except Refusal:
            self._log_refused("(by a token)", self._accounts.why_token_refused(token), protocol, remote)
            raise
        self.broker.metrics.logins += 1
        return found

    def _log_refused(self, account: str, why: str, protocol: str, remote: str) -> None:
        self.broker.metrics.logins_refused += 1
        shown = account[:LOGGED_NAME_MAX]
        self._logins.log(
            logging.WARNING,
            "login of %s refused (%s, %s): %s",
            shown,
            protocol or "?",
            remote,
            why,
            fields={
                "event": "login-refused",
                "account": shown,
                "protocol": protocol,
                "address": remote,
                "why": why,
            },
        )

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

    def open_session(self, identity: Identity, channel: str, *, protocol: str, remote: str) -> Session:
        """See `daemon.frontend.Site`."""
        session = self.broker.open_session(identity, channel, protocol=protocol, remote=remote)
        who = f"{identity.account}/{channel}"
        fields = {"event": "login", **session.fields}
        self._logins.log(
            logging.INFO,
            "%s logged in (%s, %s): session %d",
            who,
            protocol,
            remote,
            session.id,
            fields=fields,
        )
        return session

    def _log_end(self, session: BrokerSession, why: str) -> None:
        lasted_s = max(self.broker.clock.wall_ms() / 1000 - session.opened_at, 0.0)
        self._ends.log(
            logging.INFO,
            "%s/%s logged out (%s, %s): session %d, after %.1f s, %d published, %d delivered: %s",
            session.account,
            session.channel,
            session.protocol,
            session.remote,
            session.id,
            lasted_s,
            session.published,
            session.delivered,
            why,
            fields={
                "event": "logout",
                **session.fields,
                "lasted_s": round(lasted_s, 3),
                "published": session.published,
                "delivered": session.delivered,
                "why": why,
            },
        )

    @property
    def topic_count(self) -> int:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.topic_count

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.durable_subscriptions(name_prefix)

    def annotated_topics(self, protocol: str) -> list[TopicInfo]:
        """See `daemon.frontend.Site`."""
        return self.broker.door.view.annotated(protocol)

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
        handler: Callable[[trio.abc.Stream, str], Awaitable[object]],
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
        self.draining.set()
        self.broker.drain()

    async def answer(self, question: AnyQuestion, tell: Tell) -> None:
        """What an operator asks, see `daemon.control.socket`. Raises Refusal."""
        if not isinstance(question, Question):
            await tell(await operators.answer(self.operations, question))
            return
        match question.ask:
            case "status":
                await tell(self.standing)
            case "reload":
                await tell(self.reload(str(Actor(name=question.by, via="control"))))
            case "config-diff":
                await tell(self.differences())
            case _:
                await self.links.answer(question, tell)

    def differences(self) -> Differences:
        """What a reload would change, and what it would not take on; changes nothing."""
        try:
            wanted = load(self._config, self._installed)
        except ConfigError as error:
            refused = [Finding("configuration", "refused", str(error))]
            return Differences(differences=[], refused=refused)
        found = self._examined(wanted, starts=False)
        peers, accounts = found.peers, found.accounts
        return Differences(
            differences=[
                *of_settings(self.settings, wanted, FIXED),
                *of_accounts(self._accounts.every, self._accounts.every if accounts is None else accounts),
                *of_peers(self.links.peers, self.links.peers if peers is None else peers),
            ],
            refused=found.refused,
        )

    def reload(self, by: str) -> Standing:
        """Take on new accounts, rights, limits, TLS files, keys and peers; connections of clients stay.

        `by` asked for it; the log says so with each change. Each part that is refused stays as it was. What
        only a start can change stays, too.
        """
        tells = self.serving and not self.draining.is_set()  # else it would seem to have started, or to stay
        if tells:
            self._notifier.reloading()
        before = self.settings, self._accounts.every, self.links.peers
        try:
            self._found(self._taken_on())
            log.set_up(self.settings.log)
        except Exception as error:
            self.mishap("a reload", error)
            problem = "an error of smqpd ended the reload; its log says more, and not all may be taken on"
            self._findings = [Finding("configuration", "refused", problem)]
        self._log_changes(*before, by)
        standing = self.standing
        logger.info("reloaded%s: by %s", ", not all of it" if standing.not_taken_on else "", by)
        if tells:
            self._notifier.ready(standing.line)
        return standing

    def _log_changes(
        self, settings: Settings, accounts: dict[str, Account], peers: Mapping[str, PeerEntry], by: str
    ) -> None:
        """Say what has become of these, which were before."""
        changes = [
            *of_settings(settings, self.settings, FIXED),
            *of_accounts(accounts, self._accounts.every),
            *of_peers(peers, self.links.peers),
        ]
        for change in changes[:CHANGES_LOGGED_MAX]:
            fields = {"event": "change", "by": by}
            logger.info("changed: %s: by %s", change, by, extra={"fields": fields})
        if len(changes) > CHANGES_LOGGED_MAX:
            logger.info("changed: %d more: by %s", len(changes) - CHANGES_LOGGED_MAX, by)

    def _taken_on(self) -> list[Finding]:
        """Read everything, and take on what is good; returns what is to be said of it."""
        before, findings = self.settings, []
        try:
            wanted = load(self._config, self._installed)
        except ConfigError as error:
            findings.append(Finding("configuration", "refused", str(error)))
            wanted = before
        changed = [table for table in FIXED if getattr(wanted, table) != getattr(before, table)]
        settings = msgspec.structs.replace(wanted, **{table: getattr(before, table) for table in FIXED})
        found = self._examined(settings, starts=False)
        findings += found.findings
        accounts = found.accounts
        if accounts is not None:
            findings += self._taking_on("accounts", lambda: self._accounts.replace(accounts))
        if found.tls is not None and found.tls.context is None and self._listeners.need_tls:
            problem = "[tls] names no certificate; until the next start the one before serves who needs TLS"
            findings.append(Finding("tls", "refused", problem))
        elif found.tls is not None:
            self._tls = found.tls
        self.settings = settings
        findings += self._taking_on("peers", lambda: self.links.take(found.peers, found.keys))
        if self.links.manager is None and found.peers:
            reasons = "; ".join(finding.problem for finding in found.refused if finding.part == "keys")
            findings.append(Finding("peers", "refused", f"without keys there are no links: {reasons}"))
        findings += self._taking_on("configuration", lambda: self.broker.reconfigure(settings))
        findings += _elsewhere(before, wanted)
        for table in changed:
            problem = f"[{table}] has changed; that takes effect with the next start"
            findings.append(Finding("configuration", "warning", problem))
        if changed:
            known = {finding.problem for finding in findings}
            for finding in self._examined(wanted, starts=True).refused:
                if finding.problem not in known:
                    problem = f"the next start would be refused: {finding.problem}"
                    findings.append(Finding(finding.part, "warning", problem))
        return findings

    def _taking_on(self, part: Part, take_on: Callable[[], None]) -> Iterator[Finding]:
        """Take one part on; what keeps it from being taken on keeps no other."""
        try:
            take_on()
        except OSError as error:  # a site that begins to link writes to its disk
            yield Finding(part, "refused", f"it cannot be taken on: {error}")
        except Exception as error:
            self.mishap(f"a reload ({part})", error)
            yield Finding(part, "refused", _OWN_ERROR)

    def _examined(self, settings: Settings, *, starts: bool) -> Examination:
        links = self.links.manager is not None
        now = self.expiry.now
        return examine(self._config, settings, self._installed, now, links=links, starts=starts)

    def _found(self, findings: list[Finding]) -> None:
        """Log what was found, and show it from now on."""
        self._findings = findings
        for finding in findings:
            level = logging.WARNING if finding.level == "warning" else logging.ERROR
            logger.log(level, "%s", said(finding))
        self.expiry.watch([*self._tls.expiries, *self.links.expiries])


def _elsewhere(before: Settings, wanted: Settings) -> Iterator[Finding]:
    """What a running site goes on to read where it was when it started."""
    files: tuple[tuple[Part, Path, Path], ...] = (
        ("accounts", before.site.accounts_file, wanted.site.accounts_file),
        ("peers", before.links.peers_file, wanted.links.peers_file),
        ("keys", before.links.keys_directory, wanted.links.keys_directory),
    )
    for part, old, new in files:
        if old != new:
            problem = f"{new}: is not read before the next start; until then {old} is"
            yield Finding(part, "refused", problem)


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
    if found.refused:
        more = len(found.refused) - 1
        others = f" ({more} more; `smqpd config check {config}` says all)" if more else ""
        raise StartError(f"{found.refused[0]}{others}")
    assert found.peers is not None
    accounts = Accounts(settings.site.accounts_file, settings.site.server_name, memory)

    def own(store: Store) -> None:
        own_state(config, settings.site, store)

    async with opened_broker(settings, accounts, own=own, keeps_reserve=True) as opened:
        broker = opened.broker
        suid = f"{settings.site.server_name}/{opened.boot:x}"
        sockets = passed.pop(LINKS_SOCKET, ())
        try:
            links = SiteLinks(settings, broker, opened.boot, found.peers, found.keys, sockets)
        except OSError as error:
            raise StartError(f"{settings.site.state_directory} cannot be used: {error}") from None
        site = RunningSite(config, installed, found, accounts, broker, links, suid, notifier, passed)
        await opened.start(site.expiry.look, give_back)
        opened.tasks.start_soon(broker.mishaps.keep_going, "what operators are shown", site.operations.run)
        opened.tasks.start_soon(broker.mishaps.keep_going, "the look for pauses", site.metrics.watch_pauses)
        await opened.tasks.start(links.run)
        await opened.tasks.start(
            serve_control, settings.site.state_directory, site.answer, broker.mishaps.note
        )
        await _serve_front_ends(site, installed.plugins, task_status)
        await links.drain()


async def _serve_front_ends(
    site: RunningSite, plugins: Mapping[str, Plugin], task_status: trio.TaskStatus[RunningSite]
) -> None:
    with site.front_ends:
        async with trio.open_nursery() as nursery:
            for name, plugin_settings in site.settings.plugins.items():
                await nursery.start(plugins[name].serve, site, plugin_settings)
            site.serving = True
            task_status.started(site)
            await site.draining.wait()
            site.front_ends.deadline = trio.current_time() + site.settings.site.drain_s + CLOSE_S
