"""What peers and news tell of wants, and what comes of it: held copies go there, other peers hear of it."""

from collections.abc import Collection, Iterator, Mapping

from routing.federation.interest import Interest
from routing.federation.itineraries import Itineraries
from routing.federation.nearest import NearestByNews
from routing.federation.peer import Peer
from routing.federation.pulling import Pulling
from routing.federation.spreading import Spreading
from routing.federation.telling import InterestToPeers
from routing.federation.topology import Topology
from routing.peering.decisions import StoreInterest, TellInterest
from routing.peering.wants import InterestChange, Said
from routing.state import SiteState


class Wanting:
    """Part of `Federation`, which tells it what happens."""

    def __init__(
        self,
        state: SiteState,
        peers: Mapping[str, Peer],
        spreading: Spreading,
        topology: Topology,
        nearest: NearestByNews,
        interest: Interest,
        telling: InterestToPeers,
        itineraries: Itineraries,
        pulling: Pulling,
    ) -> None:
        self._state = state
        self._peers = peers
        self._spreading = spreading
        self._topology = topology
        self._nearest = nearest
        self._interest = interest
        self._telling = telling
        self._itineraries = itineraries
        self._pulling = pulling
        self._seen = topology.version
        topology.listeners.append(telling.wants_changed)

    # -- links ------------------------------------------------------------------------------------

    def link_up(self, peer: Peer, *, knows_patterns: bool) -> None:
        """Begin to tell a peer; one that takes wants from news when it has those that it lacks."""
        self._telling.up_changed(peer.name)
        if peer.wants_from_news:  # what it was told before holds until then
            self._state.out.append(TellInterest(peer.name, [], whole=False, opens=True))
        else:
            self._tell_whole(peer, knows_patterns=knows_patterns, opens=True)

    def settled(self, name: str) -> None:
        """Tell a peer that has all the news that it would have what that does not explain."""
        peer = self._peers.get(name)
        if peer is not None and peer.up and peer.wants_from_news:
            self._tell_whole(peer, knows_patterns=True, opens=False)

    def _tell_whole(self, peer: Peer, *, knows_patterns: bool, opens: bool) -> None:
        self._telling.link_up(
            peer.name,
            peer.rules.allow_in,
            peer.rules.depth_max,
            knows_patterns=knows_patterns,
            wants_from_news=peer.wants_from_news,
        )
        changes = self._telling.tell(peer.name)
        self._state.out.append(TellInterest(peer.name, changes, whole=True, opens=opens))

    def link_down(self, name: str) -> None:
        """Tell a peer nothing any more; what it wanted is kept."""
        if (peer := self._peers.get(name)) is not None:
            peer.has_told = False
        self._telling.link_down(name)
        self._telling.up_changed(name)

    def peer_removed(self, name: str) -> None:
        """Forget what a peer wanted, which is none any more."""
        self._telling.link_down(name)
        self._interest.peer_removed(name)
        self._state.out.append(StoreInterest(name, [], whole=True))

    # -- what is told -----------------------------------------------------------------------------

    def tell(self) -> None:
        """Tell every peer that is up what has changed for it since the last time."""
        if self._seen != self._topology.version:
            self._seen = self._topology.version
            self._pulling.nearer(self._interest.measure())
            self._telling.ways_changed()
            self._telling.look()
            self._pulling.look()
        self._own_news_changed(self._spreading.take_changed())
        for name in self._telling.untold:
            if changes := self._telling.tell(name):
                self._state.out.append(TellInterest(name, changes, whole=False))

    def _own_news_changed(self, changed: Collection[Said] | None) -> None:
        """News of this site may say something else of these wants; None for all, or whether there is any."""
        if changed is None:
            for name in self._peers:
                self._telling.own_news_changed(name)
            self._pulling.all_waiting()
        else:
            for kind, name in changed:
                if kind != "ATTACHED":
                    self._telling.mark((kind, name))
            self._pulling.said(changed)

    # -- what is heard ----------------------------------------------------------------------------

    def hear(self, name: str, told: Collection[InterestChange], *, whole: bool) -> int:
        """Note what a peer wants. Returns how much of it is passed over, see `Interest.admitted`."""
        if name not in self._peers:
            return 0
        changes = self._interest.admitted(name, told, whole=whole)
        self._state.out.append(StoreInterest(name, changes, whole))
        nearer = self._interest.hear(name, changes, whole=whole)
        self._itineraries.interest_changed()
        self._pulling.nearer(nearer)
        self._pulling.told_anew(changes, whole=whole)
        if whole and not self._peers[name].has_told:
            self._peers[name].has_told = True
            self._pulling.all_waiting()
        self._telling.look()
        return len(told) - len(changes)

    def forgetting(self, site: str, is_doubted: bool) -> None:
        """Keep what a site wants whose news is to be forgotten, as if peers had told it.

        Of a peer always; of another where it may well be there, but is not attested any more.
        """
        distances = self._nearest.distances(("SERVER", site))
        nearest = min(distances.values(), default=0)
        for name, distance in distances.items():
            if name == site or (is_doubted and distance == nearest):
                self.hear(name, list(self._further(name, site, distance)), whole=False)

    def _further(self, name: str, site: str, distance: int) -> Iterator[InterestChange]:
        """That what a site wants is so far from a peer, but for what that has told to be as near."""
        heard = self._interest.heard
        for want in self._nearest.wants_of((site,)):
            if heard.get(want, {}).get(name, distance + 1) > distance:
                yield InterestChange(*want, distance)
