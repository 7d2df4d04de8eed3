"""The clients of the sites: they publish what is due, and read as their nature is, through sessions.

They speak to the broker as front ends do. A client whose site is killed is gone with it; the next process
of the site gets new ones, which go on from what the ledger says.
"""

import contextlib
import random

import trio

from daemon.broker.session import BrokerSession
from daemon.frontend import Answer, Delivered, Identity, SubscribeOptions, Withdrawn
from routing.errors import Refusal
from routing.message import Message, Section
from tests.sim.ledger import Hold, Ledger
from tests.sim.scenario import WHEN_LOST, WHEN_QUIET, PlannedPublication, PlannedReader
from tests.sim.site import ACCOUNT, SimulatedSite

RETRY_S = 1.0
POLL_S = 0.5
REPLY = "Reply"


class SimulatedClients:
    """All clients of all sites.

    Attributes:
        begun_at: when publishing began; the times of a scenario count from there.
        calm: from now on every message is finished at once, and no client leaves.
        lost: from now on messages are published for which some ways are lost.
        quiet: from now on the last messages are published.
    """

    def __init__(self, ledger: Ledger, chance: random.Random) -> None:
        self.ledger = ledger
        self.begun_at: float | None = None
        self.calm = False
        self.lost = False
        self.quiet = False
        self.changed = trio.Event()
        self._chance = chance
        self._connections: dict[str, list[trio.CancelScope]] = {}

    def change(self) -> None:
        """Tell all clients that `begun_at`, `calm`, `lost` or `quiet` is another."""
        self.changed.set()
        self.changed = trio.Event()

    def disconnect(self, site: str) -> None:
        """All clients of a site lose their connections, and come again."""
        for scope in self._connections.get(site, []):
            scope.cancel()

    async def serve(self, site: SimulatedSite) -> None:
        """Run the clients of a site, until cancelled."""
        self._connections[site.name] = []
        scenario = self.ledger.scenario
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep, site, PublishingClient(self, site))
            for reader in scenario.readers:
                if reader.site == site.name:
                    nursery.start_soon(self._keep, site, Subscriber(self, site, reader, self._chance))

    async def _keep(self, site: SimulatedSite, client: "PublishingClient | Subscriber") -> None:
        """Let a client log in again and again."""
        await client.due()
        while not client.is_done:
            assert site.broker is not None
            try:
                session = site.broker.open_session(
                    Identity(ACCOUNT), client.channel, protocol="sim", remote=""
                )
            except Refusal:
                await trio.sleep(RETRY_S)
                continue
            scope = trio.CancelScope()
            self._connections[site.name].append(scope)
            try:
                with scope:
                    await client.run(session)
            finally:
                self._connections[site.name].remove(scope)
                session.close(lost=True)
                client.left()
            await trio.sleep(self._chance.random())

    async def until(self, at: float) -> None:
        """Wait for a time of the scenario; none comes before publishing has begun."""
        while (
            self.begun_at is None
            or (at == WHEN_LOST and not self.lost)
            or (at == WHEN_QUIET and not self.quiet)
        ):
            await self.changed.wait()
        if at < WHEN_LOST:
            await trio.sleep_until(self.begun_at + at)


