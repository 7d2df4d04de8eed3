"""One running site, as its operators see it."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import trio

from daemon.accounts.accounts_file import Account
from daemon.broker.broker import Broker
from daemon.broker.outbox import Outbox
from daemon.broker.session import BrokerSession
from daemon.control.federation import known_sites
from daemon.control.journey import journey
from daemon.control.reports import End, Report, Told, Unanswered
from daemon.control.routes import routes
from daemon.frontend import Ending
from daemon.operating.accounts import AccountSettings, AccountStatus, Verdict
from daemon.operating.federation import KnownSite, LinkStatus, Route
from daemon.operating.journeys import Journey
from daemon.operating.messages import BrowsedMessage, DeadLetter, Replayed
from daemon.operating.operations import Actor
from daemon.operating.overview import Overview, Warned
from daemon.operating.sessions import SessionStatus
from daemon.operating.topics import SubscriptionStatus, TopicOrder, TopicPage, TopicStatus, TopicSummary
from daemon.operations.accounts import AccountActions, KeepLogin, TakeOn
from daemon.operations.acting import TopicActions
from daemon.operations.census import Census, Counted
from daemon.operations.machine import disk_free_bytes, memory_bytes
from daemon.operations.messages import MessageQueries
from daemon.operations.rights import check_asked, verdict
from daemon.operations.topics import TopicQueries
from daemon.system.limited_log import LimitedLog
from daemon.system.stepping import in_steps
from daemon.system.version import VERSION
from daemon.terminal.figures import counted
from routing.federation.enquiry import Why
from routing.names import account_name, channel_name, check_topic, make_address, parse_smuid
from routing.patterns import check_wanted
from routing.rights import Right

_log = logging.getLogger(__name__)

SLOW_S: Final = 10.0
"""A session that gets nothing for so long, since its client does not read, is worth a warning."""

SLOW_MAX: Final = 5
"""Sessions that are named in warnings; the others are counted."""


class SiteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a site knows besides its broker, at one moment.

    Attributes:
        listening: `smqp 127.0.0.1:7720` each.
        warnings: of its files and certificates.
    """

    connections: int = 0
    listening: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()


async def no_links() -> list[LinkStatus]:
    """Those of a site without peers."""
    await trio.lowlevel.checkpoint()
    return []


def no_login(account: str, password: str) -> str:
    """What a site says of the login for commands on its machine that keeps none."""
    return ""


def taken_on(by: Actor) -> list[str]:
    """What a site says that is told of its accounts by others."""
    return []


