"""Sites of a `RouterFederation` at which workers come and go, and where the jobs that they take have to rest.

A job is a message of mode ONE to the topic `t`.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from routing.message import DEPTH_UNLIMITED
from routing.options import SubscribeOptions
from routing.patterns import topic_matches
from routing.peering.copies import Arrival, PeerRules, onward
from routing.peering.decisions import Send
from routing.subscription import Consumer
from tests.support.attached import leaves
from tests.support.sites import RouterFederation
from tests.support.wants import ticked

TOPIC = "t"
ENOUGH = 1000


class JobTaker(msgspec.Struct):
    """A subscription, and who is attached to it, if anybody is."""

    topic: str
    consumer: Consumer | None = None
    credit: int = 0
    durable: bool = True

    @property
    def is_attached(self) -> bool:
        return self.consumer is not None


class WorkingFederation(RouterFederation):
    """As `RouterFederation`; a worker is known by site and channel, and has one subscription.

    Attributes:
        all_links: up or down, in order.
        down: those of them that are.
        takers: by site and channel, those that have a subscription.
        published: the names of all jobs.
        committed: how often each was.
    """

    def __init__(
        self,
        links: set[tuple[str, str]],
        seed: int = 0,
        *,
        rules: Mapping[tuple[str, str], PeerRules] = MappingProxyType({}),
        has_receipts: bool = False,
    ) -> None:
        """`has_receipts`: one is asked for of each job, and taken where it was published."""
        self.all_links = sorted(links)
        self.down: set[tuple[str, str]] = set()
        self.takers: dict[tuple[str, str], JobTaker] = {}
        self.published: list[str] = []
        self.committed: Counter[str] = Counter()
        self._rules = rules
        self._has_receipts = has_receipts
        super().__init__(links, seed, rules=rules)
        for site in self.names if has_receipts else ():
            self.subscribe(site, f"x:publisher@{site}", "publisher", credit=ENOUGH, lock_s=1e9)

    # -- what happens -----------------------------------------------------------------------------

    def join(self, a: str, b: str) -> None:
        self.down.discard((a, b))
        super().join(a, b)

    def cut(self, a: str, b: str) -> None:
        self.down.add((a, b))
        super().cut(a, b)

    def attach(self, site: str, channel: str, topic: str, *, credit: int, durable: bool) -> None:
        """Somebody comes, or takes the place of who is there; a subscription keeps its topic."""
        taker = self.takers.setdefault((site, channel), JobTaker(topic))
        taker.credit, taker.durable = credit, durable
        taker.consumer = self.subscribe(site, taker.topic, channel, credit=credit, durable=durable)

    def leave(self, site: str, channel: str, *, lost: bool = False) -> None:
        taker = self.takers[site, channel]
        assert taker.consumer is not None
        leaves(self, site, taker.consumer, lost=lost)
        taker.consumer = None
        if not taker.durable:
            del self.takers[site, channel]

    def publish_job(self, site: str, depth: int = DEPTH_UNLIMITED, group: str | None = None) -> None:
        name = f"m{len(self.published)}"
        self.published.append(name)
        receipt = "ONE" if self._has_receipts else "NONE"
        self.publish(site, name, delivery="ONE", depth=depth, group=group, receipt=receipt)

    def work(self, site: str) -> None:
        """All that the workers of a site have in hand is done."""
        for name in self.published:
            had = self.held.get((site, name), [])
            had[:] = [(consumer, number) for consumer, number in had if number in consumer.locks]
            if had:
                self.committed[name] += len(had)
                self.commit(site, name)

    def come_to_rest(self, *, all_idle: bool) -> None:
        """All links come up, and workers do what they have; `all_idle`: also those without credit."""
        for link in sorted(self.down):
            self.join(*link)
        for site, channel in self.attached():
            taker = self.takers[site, channel]
            if all_idle or taker.credit:
                self._give_credit(site, taker)
        for _ in range(3):
            self.settle()
            ticked(self)
            self.settle()
            for site in self.names:
                self.work(site)

    def _give_credit(self, site: str, taker: JobTaker) -> None:
        assert taker.consumer is not None
        taker.credit = ENOUGH
        options = SubscribeOptions(credit=ENOUGH, durable=taker.durable)
        subscribing = self.routers[site].subscribing
        subscribing.subscribe(self.now, taker.consumer, taker.topic, options, None)
        self.take(site)

    def _arrival(self, site: str, send: Send) -> Arrival:
        assert self._may_cross(site, send.peer) or send.copy.entry.topic.name != TOPIC
        return super()._arrival(site, send)

    # -- what is true -----------------------------------------------------------------------------

    def attached(self) -> list[tuple[str, str]]:
        """The workers who are, by site and channel."""
        return sorted(key for key, taker in self.takers.items() if taker.is_attached)

    @property
    def receipts_due(self) -> int:
        return len(self.committed) if self._has_receipts else 0

    def outcomes(self) -> Counter[str]:
        """By job, how often it was committed or is held."""
        return self.committed + Counter(self.messages[copy].name or "" for copy in self._copies())

    def strayed(self) -> list[str]:
        """The jobs that may not be where they are once all is at rest, and why, in words."""
        whys = [(site, id, self._why_not(site, id)) for site, id in self._copies()]
        return [f"{self.messages[site, id].name} at {site}: {why}" for site, id, why in whys if why]

    def _copies(self) -> list[tuple[str, int]]:
        """Of jobs, by site and id."""
        return [
            (site, entry.id)
            for site, router in self.routers.items()
            for entry in router._state.entries.values()
            if entry.topic.name == TOPIC
        ]

    def _why_not(self, site: str, id: int) -> str:
        """Why a job may not rest at a site; "" where it may.

        With who is busy it does, unless a peer that has not had it is a way to others, and it has no group.
        """
        copy = self.routers[site].federation.outlook.copies.get(id)
        if copy is not None and copy.custody_to:
            return f"on its way to {copy.custody_to}"
        here = self._of_jobs_at(site)
        credits = [taker.credit for taker in here if taker.is_attached]
        if any(credits):
            return "somebody there is idle"
        depth = onward(copy.depth) if copy is not None else None
        if copy is None or depth is None or (credits and self.messages[site, id].group):
            return ""
        reached = set[str]()
        for peer in self._peers(site).difference(copy.hops if credits else ()):
            reached |= self._within(peer, depth, site)
        for each in sorted(reached):
            if any(taker.is_attached for taker in self._of_jobs_at(each)):
                return f"somebody is attached at {each}, and its depth is {copy.depth}"
        wanting = sorted(each for each in reached if self._of_jobs_at(each))
        if here or not wanting:
            return ""
        return f"nobody is attached, and it is wanted at {wanting[0]}"

    def _of_jobs_at(self, site: str) -> list[JobTaker]:
        """Those of whom the subscription takes jobs, attached or not."""
        return [
            taker
            for (at, _), taker in self.takers.items()
            if at == site and topic_matches(taker.topic, TOPIC)
        ]

    def _within(self, site: str, depth: int, besides: str) -> set[str]:
        """The sites that a job comes to in so many links, but for one; -1 for all that can be reached."""
        seen = edge = {site}
        while edge and depth:
            edge = set().union(*map(self._peers, edge)) - seen - {besides}
            seen = seen | edge
            depth -= 1
        return seen

    def _peers(self, site: str) -> set[str]:
        """Those to which a job may go."""
        return {other for one, other in self.links if one == site and self._may_cross(one, other)}

    def _may_cross(self, one: str, other: str) -> bool:
        out = self._rules.get((one, other), PeerRules()).allow_out
        into = self._rules.get((other, one), PeerRules()).allow_in
        return all(any(topic_matches(each, TOPIC) for each in allowed) for allowed in (out, into))
