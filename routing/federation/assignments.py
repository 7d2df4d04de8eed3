"""For people: which peer would see to which destination of a message that began here, and why that one."""

from collections.abc import Mapping

import msgspec

from routing.federation.itineraries import Itineraries
from routing.federation.news import KnownNews
from routing.federation.topology import Topology


class Assignment(msgspec.Struct, frozen=True):
    """One destination.

    Attributes:
        peer: that is asked to see to it.
        hops: links on the way.
        as_short: other peers, by name, that ways of as many links begin with.
        if_up: peers that shortest ways would begin with if all links were up, and do not.
        sure: it wants the message; else it does not say whether it does.
        up: all links of the way are; else the copy waits where the first is down.
    """

    site: str
    peer: str
    hops: int
    as_short: tuple[str, ...] = ()
    if_up: tuple[str, ...] = ()
    sure: bool = True
    up: bool = True


class Assignments:
    """Asks the rules of `itineraries` without a message."""

    def __init__(
        self,
        server: str,
        itineraries: Itineraries,
        topology: Topology,
        news: Mapping[str, KnownNews],
    ) -> None:
        self._server = server
        self._news = news
        self._itineraries = itineraries
        self._topology = topology

    def find(self, topic: str, depth: int) -> list[Assignment] | None:
        """By name, the destinations of a message of mode ALL; None where it has none, see `why_none`."""
        itinerary = self._itineraries.find(topic, depth)
        if itinerary is None or self._itineraries.are_late(topic, depth, itinerary):
            return None
        ways = self._topology.ways
        now, at_best = ways.reach(topic, depth), ways.reach(topic, depth, up=False)
        found = []
        for peer, sites in itinerary.by_peer.items():
            for site in sites:
                sure = site in itinerary.sites
                best = ways.best(site, topic, depth)
                if_up = at_best.first[site] & ~best
                if best:
                    others = self._names(best & ~ways.bit(peer))
                    found.append(Assignment(site, peer, now.hops[site], others, self._names(if_up), sure))
                else:
                    others = self._names(if_up & ~ways.bit(peer))
                    found.append(Assignment(site, peer, at_best.hops[site], others, (), sure, up=False))
        return sorted(found, key=lambda one: one.site)

    def _names(self, bits: int) -> tuple[str, ...]:
        ways = self._topology.ways
        return tuple(peer for peer in ways.peers if bits & ways.bit(peer))

    def why_none(self, topic: str, depth: int) -> str:
        """Why a message of mode ALL names no destinations, and goes wherever peers tell that it is wanted."""
        topology = self._topology
        found = topology.ways.within(topic, depth)
        for site in sorted(found):
            if site != self._server and not topology.knows_destinations(site):
                return self._why_not_known(site)
        if topology.ways.floods(found):
            return "a link floods"
        if self._itineraries.find(topic, depth) is None:
            return "more sites want it than a message can name"
        return "peers tell of somebody nearer who wants it than is known yet"

    def _why_not_known(self, site: str) -> str:
        if site not in self._news:
            return f"{site} says nothing of itself: its smqpd is too old, or it has not been heard"
        return f"{site} knows no destinations: its smqpd is too old"
