"""Which peer sees to which destination of a copy that is held here, now, and what it is sent for that.

Rules of when, and of what peers say to it, are in `destinations`, `heard` and `rerouting`.
"""

from collections.abc import Collection, Iterable, Mapping

from routing.copy_states import is_on_offer
from routing.federation.forwarding import Forwarding
from routing.federation.topology import Topology
from routing.federation.turns import Turns
from routing.federation.words import DestinationWords
from routing.link.codec import are_destinations, in_parts
from routing.peering.copies import Copy, Open
from routing.peering.decisions import StoreCopy
from routing.queue import GUARANTEED
from routing.receipts import Receipts
from routing.state import SiteState


class Assigning:
    """Gives destinations to peers, and to others when these do not see to them."""

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        receipts: Receipts,
        topology: Topology,
        words: DestinationWords,
        turns: Turns,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._receipts = receipts
        self._topology = topology
        self._words = words
        self._turns = turns

    def astray(self, copy: Copy) -> list[str]:
        """Destinations that another peer is to see to, by what is known now, than whoever was asked to.

        Where no way is up, too: what waits there is to go by the same peer as what comes after it.
        """
        ways, topic = self._topology.ways, copy.entry.topic.name
        found = []
        for site, open in copy.destinations.items():
            best = self.best(copy, site, open)
            if open.via and not best:
                refused = (*open.asked_by, *open.refused)
                best = ways.choice(site, topic, copy.depth, copy.hops, refused)
            if not open.via or (best and not best & ways.bit(open.via)):
                found.append(site)
        return found

    def best(self, copy: Copy, site: str, open: Open) -> int:
        """The peers, as bits, that may see to a destination, and are on a shortest way that is up."""
        ways = self._topology.ways
        best = ways.best(site, copy.entry.topic.name, copy.depth)
        for peer in (*copy.hops, *open.asked_by, *open.refused):
            best &= ~ways.bit(peer)
        return best

    def assign(self, copy: Copy, sites: Iterable[str], *, counted: bool, tells: bool = True) -> list[int]:
        """Ask a peer on a shortest way to see to each; where there is none, tell those who asked."""
        open = copy.destinations
        if self.joins_the_end(copy):
            left = {open[site].via for site in sites}
            for site in sites:
                open[site].via = ""
            self.take_back(copy, left)
            return []
        shut = {
            site: (*open[site].asked_by, *open[site].refused)
            for site in sites
            if site in open and (open[site].asked_by or open[site].refused)
        }
        topic = copy.entry.topic.name
        first = self._state.crossing.followed_by(topic, sites, copy)
        by_peer, nowhere = self._topology.ways.assign(sites, topic, copy.depth, copy.hops, shut, first)
        left = {open[site].via for site in sites if site in open}
        for site in nowhere:
            if (known := open.get(site)) is not None:
                for peer in known.asked_by if tells or known.via else ():
                    self._words.note(peer, "no-way", copy.smuid, site)
                known.via = ""
        sent = self.send(copy, by_peer, counted=counted)
        self.take_back(copy, left)
        return sent

    def assign_again(self, copy: Copy, sites: Collection[str], *, tells: bool = True) -> None:
        """Ask others to see to these, and count them for a receipt that is pending.

        `tells`: those who asked hear where there is no way, which they have heard before else.
        """
        pending = self._receipts.pending(copy.entry)
        late = [site for site in sites if copy.destinations[site].is_late]
        sent = self.assign(
            copy, [site for site in sites if site not in late], counted=pending is not None, tells=tells
        )
        if pending is not None and sent:
            self._receipts.ask(pending, sent)
        if late:
            sent += self.assign(copy, late, counted=False, tells=tells)
        if sent or tells:
            self.keep(copy)

    def give(self, copy: Copy, sites: Collection[str]) -> None:
        """Ask others to see to these, which a peer does not."""
        if sites and is_on_offer(copy.entry):
            self.assign_again(copy, sites)

    def refused(self, copy: Copy, peer: str, sites: list[str]) -> list[str]:
        """Note that a peer does not see to these, which it was to; returns them."""
        for site in sites:
            open = copy.destinations[site]
            open.via = ""
            open.refused += (peer,)
            open.refusals += 1
        return sites

    def joins_the_end(self, copy: Copy) -> bool:
        """Whether others of its topic are still to be given to peers, which it is not to overtake.

        One without a guarantee is not kept for that.
        """
        if not copy.destinations or not self._turns.is_behind(copy):
            return False
        self._turns.join(copy)
        self.keep(copy)
        return True

    def send(self, copy: Copy, by_peer: Mapping[str, list[str]], *, counted: bool) -> list[int]:
        """Send a copy to each peer, for what it is to see to, or ask who holds it; returns the questions."""
        open, sent = copy.destinations, list[int]()
        in_turn = self._turns.is_looked_at(copy)
        for peer, sites in by_peer.items():
            is_held = not counted and self._is_held(copy, peer, sites)
            for site in sites:
                if (known := open.get(site)) is not None:
                    known.via = peer
                    self._state.crossing.follow(copy, site, in_turn=in_turn)
                    if is_held:
                        self.ask_still(copy, site, known, peer)
                    if peer not in known.asked:
                        known.asked += (peer,)
            if is_held:
                continue
            copy.denied_by.discard(peer)
            copy.sent_to[peer] = self._topology.graph
            for part in self._in_parts(peer, sites):
                sent.append(self._forwarding.send_for(copy, peer, part, counted=counted))
        self._state.crossing.weigh(copy.entry)
        return sent

    def _in_parts(self, peer: str, sites: list[str]) -> list[tuple[str, ...]]:
        """What transfers to a peer name, where one cannot name all: as few as can be cross a link beyond."""
        if not are_destinations(sites):
            places = self._topology.ways.places(peer)
            sites = sorted(sites, key=lambda site: places.get(site, 0))
        return in_parts(sites)

    def take_back(self, copy: Copy, peers: Iterable[str]) -> None:
        """Keep back what has not gone to these where others see to all that it was for, or have seen."""
        for peer in peers:
            forward = copy.forwards.get(peer)
            if forward is None or forward.depth or copy.via(peer):
                continue
            kept_back = self._forwarding.take_back(copy, peer)
            if not kept_back:
                continue
            for query in filter(None, kept_back):
                self._receipts.not_asked(query)
            copy.sent_to.pop(peer, None)
            if peer not in copy.forwards:
                for open in copy.destinations.values():
                    open.asked = tuple(other for other in open.asked if other != peer)
            self.keep(copy)

    def ask_still(self, copy: Copy, site: str, open: Open, peer: str) -> None:
        """Ask a peer whether it still sees to a destination."""
        open.still_asked = peer
        self._words.note(peer, "still", copy.smuid, site)

    def _is_held(self, copy: Copy, peer: str, sites: Iterable[str]) -> bool:
        """Whether a peer holds a copy, and was asked to see to these, so that the question is enough.

        Where rules have changed since, the copy may go less far there than one that is sent now.
        """
        known, forward = self._forwarding.peers.get(peer), copy.forwards.get(peer)
        return (
            copy.sent_to.get(peer) == self._topology.graph
            and known is not None
            and known.up
            and known.knows_destinations
            and forward is not None
            and not forward.unacknowledged
            and all(site in copy.destinations and peer in copy.destinations[site].asked for site in sites)
        )

    def keep(self, copy: Copy) -> None:
        """Store what a copy is still to be seen to."""
        copy.is_stale = False
        if copy.entry.flags & GUARANTEED:
            self._state.out.append(StoreCopy(copy.entry.id))
