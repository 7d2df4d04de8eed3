"""Sites with real brokers and stores, linked over a network in memory."""

import random
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from daemon.broker.broker import Broker
from daemon.broker.session import BrokerSession
from daemon.frontend import Answer, Delivered, SubscribeOptions
from daemon.hops.writer import HopLog
from daemon.link.joining import OFFERED, joined
from daemon.link.manager import LinkManager
from daemon.link.peers_file import PeerEntry
from daemon.settings import Limits, LinkSettings
from daemon.store.store import Store
from routing.message import Message, Section
from routing.peering.news import ATTACHED, DESTINATIONS
from routing.queue import DELAYED
from tests.support.broker_of_ada import broker_of_ada
from tests.support.links import MemoryNetwork
from tests.support.notary import NamedNotary
from tests.support.patience import PATIENCE_S

PAIR: Final = {"alpha": ["beta"], "beta": ["alpha"]}
CHAIN: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma"], "gamma": ["beta", "delta"], "delta": ["gamma"]}
STAR: Final = {"alpha": ["beta"], "beta": ["alpha", "gamma", "delta"], "gamma": ["beta"], "delta": ["beta"]}

LINKS = LinkSettings(back_off_first_s=0.02, back_off_max_s=0.05)


class FederatedClient:
    """One login at a site."""

    def __init__(self, session: BrokerSession) -> None:
        self.session = session
        self._waiting: list[Delivered] = []
        self._answers: list[Answer] = []

    async def subscribe(self, topic: str, **options: object) -> None:
        self.session.subscribe(topic, SubscribeOptions(**options), "subscribe")  # type: ignore[arg-type] # of SubscribeOptions
        await self.answer()

    async def unsubscribe(self, topic: str) -> None:
        self.session.unsubscribe(topic, request="unsubscribe")
        await self.answer()

    async def publish(self, topic: str, text: str, **headers: object) -> str:
        """Publish, wait until the site has it, return its Smuid. Among `headers` may be a `delay_s`."""
        self._send(topic, text, headers)
        return (await self.answer()).smuid

    async def is_refused(self, topic: str, text: str, **headers: object) -> str:
        """Publish what the site does not take; the code of its error."""
        self._send(topic, text, headers)
        answer = await self._next_answer()
        assert answer.error is not None
        return answer.error.code

    def _send(self, topic: str, text: str, headers: dict[str, object]) -> None:
        delay_s = headers.pop("delay_s", 0.0)
        message = Message(sections=(Section("text/plain", text.encode()),), **headers)  # type: ignore[arg-type] # of Message
        self.session.publish(topic, message, text, delay_s=delay_s)  # type: ignore[arg-type] # a float

    async def remove(self, topic: str, smuid: str) -> None:
        self.session.remove(topic, smuid, "remove")
        await self.answer()

    async def answer(self) -> Answer:
        answer = await self._next_answer()
        assert answer.error is None
        return answer

    async def _next_answer(self) -> Answer:
        with trio.fail_after(PATIENCE_S):
            while not self._answers:
                await self._take()
        return self._answers.pop(0)

    async def get(self) -> str:
        """The next message, as text; not finished."""
        with trio.fail_after(PATIENCE_S):
            while not self._waiting:
                await self._take()
        delivered = self._waiting.pop(0)
        self.last = delivered
        return delivered.stored.message.sections[0].body.decode()

    async def take(self) -> str:
        """The next message, as text, finished."""
        text = await self.get()
        await self.commit()
        return text

    async def commit(self) -> None:
        """Finish the message that `get` returned last."""
        self.session.commit([self.last.number], "commit")
        await self.answer()

    async def gets_nothing_before(self, marker: str) -> bool:
        """Whether the message that comes next is the marker."""
        return await self.take() == marker

    async def _take(self) -> None:
        for event in await self.session.events():
            if isinstance(event, Delivered):
                self._waiting.append(event)
            elif isinstance(event, Answer):
                self._answers.append(event)


