"""What is made of destinations when links and wants change: those whose way is broken are given to others.

Of one change all copies are looked at once, those with open destinations first, a thousand at a time: the
site goes on with everything else in between.
"""

import math
from collections import deque
from typing import Final

from routing.federation.copies import UNKNOWN, Copy
from routing.federation.destinations import Destinations
from routing.federation.forwarding import Forwarding
from routing.federation.itineraries import Itineraries, Itinerary
from routing.federation.topology import Topology
from routing.lifecycle import Lifecycle
from routing.queue import EXPIRED, GONE, STATED, Entry
from routing.receipts import Receipts
from routing.state import SiteState

AT_ONCE: Final = 1_000
"""Copies that are looked at while everything else waits."""

DOUBLED_MAX: Final = 6
"""How often the time is doubled after which a peer is asked again that would not see to a destination."""


class Rerouting:
    """Part of `Federation`."""

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        lifecycle: Lifecycle,
        receipts: Receipts,
        topology: Topology,
        itineraries: Itineraries,
        destinations: Destinations,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._topology = topology
        self._itineraries = itineraries
        self._destinations = destinations
        self._seen = -1  # version of the topology
        self._todo: deque[Copy] = deque()
        self._minutes = self._minutes_seen = 0
        self._is_minutely = False
        self._unwanted: list[Entry] = []  # copies whose receipts may be known since

    def link_up(self, peer: str) -> None:
        """A link is up: ask what its peer still sees to of what it has acknowledged."""
        knows = self._forwarding.peers[peer].knows_destinations
        for copy in self._state.crossing.destined.values():
            if not copy.destinations:
                continue
            forward = copy.forwards.get(peer)
            is_answered = forward is None or not forward.unacknowledged
            for open in copy.destinations.values():
                open.refused = tuple(other for other in open.refused if other != peer)
                if open.via == peer and is_answered and not knows:
                    open.via = ""  # one of an earlier version tells of none: it is sent it once more
            if is_answered and knows:
                self._destinations.compare(peer, copy)

    def peer_removed(self, peer: str) -> None:
        """Whoever is no peer any more sees to nothing, and has nothing told."""
        self._topology.links_changed()
        for copy in list(self._state.crossing.destined.values()):
            given_back = []
            for site, open in copy.destinations.items():
                open.asked_by = tuple(other for other in open.asked_by if other != peer)
                if open.via == peer:
                    given_back.append(site)
            self._destinations.give(copy, given_back)

    def minute(self, now: float) -> None:
        """A minute is over: where there was no way, there may be one now."""
        self._minutes += 1
        self._itineraries.minute()
        for copy in list(self._state.crossing.destined.values()):
            if not copy.entry.flags & STATED:
                continue
            if self._itineraries.find(copy.entry.topic.name, copy.depth) is None:
                # late subscribers cannot be known any more: it goes wherever it is wanted
                self._forwarding.send_to_all(copy, counted=False)

    def reconsider(self) -> None:
        """Links or wants may have changed: see that all destinations are on their way."""
        if not self._todo:
            if self._seen == self._topology.version and self._minutes_seen == self._minutes:
                return
            self._is_minutely = self._minutes_seen != self._minutes
            self._seen, self._minutes_seen = self._topology.version, self._minutes
            copies = self._state.crossing.destined.values()
            self._todo.extend(copy for copy in copies if copy.destinations)
            self._todo.extend(copy for copy in copies if not copy.destinations and copy.entry.flags & STATED)
        for _ in range(min(AT_ONCE, len(self._todo))):
            copy = self._todo.popleft()
            if not copy.entry.flags & (GONE | EXPIRED):
                self._reconsider(copy)
        if self._todo or self._unwanted:
            self._state.wake_at = 0.0

    @property
    def due_at(self) -> float:
        """Site time at which there is more to be done; `inf` for none."""
        return 0.0 if self._todo or self._unwanted else math.inf

    def tick(self, now: float) -> None:
        """Tell the receipts that are known since nobody sees to a destination any more."""
        unwanted, self._unwanted = self._unwanted, []
        for entry in unwanted:
            self._receipts.look(entry, now)

    def _reconsider(self, copy: Copy) -> None:
        entry, destinations = copy.entry, self._destinations
        itinerary = self._itineraries.find(entry.topic.name, copy.depth)
        if UNKNOWN in copy.destinations:
            if self._forwarding.peers:
                destinations.find_anew(copy, None if itinerary is None else itinerary.sites)
                self._lifecycle.unwanted(entry, (UNKNOWN,))
            return
        if itinerary is not None:
            if entry.flags & STATED and (late := self._late(copy, itinerary)):
                destinations.see_to_late(copy, late)
            gone = [
                site
                for site, open in copy.destinations.items()
                if site not in itinerary.wanting and (self._is_minutely or not open.asked_by)
            ]
            if gone:
                destinations.forget(copy, gone)
                self._lifecycle.unwanted(entry, tuple(gone))
                self._unwanted.append(entry)
        if self._is_minutely:
            self._allow_again(copy)
        if copy.destinations and (astray := destinations.astray(copy)):
            destinations.assign_again(copy, astray, tells=self._is_minutely)

    def _allow_again(self, copy: Copy) -> None:
        for open in copy.destinations.values():
            if open.refused and self._minutes % (1 << min(open.refusals, DOUBLED_MAX)) == 0:
                open.refused = ()

    def _late(self, copy: Copy, itinerary: Itinerary) -> list[str]:
        """The sites that want it now and did not, as far as they are for this site to see to.

        Where it did not begin, all that have wanted it for more than a minute or two are for others.
        """
        late = itinerary.sites - (copy.seen_to or frozenset())
        if late and copy.hops:
            topic = copy.entry.topic.name
            wanted_long = self._itineraries.wanted_long(topic)
            if wanted_long is None or copy.hops[0] in self._topology.ways.reach(topic, copy.depth).hops:
                return []
            late -= wanted_long
        return sorted(late.difference(copy.hops)) if late else []
