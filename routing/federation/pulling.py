"""What is held goes where it is wanted now, as peers tell it or as news has it.

Of mode ONE and of accounts what waits here for a way; of mode ALL what goes wherever it is wanted, and has a
stated timeout. What names its destinations is seen to by `rerouting`.
"""

from collections.abc import Collection, Iterable

from routing.federation.custody import Custody
from routing.federation.destinations import Destinations
from routing.federation.forwarding import Forwarding
from routing.federation.itineraries import Itineraries
from routing.federation.nearest import NearestByNews
from routing.federation.topology import Topology
from routing.federation.wants_by_name import Touched
from routing.message import DEPTH_UNLIMITED
from routing.names import is_system_topic
from routing.patterns import is_pattern
from routing.peering.crossing import Crossing
from routing.peering.wants import InterestChange, Said, Want


class Pulling:
    """Told by `nearer` and `look` that something may be wanted, or be nearer, that was not."""

    def __init__(
        self,
        crossing: Crossing,
        nearest: NearestByNews,
        topology: Topology,
        itineraries: Itineraries,
        forwarding: Forwarding,
        destinations: Destinations,
        custody: Custody,
    ) -> None:
        self._crossing = crossing
        self._nearest = nearest
        self._topology = topology
        self._itineraries = itineraries
        self._forwarding = forwarding
        self._destinations = destinations
        self._custody = custody
        self._graph = topology.graph
        topology.listeners.append(self._wants_changed)

    def nearer(self, found: Iterable[tuple[str, Want]]) -> None:
        """Send what is held for these wants to peers that are new or nearer ways to them."""
        for way, want in found:
            if want[0] == "SERVER":
                self._custody.reached(want[1])
                continue
            for topic in self._held(want[1]):
                if want[0] == "ONE":
                    self._custody.pull(topic)
                elif (peer := self._forwarding.peers.get(way)) is not None:
                    self._destinations.pull(peer, topic)

    def told_anew(self, changes: Collection[InterestChange], *, whole: bool) -> None:
        """Look again at what waits for what a peer has told of, all of it, or these changes.

        What it has taken back, or is further from, may have kept a message from another way.
        """
        if whole:
            self._look_at_waiting()
            return
        for change in changes:
            for topic in self._held(change.name) if change.kind == "ONE" else ():
                self._pull_one(topic)
        servers = {change.name for change in changes if change.kind == "SERVER"}
        for topic in self._custody.accounts_of(servers) if servers else ():
            self._pull_one(topic)

    def said(self, changed: Iterable[Said]) -> None:
        """Send what was kept until news of this site says of these wants what is so."""
        for kind, name in changed:
            for topic in self._held(name) if kind in ("ONE", "ATTACHED") else ():
                self._custody.pull(topic)

    def all_waiting(self) -> None:
        """Send what waits here, whatever it has waited for."""
        for topic in list(self._custody.waiting):
            self._custody.pull(topic)

    def look(self) -> None:
        """Send what may go since links have changed, here or elsewhere."""
        self._look_at_waiting()
        if self._graph != self._topology.graph:
            self._graph = self._topology.graph
            for topic in list(self._crossing.by_topic):
                self._pull_again(topic)

    def _look_at_waiting(self) -> None:
        for topic in list(self._custody.waiting):
            self._pull_one(topic)

    def _wants_changed(self, touched: Touched) -> None:
        if not self._crossing.by_topic:
            return
        for name in touched.names_for_one:
            for topic in self._held(name):
                self._pull_one(topic)
        for name, sites in touched.come.items():
            for topic in self._held(name):
                self._pull_for(topic, sites)

    def _held(self, name: str) -> list[str]:
        """The topics, of which copies are held, that somebody wants by this name."""
        if is_pattern(name):
            return list(self._crossing.topics.under(name))
        return [name] if name in self._crossing.by_topic else []

    def _pull_one(self, topic: str) -> None:
        """What waits may have a way where any has changed: who is further may be no obstacle any more."""
        waiting, held = self._custody.waiting, self._crossing.by_topic.get(topic)
        if not held:
            waiting.pop(topic, None)
        elif topic in waiting:
            found = next(iter(held.values())).entry.topic
            if waiting[topic] != self._custody.prospect(found):
                self._custody.pull(topic)

    def _pull_for(self, topic: str, sites: Collection[str]) -> None:
        """These want it now, and did not: it goes to peers from which others were further, or none."""
        held, destined = self._crossing.by_topic[topic].keys(), self._crossing.destined.keys()
        if held <= destined and self._itineraries.find(topic, DEPTH_UNLIMITED) is not None:
            return  # all is seen to by its destinations
        want: Want = ("ALL", topic)
        before = self._nearest.distances_without(want, sites)
        for name, distance in self._nearest.distances(want).items():
            peer = self._forwarding.peers.get(name)
            if peer is not None and distance < before.get(name, distance + 1):
                self._destinations.pull(peer, topic)

    def _pull_again(self, topic: str) -> None:
        """What goes wherever it is wanted goes where that is within its depth now, and was not."""
        held, destined = self._crossing.by_topic[topic].keys(), self._crossing.destined.keys()
        if is_system_topic(topic) or held <= destined:
            return
        for name in self._nearest.distances(("ALL", topic)):
            if (peer := self._forwarding.peers.get(name)) is not None:
                self._forwarding.pull(peer, topic, lambda copy: copy.seen_to is not None)
