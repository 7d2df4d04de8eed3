"""Several routers joined by links on which all is delayed at random: a federation without a network."""

import math
import random
from collections import Counter, deque
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from routing.decisions import Decision, Deliver, KeepMessage, Record, StoreMessage
from routing.link.codec import are_destinations
from routing.link.forgery import forged
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.peering.copies import Answered, Arrival, PeerRules, UnitId
from routing.peering.counts import check_counts
from routing.peering.decisions import (
    AcknowledgeUnit,
    Send,
    StoreCopy,
    TellCounts,
    TellDestinations,
    TellInterest,
    TellKnownNews,
    TellNews,
    TellReceipt,
    TellRemoved,
    TellWants,
)
from routing.peering.news import ATTACHED, DESTINATIONS, Version
from routing.peering.wants import InterestChange
from routing.router import Router
from routing.state import RouterSettings
from routing.subscription import Consumer
from tests.support.notary import NamedNotary

IN_NEWS: Final = (DESTINATIONS, ATTACHED)
"""What sites say in their news that they know; without the second, as one of an earlier version."""

HANDOVERS_MAX: Final = 20

SETTINGS = RouterSettings(
    default_timeout_s=86_400.0,
    lock_s=60.0,
    max_deliveries=16,
    redelivery_wait_s=0.1,
    redelivery_wait_max_s=30.0,
    queue_messages_max=1_000_000,
    queue_bytes_max=2**40,
    system_messages_max=1_000_000,
    system_bytes_max=2**40,
    unguaranteed_bytes_max=2**26,
    dedupe_window_s=600.0,
    subscription_unused_s=86_400.0,
    news_kept_s=604_800.0,
)