class PublishingClient:
    """Publishes and removes what is due at its site, and takes the receipts."""

    channel = "pub"
    is_done = False

    def __init__(self, clients: SimulatedClients, site: SimulatedSite) -> None:
        self._clients = clients
        self._ledger = clients.ledger
        self._site = site.name
        self._due = [one for one in self._ledger.publications.values() if one.site == site.name]

    async def due(self) -> None:
        await trio.lowlevel.checkpoint()

    def left(self) -> None:
        """Its session has ended; what was not answered is published again by the next."""

    async def run(self, session: BrokerSession) -> None:
        session.subscribe(session.system_topic, SubscribeOptions(), None)
        async with trio.open_nursery() as nursery:
            for publication in self._due:
                nursery.start_soon(self._publish, session, publication)
            while events := await session.events():
                for event in events:
                    self._take(session, event)
            nursery.cancel_scope.cancel()

    async def _publish(self, session: BrokerSession, publication: PlannedPublication) -> None:
        """Until it is answered; then until its removal is, if it is to be removed."""
        told, clients = self._ledger.told[publication.key], self._clients
        if not publication.guarantee:
            if not told.sent:
                await clients.until(publication.at)
                self._try(session, publication)
            return
        await clients.until(publication.at)
        refused = told.refused - 1
        while not told.accepted:
            if told.refused > refused:
                refused = told.refused
                self._try(session, publication)
            await trio.sleep(RETRY_S)
        if publication.removed_at is not None and not told.removed:
            await clients.until(publication.removed_at)
            while not told.removed:
                (smuid,) = told.smuids
                with contextlib.suppress(Refusal):
                    session.remove(publication.topic, smuid, ("remove", publication.key))
                await trio.sleep(30 * RETRY_S)

    def _try(self, session: BrokerSession, publication: PlannedPublication) -> None:
        message = Message(
            cmuid=publication.key,
            priority=publication.priority,
            receipt=publication.receipt,
            timeout_s=publication.timeout_s,
            depth=publication.depth,
            delivery=publication.mode,
            group=publication.group,
            ends_group=publication.ends_group,
            guarantee=publication.guarantee,
            sections=(Section("text/plain", publication.key.encode().ljust(publication.size)),),
        )
        self._ledger.sent(publication)
        try:
            session.publish(publication.topic, message, ("publish", publication.key))
        except Refusal as refusal:
            self._ledger.refused(publication, refusal)

    def _take(self, session: BrokerSession, event: object) -> None:
        if isinstance(event, Delivered):
            message = event.stored.message
            text = message.sections[0].body.decode()
            if message.name == REPLY:
                self._ledger.reply_came(text, message.smuid)
            else:
                self._ledger.receipt(dict(message.others)["Receipt-Cmuid"], message.smuid, text)
            with contextlib.suppress(Refusal):
                session.commit([event.number])
        elif isinstance(event, Answer) and event.request is not None:
            kind, key = event.request
            publication = self._ledger.publications[key]
            if kind == "publish" and event.error is not None:
                self._ledger.refused(publication, event.error)
            elif kind == "publish":
                self._ledger.accepted(publication, event.smuid)
            elif event.error is not None:
                self._ledger.violate(f"{key} could not be removed where it was published: {event.error.text}")
            else:
                self._ledger.removed(publication)