class FederatedSite:
    """A broker with its links."""

    def __init__(self, name: str, broker: Broker, links: LinkManager, store: Store, hops: HopLog) -> None:
        self.hops = hops
        self.name = name
        self.broker = broker
        self.links = links
        self.store = store

    async def would_hand_over(self, topic: str, *, why_not: str = "") -> None:
        """Wait until a message of mode ONE and any depth would go to a peer, or would not for this reason."""
        with trio.fail_after(PATIENCE_S):
            while all(way.why != why_not for way in self.broker.door.outlook.ways(topic, "ONE", -1, ())):
                await trio.sleep(0.01)

    async def client(self, channel: str) -> FederatedClient:
        identity = await self.broker.accounts.authenticate("ada", "correct horse", "test")
        return FederatedClient(self.broker.open_session(identity, channel, protocol="test", remote="test"))

    async def linked(self, *peers: str) -> None:
        """Wait until the links to these are up."""
        with trio.fail_after(PATIENCE_S):
            while not set(peers) <= {one.peer for one in self.links.status() if one.state == "up"}:
                await trio.sleep(0.01)

    async def wanted(self, kind: str, topic: str, within: int = 0) -> None:
        """Wait until somebody beyond a link is known to want a topic, at most so far from the peer."""
        want = (kind, topic)
        with trio.fail_after(PATIENCE_S):
            while not any(
                distance <= within
                for distance in self.broker.door.outlook.distances(want).values()  # type: ignore[arg-type] # a Want
            ):
                await trio.sleep(0.01)

    async def knows(self, site: str, topic: str) -> None:
        """Wait until it is known here that another site wants a topic, of mode ALL, within reach or not."""
        with trio.fail_after(PATIENCE_S):
            while site not in self.broker.door.outlook.known_wants.wanting("ALL", topic):
                await trio.sleep(0.01)

    async def would_go(self, topic: str, sites: Collection[str]) -> None:
        """Wait until a message of mode ALL and any depth would be for these sites."""
        with trio.fail_after(PATIENCE_S):
            while {one.site for one in self.broker.door.outlook.assignments.find(topic, -1) or ()} != sites:
                await trio.sleep(0.01)

    async def waits_for(self, sites: Collection[str]) -> None:
        """Wait until all that is held here is to be seen to for these sites, and for no others."""
        with trio.fail_after(PATIENCE_S):
            copies = self.broker.door.outlook.copies
            while any(copy.destinations.keys() != sites for copy in copies.values()):
                await trio.sleep(0.01)

    def ages(self, seconds: float) -> None:
        """As if so much more time had passed at this site."""
        self.broker.clock._offset += seconds  # type: ignore[attr-defined] # of the clock of the machine

    async def has_routed_all(self) -> None:
        """Wait until the delays of all that is held here have ended."""
        with trio.fail_after(PATIENCE_S):
            while any(entry.flags & DELAYED for entry in self.broker._router._state.entries.values()):
                await trio.sleep(0.01)

    async def idle(self) -> None:
        """Wait until no copy of a message is held here."""
        with trio.fail_after(PATIENCE_S):
            while self.broker._router._state.entries:
                await trio.sleep(0.01)


@asynccontextmanager
async def federated_site(
    network: MemoryNetwork,
    directory: Path,
    name: str,
    peers: Iterable[str],
    *,
    features: tuple[str, ...] = OFFERED,
    rules: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[FederatedSite]:
    """Run a site in `directory/name`; its links end with the block, without goodbye.

    `rules` are what `daemon.link.peers_file.PeerEntry` has more than name and address, by peer.
    """
    rules = rules or {}
    async with broker_of_ada(directory / name, name, limits) as opened:
        broker = opened.broker
        links = joined(
            broker,
            name,
            opened.boot,
            features,
            LINKS,
            {peer: PeerEntry(name=peer, address=f"{peer}:1", **rules.get(peer, {})) for peer in peers},
            network.transport(name),
            random.Random(name),
        )
        broker.door.set_notary(
            NamedNotary(name), tuple(each for each in (DESTINATIONS, ATTACHED) if each in features)
        )
        await opened.start()
        await opened.tasks.start(links.run)
        yield FederatedSite(name, broker, links, opened.store, opened.hops)


class Sites:
    """Sites by name, each in a task of its own, so that it can be stopped and started again."""

    def __init__(
        self, directory: Path, links: dict[str, list[str]], nursery: trio.Nursery, features: tuple[str, ...]
    ) -> None:
        self.network = MemoryNetwork()
        self._directory = directory
        self._links = links
        self._features = features
        self._nursery = nursery
        self._stops: dict[str, tuple[trio.Event, trio.Event]] = {}

    async def start(self, *names: str) -> list[FederatedSite]:
        """Start sites, and wait for the links between all that run."""
        sites = [await self._nursery.start(self._run, name) for name in names]
        for site in sites:
            await site.linked(*(peer for peer in self._links[site.name] if peer in self._stops))
        return sites

    async def stop(self, name: str) -> None:
        stop, stopped = self._stops.pop(name)
        stop.set()
        await stopped.wait()

    async def _run(self, name: str, task_status: trio.TaskStatus[FederatedSite]) -> None:
        stop, stopped = self._stops[name] = trio.Event(), trio.Event()
        peers = self._links[name]
        async with federated_site(
            self.network, self._directory, name, peers, features=self._features
        ) as site:
            task_status.started(site)
            await stop.wait()
        stopped.set()


@asynccontextmanager
async def sites(
    directory: Path, links: dict[str, list[str]], *, features: tuple[str, ...] = OFFERED
) -> AsyncIterator[Sites]:
    async with trio.open_nursery() as nursery:
        yield Sites(directory, links, nursery, features)
        nursery.cancel_scope.cancel()