class RouterFederation:
    """Sites by name; what is under way between them is carried by `settle`, in an order drawn from the seed.

    Attributes:
        delivered: (site, message name) for each delivery to a subscription.
        receipts: what publishers were told.
        transfers: copies carried over links.
        rows: by site, how often what is stored of a copy was to be written anew.
        news_carried: from, to, of which site, and the version, for each piece of news that a link carried.
        wants_carried: the same for buckets of wants that did not come with news.
        interest_carried: from, to, and each change of interest that a link carried.
        notaries: of those sites that say news.
    """

    def __init__(
        self,
        links: set[tuple[str, str]],
        seed: int = 0,
        *,
        flood: bool = False,
        old: Collection[str] = (),
        older: Collection[str] = (),
        rules: Mapping[tuple[str, str], PeerRules] = MappingProxyType({}),
    ) -> None:
        """`old` sites know neither patterns nor news; `rules` are those of a site for a peer.

        Of wants `older` sites hear from peers alone, and know everything else.
        """
        self.old = old
        self._told_all = {*old, *older}
        self.random = random.Random(seed)
        self.now = 1000.0
        self.names = sorted({name for link in links for name in link})
        self.routers = {name: self._begin(name) for name in self.names}
        self.messages: dict[tuple[str, int], Message] = {}
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.held: dict[tuple[str, str], list[tuple[Consumer, int]]] = {}
        self.records: list[tuple[str, Record]] = []
        self.receipts: list[str] = []
        self.transfers = 0
        self.rows: Counter[str] = Counter()
        self.news_carried: list[tuple[str, str, str, Version]] = []
        self.wants_carried: list[tuple[str, str, str, Version]] = []
        self.interest_carried: list[tuple[str, str, InterestChange]] = []
        self.links: set[tuple[str, str]] = set()
        self.bulk: dict[tuple[str, str], list[Any]] = {}
        self.control: dict[tuple[str, str], deque[Any]] = {}
        self.notaries = {name: NamedNotary(name) for name in self.names}
        for a, b in sorted(links):
            for one, other in ((a, b), (b, a)):
                self.routers[one].federation.set_peer(other, rules.get((one, other), PeerRules(flood=flood)))
            self.join(a, b)

    def _begin(self, site: str) -> Router:
        return Router(site, 1, SETTINGS, lambda: 1_700_000_000_000)

    # -- links ------------------------------------------------------------------------------------

    def join(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            self.links.add((one, other))
            self.bulk[one, other], self.control[one, other] = [], deque()
        for one, other in ((a, b), (b, a)):
            knows = other not in self.old and one not in self.old
            self.routers[one].federation.link_up(
                other,
                knows_patterns=knows,
                knows_news=knows,
                knows_destinations=knows,
                wants_from_news=not self._told_all.intersection((one, other)),
                knows_counts=knows,
            )
            self.take(one)

    def cut(self, a: str, b: str) -> None:
        """What is under way is lost, unless it is repeated."""
        for one, other in ((a, b), (b, a)):
            self.links.discard((one, other))
            self.bulk.pop((one, other), None)
            self.control.pop((one, other), None)
            self.routers[one].federation.link_down(other)
            self.take(one)

    def begin_news(self, features: tuple[str, ...] = IN_NEWS) -> None:
        """From now on all sites but those that are old say what links they have, and that they know this."""
        for name in self.names:
            if name not in self.old:
                self.routers[name].federation.spreading.set_notary(self.notaries[name], features)
        self.pass_time(0.0)

    def pass_time(self, seconds: float) -> None:
        """So much later, each site does what is due."""
        self.now += seconds
        for name, router in self.routers.items():
            router.timing.tick(self.now)
            router.maintain(self.now)
            self.take(name)

    # -- clients ----------------------------------------------------------------------------------

    def consumer(self, site: str, channel: str) -> Consumer:
        return Consumer((site, channel), "x", channel)

    def subscribe(self, site: str, topic: str = "t", channel: str = "c", **options: Any) -> Consumer:
        consumer = self.consumer(site, channel)
        router = self.routers[site]
        router.subscribing.subscribe(self.now, consumer, topic, SubscribeOptions(**options), None)
        if router.wake_at <= self.now:
            router.timing.tick(self.now)  # what it wants is said in news, or else told to peers
        self.take(site)
        return consumer

    def publish(self, site: str, name: str = "m", topic: str = "t", **headers: Any) -> None:
        message = Message(name=name, sections=(Section("text/plain", name.encode()),), **headers)
        publisher = self.consumer(site, "publisher")
        self.routers[site].publishing.publish(
            self.now, publisher, topic, message, f"x:publisher@{site}", None
        )
        self.take(site)

    def commit(self, site: str, name: str) -> None:
        """All who hold a message at a site are done with it."""
        for consumer, number in self.held.pop((site, name), []):
            self.routers[site].acknowledging.commit(self.now, consumer, [number], None)
        self.take(site)

    # -- what happens -----------------------------------------------------------------------------

    def take(self, site: str) -> None:
        """Carry a router's decisions out."""
        self._carry_out(site, self.routers[site].take())

    def _carry_out(self, site: str, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Deliver(consumer=consumer, entry=entry, number=number):
                    message = self.messages[site, entry.id]
                    self.delivered[site, message.name or ""] += 1
                    self.held.setdefault((site, message.name or ""), []).append((consumer, number))
                    if message.name == "Receipt":
                        self.receipts.append(message.sections[0].body.decode())
                case Send(peer=peer, copy=copy):
                    if (site, peer) in self.links:
                        self.transfers += 1
                        self.bulk[site, peer].append((copy.entry.id, self._arrival(site, decision)))
                case AcknowledgeUnit(peer=peer):
                    if (site, peer) in self.links:
                        self.bulk[site, peer].append(decision)
                case (
                    TellInterest(peer=peer)
                    | TellReceipt(peer=peer)
                    | TellCounts(peer=peer)
                    | TellRemoved(peer=peer)
                    | TellDestinations(peer=peer)
                    | TellKnownNews(peer=peer)
                    | TellNews(peer=peer)
                    | TellWants(peer=peer)
                ):
                    if (site, peer) in self.links:
                        self.control[site, peer].append(decision)
                case StoreCopy():
                    self.rows[site] += 1
                case Record():
                    self.records.append((site, decision))
                case StoreMessage() | KeepMessage():
                    self.messages[site, decision.entry.id] = decision.message

    def _arrival(self, site: str, send: Send) -> Arrival:
        entry = send.copy.entry
        stated = entry.flags & 4
        assert are_destinations(send.destinations)
        assert len(set(send.destinations)) == len(send.destinations)
        return Arrival(
            peer=site,
            unit=UnitId(1, entry.id),
            topic=entry.topic.name,
            message=self.messages[site, entry.id],
            mode="ONE" if entry.flags & 1 else "ALL",
            depth=send.depth,
            hops=(*send.copy.hops, site),
            timeout_left_s=entry.deadline - self.now if stated else None,
            query=send.query,
            earlier=send.earlier,
            attempt=send.attempt,
            destinations=send.destinations,
        )

    def settle(self, at_most: float = math.inf) -> None:
        """Carry all that is under way, or so much of it: bulk in any order, control in order on each link."""
        carried = 0
        while carried < at_most:
            carried += 1
            busy = [("bulk", pair) for pair, units in self.bulk.items() if units]
            busy += [("control", pair) for pair, units in self.control.items() if units]
            if not busy:
                return
            kind, (one, other) = self.random.choice(busy)
            if kind == "bulk":
                units = self.bulk[one, other]
                unit = units.pop(self.random.randrange(len(units)))
            else:
                unit = self.control[one, other].popleft()
            self._arrive(one, other, unit)
            self.take(other)

    def _arrive(self, one: str, other: str, unit: Any) -> None:
        federation = self.routers[other].federation
        match unit:
            case (_, Arrival() as arrival):
                assert forged(one, arrival.hops, arrival.message, arrival.mode) is None
                federation.arriving.arrive(self.now, arrival)
            case AcknowledgeUnit(unit=unit, outcome=outcome):
                federation.acknowledged(self.now, one, unit.number, Answered(outcome))
            case TellInterest(changes=changes, whole=whole):
                self.interest_carried += ((one, other, change) for change in changes)
                federation.wanting.hear(one, changes, whole=whole)
            case TellReceipt():
                receipts = self.routers[other].receipts
                receipts.heard(self.now, one, unit.query, unit.due, unit.have, closed=unit.closed)
            case TellCounts(told=told):
                check_counts(told, one)
                federation.counting.hear(self.now, one, told)
            case TellDestinations(word=word, sites=sites):
                federation.destinations_heard.hear(self.now, one, word, sites)
            case TellRemoved():
                federation.removing.hear(self.now, one, unit.smuid, unit.topic)
            case TellKnownNews(has=has):
                federation.spreading.hear_known(self.now, one, has, more=False)
            case TellWants(news=news, buckets=buckets):
                said = news.statement
                self.wants_carried.append((one, other, said.site, said.version))
                why = federation.spreading.hear_wants(self.now, one, said.site, said.version, buckets)
                self._acknowledge_news(one, other, unit, why)
            case TellNews(news=news, buckets=buckets):
                self.news_carried.append((one, other, news.statement.site, news.statement.version))
                age_s = self.now - news.said_at
                why = federation.spreading.hear(self.now, one, news.signed, age_s, buckets)
                self._acknowledge_news(one, other, unit, why)

    def _acknowledge_news(self, one: str, other: str, told: TellNews | TellWants, why: str) -> None:
        assert not why or self.notaries[other].distrusted, why
        self.routers[one].federation.spreading.news_arrived(other, told.number, taken=not why)
        self.take(one)

    # -- what is true -----------------------------------------------------------------------------

    def ball(self, centre: str, radius: int) -> set[str]:
        """The sites within so many links; -1 for all that can be reached."""
        seen, edge = {centre}, {centre}
        while edge and radius:
            edge = {b for a, b in self.links if a in edge} - seen
            seen |= edge
            radius -= 1
        return seen

    def records_of(self, name: str, *events: str) -> list[tuple[str, Record]]:
        """What was recorded of a message, and where."""
        return [
            (site, record)
            for site, record in self.records
            if record.event in events and self.messages[site, record.entry.id].name == name
        ]

    def final_records(self, name: str) -> Counter[tuple[str, int]]:
        """How often each copy of a message has ended, by site and copy."""
        return Counter(
            (site, record.entry.id)
            for site, record in self.records
            if record.final and self.messages[site, record.entry.id].name == name
        )


class RestingFederation(RouterFederation):
    """One where a message that goes to and fro for ever is a failure."""

    def _arrive(self, one: str, other: str, unit: Any) -> None:
        assert self.transfers <= HANDOVERS_MAX, "a message goes to and fro"
        super()._arrive(one, other, unit)
