"""Who is to have a message that begins here, and by which peers; remembered while nothing changes.

Destinations are known where every site within depth sees to destinations, none of them floods a link, and
there are no more than `SEEN_TO_MAX`. A site that does not say what it wants, or of which a bucket is
not here that would tell whether it wants the topic, passes for one that does: so who keeps a bucket back has
what it asks for, and costs nobody but those on the way to it anything.

They pass for known too late where a peer tells of somebody nearer to it than any of them: of a want, peers
tell at once, and sites less often where wants come and go all the time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from routing.federation.interest import Interest
from routing.federation.link_graph import OPEN, Shut
from routing.federation.peer import Peer
from routing.federation.topology import Topology
from routing.federation.wants_by_name import Touched
from routing.federation.words import SEEN_TO_MAX
from routing.peering.copies import within
from routing.peering.leaves import BUCKETS, TOPIC_BUCKETS, bucket_of
from routing.peering.wants import Want

ITINERARIES_MAX: Final = 256
"""Remembered of each bucket of topics; another costs some ten microseconds, and more where many want it."""

PASSED_OVER_MAX: Final = 100_000

LATE_MAX: Final = 10_000
"""Topics and depths of which it is remembered whether news is late."""


class Itinerary(msgspec.Struct, frozen=True):
    """Where messages of one topic and depth go that begin here.

    Attributes:
        wanting: the other sites that want them, or may, however far they are.
        sites: those within depth that want them.
        unsure: those within depth of which that is not known.
        by_peer: which of both each peer is to see to.
    """

    wanting: frozenset[str]
    sites: frozenset[str]
    unsure: frozenset[str]
    by_peer: Mapping[str, list[str]]

    @property
    def destinations(self) -> frozenset[str]:
        """All that it goes to."""
        return self.sites | self.unsure if self.unsure else self.sites


class Itineraries:
    """Finds them. `held`: what there are copies of, by topic."""

    def __init__(
        self,
        server: str,
        peers: Mapping[str, Peer],
        interest: Interest,
        topology: Topology,
        held: Collection[str],
    ) -> None:
        self._server = server
        self._peers = peers
        self._interest = interest
        self._topology = topology
        self._held = held
        self._version = -1  # of the topology
        self._known: list[dict[tuple[str, int], Itinerary | None]] = [{} for _ in range(TOPIC_BUCKETS)]
        self._late_by: dict[tuple[str, int], tuple[str, ...]] = {}
        self._are_within: dict[tuple[Shut, int], Collection[str] | None] = {}  # all that know destinations
        self._wanted: dict[str, frozenset[str]] = {}
        self._wanted_before: dict[str, frozenset[str]] = {}  # a minute ago at most
        self._wanted_long: dict[str, frozenset[str]] = {}
        self._passed_over: dict[tuple[str, str], int] = {}  # peers and topics, and for how many minutes yet
        topology.listeners.append(self._wants_changed)

    def find(self, topic: str, depth: int) -> Itinerary | None:
        """Where a message goes that begins here; None where its destinations cannot be known."""
        if not self._topology.knows_destinations(self._server):
            return None
        if self._version != self._topology.version:
            self._version = self._topology.version
            self._forget(range(BUCKETS))
            self._are_within.clear()
        known = self._known[bucket_of(topic)]
        try:
            return known[topic, depth]
        except KeyError:
            pass
        if len(known) >= ITINERARIES_MAX:
            known.clear()
        found = known[topic, depth] = self._find(topic, depth)
        return found

    def _wants_changed(self, touched: Touched) -> None:
        self._forget(touched.buckets.union(map(bucket_of, touched.names)))

    def _forget(self, buckets: Iterable[int]) -> None:
        self._late_by.clear()
        for index in buckets:
            if index < TOPIC_BUCKETS:
                self._known[index].clear()
            else:
                for known in self._known:
                    known.clear()

    def _find(self, topic: str, depth: int) -> Itinerary | None:
        topology, server = self._topology, self._server
        ways, wants = topology.ways, topology.wants
        key = ways.links.shut(topic), depth
        if key not in self._are_within:
            self._are_within[key] = self._within(topic, depth)
        are_within = self._are_within[key]
        if are_within is None:
            return None
        wanting = frozenset(wants.wanting("ALL", topic))
        sites = wanting.intersection(are_within).difference((server,))
        # however far they are now: what waits for them does so until they say that they do not want it
        untold = (site for site in {*are_within, *topology.sites} if not wants.tells(site))
        unsure = wants.unsure(topic).union(untold).difference((server,))
        others = frozenset(unsure.intersection(are_within).difference(sites))
        every = sorted(sites | others)
        if len(every) > SEEN_TO_MAX:
            return None
        by_peer, _ = ways.assign(every, topic, depth)
        return Itinerary(wanting | unsure, sites, others, by_peer)

    def _within(self, topic: str, depth: int) -> Collection[str] | None:
        """The sites that a copy can come to; None where not all of them know destinations, or some flood.

        This site is one of them. One that has never been there, as far as is known, passes for none.
        """
        topology = self._topology
        found = topology.ways.within(topic, depth)
        knowing = set(filter(topology.knows_destinations, found))
        if topology.ways.links.flooding(found) or any(map(self._has_been_there, found.keys() - knowing)):
            return None
        return knowing

    def _has_been_there(self, site: str) -> bool:
        topology = self._topology
        return (
            topology.has_news(site)
            or topology.ways.links.is_linked(site)
            or bool(self._interest.told(("SERVER", site)))
        )

    # -- who wants it only now --------------------------------------------------------------------

    def note(self, topic: str, found: Itinerary) -> None:
        """Remember who wants a topic, as a copy is held that who comes to want it is to have."""
        self._wanted[topic] = found.wanting
        self._wanted_before.setdefault(topic, found.wanting)
        self._wanted_long.setdefault(topic, found.wanting)

    def wanted_long(self, topic: str) -> frozenset[str] | None:
        """The other sites that have wanted a topic for more than a minute or two; None if that is not known.

        Those that were the first to be known count as such.
        """
        return self._wanted_long.get(topic)

    def pass_over(self, peer: str, topic: str) -> None:
        """Remember that a topic is not sent to a peer that tells of somebody, as news of that is to come."""
        if len(self._passed_over) < PASSED_OVER_MAX:
            self._passed_over[peer, topic] = 2

    def passed_over(self) -> list[tuple[str, str]]:
        """The peers, and topics, that have been in the last minutes; asked for each minute."""
        found = list(self._passed_over)
        left = {key: minutes - 1 for key, minutes in self._passed_over.items()}
        self._passed_over = {key: minutes for key, minutes in left.items() if minutes}
        return found

    def minute(self) -> None:
        """Let who wants topics now be those of a minute before; called each minute."""
        self._wanted_long, self._wanted_before = self._wanted_before, self._wanted
        self._wanted = {topic: wanting for topic, wanting in self._wanted.items() if topic in self._held}

    def is_nearest(self, site: str, topic: str, found: Itinerary) -> bool:
        """Whether, of those within depth that have wanted a topic for long, none is nearer to a new one."""
        distances = self._topology.ways.distances(site)
        others = found.sites.intersection(self.wanted_long(topic) or ()).difference((site,))
        own = distances.get(self._server, -1), self._server
        return all((distances[other], other) >= own for other in others if other in distances)

    # -- news that is late ------------------------------------------------------------------------

    def interest_changed(self) -> None:
        """Look again by whom news may be late: peers have told of wants."""
        self._late_by.clear()

    def late_by(self, topic: str, depth: int, found: Itinerary) -> tuple[str, ...]:
        """The peers that tell of somebody within depth who is none of these: news is on its way."""
        key = topic, depth
        late = self._late_by.get(key)
        if late is None:
            if len(self._late_by) >= LATE_MAX:
                self._late_by.clear()
            late = self._late_by[key] = tuple(self._find_late(topic, depth, found))
        return late

    def _find_late(self, topic: str, depth: int, found: Itinerary) -> Iterator[str]:
        want: Want = ("ALL", topic)
        ways, is_own = self._topology.ways, self._interest.is_own(want)
        for name, distance in self._interest.told(want).items():
            peer = self._peers.get(name)
            if peer is None or not peer.may_go(topic) or not within(distance + 1, depth):
                continue
            if distance >= 2 and is_own:
                continue  # it may be this site, round a circle
            # of a pattern peers that are told everything tell though a part of it may not pass
            is_exact = peer.wants_from_news or self._interest.heard.get(want, {}).get(name) == distance
            shut = ways.links.shut(topic) if is_exact else OPEN
            reached = ways.beyond(name, shut, up=False, over_here=True)
            if not any(reached.get(site, distance + 1) <= distance for site in found.wanting):
                yield name