class Subscriber:
    """Reads one subscription."""

    def __init__(
        self, clients: SimulatedClients, site: SimulatedSite, reader: PlannedReader, chance: random.Random
    ) -> None:
        self.channel = reader.channel
        self._clients = clients
        self._ledger = clients.ledger
        self._reader = reader
        self._chance = chance
        self._number = 0
        self._may_leave = trio.Event()  # as its subscription is there
        self._with: dict[int, tuple[str, Hold]] = {}

    async def due(self) -> None:
        """Wait until its subscription begins."""
        if self._reader.begins_at:
            await self._clients.until(self._reader.begins_at)

    def left(self) -> None:
        """Its session has ended."""
        self._ledger.session_ended(self._reader, self._number)
        self._with.clear()

    async def run(self, session: BrokerSession) -> None:
        reader = self._reader
        self._number = self._ledger.session()
        options = SubscribeOptions(
            accepts=reader.accepts,
            credit=reader.credit,
            lock_s=reader.lock_s,
            acknowledges_all=reader.acknowledges_all,
        )
        session.subscribe(reader.topic, options, None if reader.leaves_at is None else ("subscribed", 0))
        async with trio.open_nursery() as nursery:
            if reader.ends_at is not None:
                nursery.start_soon(self._end, session)
            if reader.leaves_at is not None:
                nursery.start_soon(self._leave, nursery.cancel_scope)
            while not self.is_done and (events := await session.events()):
                for event in events:
                    self._take(session, event, nursery)
            nursery.cancel_scope.cancel()

    @property
    def is_done(self) -> bool:
        """Whether its subscription has been ended, or its client is gone for good."""
        return self._reader.key in self._ledger.ended or self._reader.key in self._ledger.gone

    async def _leave(self, scope: trio.CancelScope) -> None:
        assert self._reader.leaves_at is not None
        await self._may_leave.wait()
        await self._clients.until(self._reader.leaves_at)
        self._ledger.leaves(self._reader)
        scope.cancel()

    async def _end(self, session: BrokerSession) -> None:
        assert self._reader.ends_at is not None
        await self._clients.until(self._reader.ends_at)
        with contextlib.suppress(Refusal):
            session.unsubscribe(self._reader.topic, "", ("unsubscribed", 0))
            self._ledger.unsubscribing(self._reader, self._number)

    def _take(self, session: BrokerSession, event: object, nursery: trio.Nursery) -> None:
        if isinstance(event, Delivered):
            message = event.stored.message
            key = message.sections[0].body.decode().strip()
            hold = self._ledger.delivered(
                self._reader,
                key,
                message.smuid,
                self._number,
                received=event.received,
                acknowledge=event.acknowledge,
                attempt=event.attempt,
            )
            if event.acknowledge:
                self._with[event.number] = key, hold
                nursery.start_soon(self._work, session, event.number, event.received)
                if self._ledger.publications[key].reply:
                    self._reply(session, key, message.account)
        elif isinstance(event, Withdrawn):
            if event.number in self._with:
                key, hold = self._with.pop(event.number)
                self._ledger.hold_is(self._reader, key, hold, "returned")
        elif isinstance(event, Answer) and event.request is not None:
            state, number = event.request
            if state == "subscribed":
                if event.error is None:
                    self._may_leave.set()
            elif state == "reply":
                if event.error is None:
                    self._ledger.replied(number, event.smuid)
            elif state == "unsubscribed":
                if event.error is None:
                    self._ledger.unsubscribed(self._reader)
            elif event.error is None and number in self._with:
                key, hold = self._with[number]
                self._ledger.hold_is(self._reader, key, hold, state)
                if state in ("committed", "returned"):
                    del self._with[number]

    def _reply(self, session: BrokerSession, key: str, account: str) -> None:
        """Again with each delivery; its Cmuid makes it one."""
        reply = f"{key} by {self._reader.key}"
        message = Message(
            name=REPLY, cmuid=reply.replace(" ", "-"), sections=(Section("text/plain", reply.encode()),)
        )
        with contextlib.suppress(Refusal):
            session.publish(account, message, ("reply", reply))

    async def _work(self, session: BrokerSession, number: int, received: bool) -> None:
        """Finish a message, as the reader's nature is."""
        reader, calm = self._reader, self._clients.calm
        if not calm:
            await trio.sleep(reader.think_s * self._chance.random())
            if self._chance.random() < reader.careless:
                await self._be_careless(session, number, received)
        if not received and reader.leaves_at is None and self._chance.random() < 0.8:
            self._say(session, number, "receiving")
            await trio.sleep(reader.think_s * self._chance.random() if not calm else 0.0)
        self._say(session, number, "committing")

    async def _be_careless(self, session: BrokerSession, number: int, received: bool) -> None:
        kind = self._chance.randrange(3)
        if kind == 0:
            self._say(session, number, "returning")
        elif kind == 1:
            await trio.sleep(reader_forgets_s(self._reader))
        elif not received:
            self._say(session, number, "receiving")

    def _say(self, session: BrokerSession, number: int, saying: str) -> None:
        if number not in self._with:
            return
        key, hold = self._with[number]
        with contextlib.suppress(Refusal):  # the site is stopping
            self._request(session, number, saying, key, hold)

    def _request(self, session: BrokerSession, number: int, saying: str, key: str, hold: Hold) -> None:
        if saying == "receiving":
            self._ledger.hold_is(self._reader, key, hold, "receiving")
            session.received([number], ("received", number))
        elif saying == "committing":
            self._ledger.hold_is(self._reader, key, hold, "committing")
            session.commit([number], ("committed", number))
        else:
            self._ledger.hold_is(self._reader, key, hold, "returning")
            session.give_back([number], "careless", 0.0, ("returned", number))


def reader_forgets_s(reader: PlannedReader) -> float:
    """Long enough for a lock to end."""
    return reader.lock_s + POLL_S