class SiteOperations:
    """See `daemon.operating.operations.Operations`."""

    def __init__(
        self,
        broker: Broker,
        links: Callable[[], Awaitable[list[LinkStatus]]] = no_links,
        facts: Callable[[], SiteFacts] = SiteFacts,
        take_on: TakeOn = taken_on,
        keep_login: KeepLogin = no_login,
    ) -> None:
        """`take_on` has the site take on its accounts, once their file has been changed."""
        self._broker = broker
        self._view = broker.door.view
        self._links = links
        self._facts = facts
        self._started_at = broker.clock.wall_ms() / 1000
        self._started = broker.clock.now()
        self._slow = LimitedLog(_log, "slow consumers")
        self._census = Census(self._view, self._bounds)
        self._topics = TopicQueries(self._view, broker.clock, self._census.topic_rates)
        self._messages = MessageQueries(broker)
        self._actions = actions = TopicActions(broker)
        self.purge = actions.purge
        self.delete_topic = actions.delete_topic
        self.set_delivery = actions.set_delivery
        self.set_timeout = actions.set_timeout
        self.remove_message = actions.remove_message
        self._accounts = AccountActions(lambda: broker.settings.site.accounts_file, take_on, keep_login)
        self.add_account = self._accounts.add
        self.set_password = self._accounts.set_password

    async def run(self) -> None:
        """Take samples of the rates, and say who reads nothing, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._census.run)
            nursery.start_soon(self._watch_slow)

    async def _watch_slow(self) -> None:
        said: set[BrokerSession] = set()
        while True:
            await trio.sleep(SLOW_S / 2)
            slow = {each for each in self._broker.sessions if (each.outbox.paused_s or 0.0) >= SLOW_S}
            for session in sorted(slow - said, key=lambda each: each.id):
                who = f"{session.account}/{session.channel} ({session.protocol}, {session.remote})"
                self._slow.log(
                    logging.WARNING, "slow consumer: session %d of %s reads nothing", session.id, who
                )
            said = slow

    # -- what there is ----------------------------------------------------------------------------

    async def overview(self) -> Overview:
        """See `daemon.operating.operations.Operations`."""
        broker, view = self._broker, self._view
        census = await self._census.counted()
        links = await self._links()
        around, rates, sessions = self._facts(), self._census.rates, broker.sessions
        state_directory = broker.settings.site.state_directory
        return Overview(
            server=broker.server_name,
            version=VERSION,
            started_at=self._started_at,
            up_s=broker.clock.now() - self._started,
            draining=broker.draining,
            listening=around.listening,
            connections=around.connections,
            sessions=len(sessions),
            topics=census.topics,
            subscriptions=view.subscription_count,
            held=broker.held,
            held_guaranteed=broker.held_guaranteed,
            held_bytes=census.held_bytes,
            unguaranteed_bytes=view.unguaranteed_bytes,
            unfinished_bytes=broker.unfinished.bytes,
            dead_letters=census.dead_letters,
            in_per_s=rates.in_per_s,
            out_per_s=rates.out_per_s,
            totals=census.totals,
            memory_bytes=memory_bytes(),
            store_bytes=broker.store_bytes,
            disk_free_bytes=disk_free_bytes(state_directory),
            disk_full=broker.disk_full,
            store_failed=broker.store_failed or "",
            links=len(links),
            links_up=sum(1 for link in links if link.state == "up"),
            errors=broker.mishaps.count,
            damaged=broker.damaged,
            warnings=tuple(_warnings(broker, census, links, sessions, around)),
        )

    async def topics(
        self, search: str = "", *, order: TopicOrder = "name", offset: int = 0, count: int
    ) -> TopicPage:
        """See `daemon.operating.operations.Operations`."""
        return await self._topics.page(search, order, offset, count)

    async def first_topics(self, order: TopicOrder, count: int) -> Sequence[TopicSummary]:
        """See `daemon.operating.operations.Operations`."""
        return await self._topics.first(order, count)

    async def topic(self, name: str) -> TopicStatus | None:
        """See `daemon.operating.operations.Operations`."""
        return await self._topics.one(name, *self._bounds(), _id)

    async def subscribed(self, topic: str) -> list[SubscriptionStatus]:
        """See `daemon.operating.operations.Operations`."""
        return await self._topics.subscribed(check_topic(topic), self._broker.server_name, _id)

    async def subscription(
        self, wanted: str, account: str, channel: str, name: str = ""
    ) -> SubscriptionStatus | None:
        """See `daemon.operating.operations.Operations`."""
        owner = make_address(account_name(account), channel_name(channel), self._broker.server_name)
        return await self._topics.subscription(check_wanted(wanted), owner, name, _id)

    async def end_subscription(
        self, wanted: str, account: str, channel: str, by: Actor, *, name: str = ""
    ) -> int:
        """See `daemon.operating.operations.Operations`."""
        login = account_name(account), channel_name(channel)
        return await self._actions.unsubscribe(check_wanted(wanted), login, name, by, _id)

    def _bounds(self) -> tuple[int, int]:
        """Messages and bytes that a topic may hold."""
        queues = self._broker.settings.queues
        return queues.queue_messages_max, queues.queue_bytes_max

    async def sessions(self) -> list[SessionStatus]:
        """See `daemon.operating.operations.Operations`."""
        found: list[SessionStatus] = []
        async for some in in_steps(self._broker.sessions):
            found += map(_session, some)
        return found

    async def links(self) -> list[LinkStatus]:
        """See `daemon.operating.operations.Operations`."""
        return await self._links()

    async def sites(self) -> list[KnownSite]:
        """See `daemon.operating.operations.Operations`."""
        await trio.lowlevel.checkpoint()
        door = self._broker.door
        return known_sites(door.server, door.outlook, self._broker.clock.now())

    async def routes(self, name: str) -> list[Route]:
        """See `daemon.operating.operations.Operations`."""
        await trio.lowlevel.checkpoint()
        return routes(self._broker.door.outlook, check_topic(name))

    async def accounts(self) -> list[AccountStatus]:
        """See `daemon.operating.operations.Operations`."""
        found: list[AccountStatus] = []
        async for some in in_steps(self._broker.accounts.every.items()):
            found += (self._account(name, account) for name, account in some)
        return found

    def _account(self, name: str, account: Account) -> AccountStatus:
        broker = self._broker
        return AccountStatus(
            name=name,
            disabled=account.disabled,
            rights=account.rights,
            sessions=(used := broker.account_use.of(name)).sessions,
            quotas=broker.account_use.quotas(name),
            own=account.quotas,
            used=used,
            tokens=tuple(account.tokens),
            version=account.version,
        )

    def accounts_fixed(self) -> str:
        """See `daemon.operating.operations.Operations`."""
        return self._accounts.fixed

    def may(self, account: str, right: Right, topic: str) -> Verdict:
        """See `daemon.operating.operations.Operations`."""
        found = self._broker.accounts.every.get(account)
        return verdict(self._broker.accounts.rights, account, found, right, check_asked(right, topic))

    async def browse(self, topic: str, *, after: int = 0, count: int) -> list[BrowsedMessage]:
        """See `daemon.operating.operations.Operations`."""
        return await self._messages.browse(topic, after, count)

    async def dead_letters(self, topic: str, *, after: int = 0, count: int) -> list[DeadLetter]:
        """See `daemon.operating.operations.Operations`."""
        return await self._messages.dead_letters(topic, after, count)

    # -- what is done -----------------------------------------------------------------------------

    async def journey(self, smuid: str, timeout_s: float) -> Journey:
        """See `daemon.operating.operations.Operations`."""
        about = Why(str(parse_smuid(smuid)))
        reports: list[Report] = []
        unanswered: tuple[Unanswered, ...] = ()

        async def tell(told: Told) -> None:
            nonlocal unanswered
            await trio.lowlevel.checkpoint()
            if isinstance(told, End):
                unanswered = told.unanswered
            else:
                reports.append(told.report)

        await self._broker.federating.enquiring.ask(about, timeout_s, tell)
        return journey(smuid, reports, unanswered)

    async def replay(self, topic: str, by: Actor, *, smuid: str = "", after: int = 0) -> Replayed:
        """See `daemon.operating.operations.Operations`."""
        return await self._actions.replay(topic, by, smuid, after)

    async def set_account(
        self,
        name: str,
        wanted: AccountSettings,
        by: Actor,
        *,
        version: str = "",
        leave_nobody: bool = False,
    ) -> None:
        """See `daemon.operating.operations.Operations`."""
        await self._accounts.set(name, wanted, by, version, leave_nobody=leave_nobody)

    async def remove_account(
        self, name: str, by: Actor, *, version: str = "", leave_nobody: bool = False
    ) -> None:
        """See `daemon.operating.operations.Operations`."""
        await self._accounts.remove(name, by, version, leave_nobody=leave_nobody)

    async def close_session(self, id: int, by: Actor) -> bool:
        """See `daemon.operating.operations.Operations`."""
        await trio.lowlevel.checkpoint()
        for session in self._broker.sessions:
            if session.id == id:
                session.end(Ending("closed", "an operator has closed the session"))
                who = f"{session.account}/{session.channel} ({session.protocol}, {session.remote})"
                _log.info("closed session %d of %s: by %s", id, who, by)
                return True
        return False


def _id(handle: Any) -> int:
    """Of the session that a consumer is of; 0 of what is none."""
    return handle.session_id if isinstance(handle, Outbox) else 0


def _session(session: BrokerSession) -> SessionStatus:
    consumer = session.consumer
    unsent, unsent_bytes = session.outbox.unsent
    return SessionStatus(
        id=session.id,
        account=session.account,
        channel=session.channel,
        protocol=session.protocol,
        remote=session.remote,
        opened_at=session.opened_at,
        subscriptions=len(consumer.subscriptions),
        in_flight=len(consumer.locks),
        in_flight_max=sum(each.options.credit for each in consumer.subscriptions.values()),
        published=session.published,
        unsent=unsent,
        unsent_bytes=unsent_bytes,
        paused_s=session.outbox.paused_s,
    )


def _warnings(
    broker: Broker,
    census: Counted,
    links: list[LinkStatus],
    sessions: list[BrokerSession],
    around: SiteFacts,
) -> Iterator[Warned]:
    """The gravest first."""
    if broker.disk_full:
        yield Warned(level="error", about="disk", text="the disk is full: no messages are taken")
    elif broker.store_failed:
        yield Warned(level="error", about="store", text=f"the store fails: {broker.store_failed}")
    yield from (warned for warned in around.warnings if warned.level == "error")
    for link in links:
        if link.state != "up":
            why = f": {link.why_down}" if link.why_down else ""
            text = f"the link with {link.peer} is {link.trouble}{why}"
            yield Warned(level="error", about="links", text=text)
    yield from (warned for warned in around.warnings if warned.level == "warning")
    for name, share in census.fullest:
        yield Warned(level="warning", about="topics", text=f"{name} is {share:.0%} full")
    if census.dead_letters:
        text = f"dead letters: {census.dead_letters}"
        yield Warned(level="warning", about="dead letters", text=text)
    slow = [each for each in sessions if (each.outbox.paused_s or 0.0) >= SLOW_S]
    for session in slow[:SLOW_MAX]:
        who = f"{session.account}/{session.channel} from {session.remote}"
        text = f"{who} reads nothing, and has got nothing for {session.outbox.paused_s or 0.0:.0f} s"
        yield Warned(level="warning", about="sessions", text=text)
    if len(slow) > SLOW_MAX:
        text = f"besides, {counted(len(slow) - SLOW_MAX, 'session')} read nothing"
        yield Warned(level="warning", about="sessions", text=text)
    if broker.mishaps.count:
        text = f"{counted(broker.mishaps.count, 'error')} of smqpd itself: see the log"
        yield Warned(level="warning", about="errors", text=text)
    if broker.damaged:
        text = f"{counted(broker.damaged, 'damaged row')} in the store: see the log"
        yield Warned(level="warning", about="store", text=text)
