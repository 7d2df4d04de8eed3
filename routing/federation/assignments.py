"""For people: which peer would see to which destination of a message that began here, and why that one."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from routing.federation.itineraries import Itineraries
from routing.federation.topology import Topology
from routing.peering.news import KnownNews, why_silent


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
        """The destinations of a message of mode ALL, by name; None where it has none, see `why_none`."""
        found = self._itineraries.find(topic, depth)
        if found is None or self._itineraries.late_by(topic, depth, found):
            return None
        return self._explained(topic, depth, found.by_peer, found.unsure)

    def pass_on(
        self, topic: str, depth: int, hops: Collection[str], destinations: Iterable[str]
    ) -> list[Assignment]:
        """The same of a copy that came through `hops`, and that this site sees to some destinations of."""
        beyond = [site for site in destinations if site != self._server and site not in hops]
        by_peer, _ = self._topology.ways.assign(beyond, topic, depth, tuple(hops))
        return self._explained(topic, depth, by_peer, (), hops)

    def _explained(
        self,
        topic: str,
        depth: int,
        by_peer: Mapping[str, Iterable[str]],
        unsure: Collection[str],
        hops: Collection[str] = (),
    ) -> list[Assignment]:
        ways = self._topology.ways
        now, at_best = ways.reach(topic, depth), ways.reach(topic, depth, up=False)
        shut = 0
        for peer in hops:
            shut |= ways.bit(peer)
        found = []
        for peer, sites in by_peer.items():
            for site in sites:
                best = ways.best(site, topic, depth) & ~shut
                if_up = at_best.first.get(site, 0) & ~best & ~shut
                reach, others = (now, best) if best else (at_best, if_up)
                found.append(
                    Assignment(
                        site,
                        peer,
                        reach.hops[site],
                        self._names(others & ~ways.bit(peer)),
                        self._names(if_up) if best else (),
                        sure=site not in unsure,
                        up=bool(best),
                    )
                )
        return sorted(found, key=lambda one: one.site)

    def _names(self, bits: int) -> tuple[str, ...]:
        ways = self._topology.ways
        return tuple(peer for peer in ways.peers if bits & ways.bit(peer))

    def why_none(self, topic: str, depth: int) -> str:
        """Why a message of mode ALL names no destinations, and goes wherever peers tell that it is wanted.

        "" where this site does not see to destinations, either.
        """
        topology = self._topology
        if not topology.knows_destinations(self._server):
            return ""
        found = topology.ways.within(topic, depth)
        for site in sorted(found):
            if site != self._server and not topology.knows_destinations(site):
                return self._why_not_known(site)
        if (flooding := topology.ways.links.flooding(found)) is not None:
            return "{} sends everything to {} (flood)".format(*flooding)
        if self._itineraries.find(topic, depth) is None:
            return "more sites want it than a message can name"
        return "peers tell of somebody nearer who wants it than is known yet"

    def _why_not_known(self, site: str) -> str:
        if site not in self._news:
            return why_silent(site)
        return f"the smqpd of {site} is too old"
