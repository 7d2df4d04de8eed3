"""Who is to have a message that begins here, and by which peers; remembered while nothing changes.

Destinations are known where every site within depth says what it wants and sees to destinations, none of them
floods a link, no bucket of wants is missing, and there are no more than `DESTINATIONS_MAX`. They pass for
known too late where peers tell of somebody nearer than any of them.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from routing.federation.copies import within
from routing.federation.forwarding import Peer
from routing.federation.interest import Interest
from routing.federation.topology import Topology
from routing.federation.wants import Want
from routing.link.codec import DESTINATIONS_MAX

ITINERARIES_MAX: Final = 10_000


class Itinerary(msgspec.Struct, frozen=True):
    """Where messages of one topic and depth go that begin here.

    Attributes:
        wanting: the other sites that want them, however far they are.
        sites: those within depth.
        by_peer: which of them each peer is to see to.
    """

    wanting: frozenset[str]
    sites: frozenset[str]
    by_peer: Mapping[str, list[str]]


class Itineraries:
    """Finds them."""

    def __init__(
        self, server: str, peers: Mapping[str, Peer], interest: Interest, topology: Topology
    ) -> None:
        self._server = server
        self._peers = peers
        self._interest = interest
        self._topology = topology
        self._version = -1  # of the topology
        self._known: dict[tuple[str, int], Itinerary | None] = {}
        self._is_late: dict[tuple[str, int], bool] = {}
        self._are_within: dict[tuple[str, int], Collection[str] | None] = {}  # all that know destinations
        self._wanted: dict[str, frozenset[str]] = {}
        self._wanted_before: dict[str, frozenset[str]] = {}  # a minute ago at most
        self._wanted_long: dict[str, frozenset[str]] = {}

    def find(self, topic: str, depth: int) -> Itinerary | None:
        """Where a message goes that begins here; None where its destinations cannot be known."""
        if self._version != self._topology.version:
            self._version = self._topology.version
            self._known.clear()
            self._is_late.clear()
            self._are_within.clear()
        try:
            return self._known[topic, depth]
        except KeyError:
            pass
        if len(self._known) >= ITINERARIES_MAX:
            self._known.clear()
        found = self._known[topic, depth] = self._find(topic, depth)
        if found is not None:
            for wanted in (self._wanted, self._wanted_before, self._wanted_long):
                if len(wanted) >= ITINERARIES_MAX:
                    wanted.clear()
            self._wanted[topic] = found.wanting
            self._wanted_before.setdefault(topic, found.wanting)
            self._wanted_long.setdefault(topic, found.wanting)
        return found

    def _find(self, topic: str, depth: int) -> Itinerary | None:
        ways = self._topology.ways
        key = (topic if ways.has_rules else "", depth)
        if key not in self._are_within:
            self._are_within[key] = self._within(topic, depth)
        are_within = self._are_within[key]
        wanting = self._topology.wants.wanting("ALL", topic)
        if are_within is None or wanting is None:
            return None
        sites = frozenset(site for site in wanting if site in are_within and site != self._server)
        if len(sites) > DESTINATIONS_MAX:
            return None
        by_peer, _ = ways.assign(sorted(sites), topic, depth)
        return Itinerary(frozenset(wanting), sites, by_peer)

    def _within(self, topic: str, depth: int) -> Collection[str] | None:
        """The sites that a copy can come to; None where not all of them know destinations, or some flood."""
        topology = self._topology
        found = topology.ways.within(topic, depth)
        others = (site for site in found if site != self._server)
        if not all(map(topology.knows_destinations, others)) or topology.ways.floods(found):
            return None
        return found

    def wanted_long(self, topic: str) -> frozenset[str] | None:
        """The other sites that have wanted a topic for more than a minute or two; None if that is not known.

        Those that were the first to be known count as such.
        """
        return self._wanted_long.get(topic)

    def minute(self) -> None:
        """A minute is over."""
        self._wanted_long, self._wanted_before = self._wanted_before, dict(self._wanted)

    def interest_changed(self) -> None:
        """Peers have told of wants: news of them may be late."""
        self._is_late.clear()

    def are_late(self, topic: str, depth: int, sites: Iterable[str]) -> bool:
        """Whether peers tell of somebody within depth who is nearer than all of these: news is on its way."""
        key = topic, depth
        found = self._is_late.get(key)
        if found is None:
            if len(self._is_late) >= ITINERARIES_MAX:
                self._is_late.clear()
            found = self._is_late[key] = self._are_late(topic, depth, sites)
        return found

    def _are_late(self, topic: str, depth: int, sites: Iterable[str]) -> bool:
        want: Want = ("ALL", topic)
        told = self._interest.distances(want)
        nearest = min(
            (
                distance + 1
                for peer, distance in told.items()
                if (known := self._peers.get(peer)) is not None and known.may_go(topic)
            ),
            default=None,
        )
        if nearest is None or not within(nearest, depth):
            return False
        if nearest > 2 and self._interest.is_own(want):
            return False  # it may be this site, round a circle
        hops = self._topology.ways.reach(topic, depth, up=False).hops
        return all(hops[site] > nearest for site in sites)
