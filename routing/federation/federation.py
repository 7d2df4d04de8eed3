"""The router's side of all links: what peers say comes in here, what they are told goes out as decisions."""

from collections.abc import Callable, Mapping

from routing import copy_events
from routing.decisions import Refused
from routing.delivery import Deliveries
from routing.federation.arriving import Arriving
from routing.federation.assigning import Assigning
from routing.federation.assignments import Assignments
from routing.federation.counting import Counting
from routing.federation.custody import Custody
from routing.federation.destinations import Destinations
from routing.federation.forwarding import Forwarding
from routing.federation.heard import DestinationsHeard
from routing.federation.interest import Interest
from routing.federation.itineraries import Itineraries
from routing.federation.nearest import NearestByNews
from routing.federation.outlook import Outlook
from routing.federation.own_wants import OwnWants
from routing.federation.peer import Peer
from routing.federation.pulling import Pulling
from routing.federation.removing import Removing
from routing.federation.rerouting import Rerouting
from routing.federation.spreading import Spreading
from routing.federation.telling import InterestToPeers
from routing.federation.topology import Topology
from routing.federation.turns import Turns
from routing.federation.wanting import Wanting
from routing.federation.ways_of_one import WaysOfOne
from routing.federation.words import DestinationWords
from routing.lifecycle import Lifecycle
from routing.message import DEPTH_UNLIMITED
from routing.names import parse_address
from routing.peering.copies import UNKNOWN, Answered, Copy, Forward, Open, PeerRules, Seen, UnitId
from routing.peering.decisions import (
    AcknowledgeUnit,
    StoreCopy,
)
from routing.queue import ONE, Entry
from routing.receipts import Receipts
from routing.state import SiteState


class Federation:
    """One site among others.

    Args:
        recall: finds on disk what was remembered of a Smuid; None if nothing is.
    """

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        deliveries: Deliveries,
        receipts: Receipts,
        recall: Callable[[str], Seen | None],
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._crossing = state.crossing
        peers: dict[str, Peer] = {}
        self.spreading = spreading = Spreading(
            state,
            peers,
            lambda: self.topology.links_changed(),
            lambda: self.topology.up_changed(),
            lambda: self.topology.wants_changed(),
            lambda peer, site: self.telling.refusal_changed(peer, site),
            lambda site, is_doubted: self.wanting.forgetting(site, is_doubted),
            lambda name: self.wanting.settled(name),
        )
        self.known_wants = spreading.wants
        self.topology = Topology(state.server, peers, spreading.known, self.known_wants, spreading.doubted)
        nearest = NearestByNews(state.server, peers, self.topology)
        self.interest = Interest(
            state.server,
            nearest,
            lambda want, is_new_pattern: self.telling.interest_changed(want, is_new_pattern),
        )
        self.telling = InterestToPeers(
            self.interest,
            nearest,
            spreading.says,
            spreading.refused_by,
            lambda name, want: name in peers and peers[name].may_go_now(want),
            lambda: state.topics,
        )
        self.forwarding = Forwarding(
            state, peers, self.interest, recall, lambda copy: self._turns.puts_off(copy)
        )
        self._itineraries = Itineraries(
            state.server, peers, self.interest, self.topology, state.crossing.by_topic
        )
        self._words = DestinationWords(state, self.forwarding.peers)
        turns = self._turns = Turns(state.crossing, self.topology)
        self._assigning = Assigning(state, self.forwarding, receipts, self.topology, self._words, turns)
        self.destinations = Destinations(
            state, self.forwarding, self.topology, self._itineraries, self._words, turns, self._assigning
        )
        self.destinations_heard = DestinationsHeard(
            self.forwarding.peers,
            lifecycle,
            receipts,
            self._itineraries,
            self.destinations,
            self._assigning,
            self._words,
        )
        self.rerouting = Rerouting(
            state,
            self.forwarding,
            lifecycle,
            receipts,
            self.topology,
            self._itineraries,
            self.destinations,
            self._assigning,
            turns,
        )
        self.counting = Counting(
            state, self.forwarding, receipts, self.topology, self.destinations.seen_through
        )
        self.own_wants = OwnWants(state.matching, self.interest, self.spreading)
        ways_of_one = WaysOfOne(
            peers,
            state.matching,
            self.interest,
            nearest,
            self.own_wants,
            spreading.still_says,
            spreading.tells_attached,
            self.known_wants.tells,
        )
        self.removing = Removing(state, self.forwarding, deliveries)
        self.outlook = Outlook(
            state.server,
            self.forwarding,
            self.removing.entry_ids,
            self.interest,
            state.matching,
            ways_of_one,
            state.crossing,
            self.spreading,
            self.own_wants,
            Assignments(state.server, self._itineraries, self.topology, self.spreading.known),
        )
        self.custody = Custody(
            state, lifecycle, self.forwarding, deliveries, receipts, self.interest, ways_of_one
        )
        pulling = Pulling(
            state.crossing,
            nearest,
            self.topology,
            self._itineraries,
            self.forwarding,
            self.destinations,
            self.custody,
        )
        self.wanting = Wanting(
            state,
            peers,
            spreading,
            self.topology,
            nearest,
            self.interest,
            self.telling,
            self._itineraries,
            pulling,
        )
        self.arriving = Arriving(state, lifecycle, self.forwarding, self.destinations, deliveries, receipts)

    # -- links ------------------------------------------------------------------------------------

    def set_peer(self, name: str, rules: PeerRules) -> None:
        """Note a peer that is configured, or its rules, which have changed."""
        peer = self.forwarding.peers.get(name)
        if peer is None:
            self.forwarding.peers[name] = Peer(name, rules)
            self.spreading.note_links()
        else:
            peer.rules = rules
        self.topology.links_changed()

    def remove_peer(self, name: str, now: float) -> None:
        """Forget a peer: nothing is kept for it any more, and nothing waits for its link."""
        if self.forwarding.peers.pop(name, None) is None:
            return
        self.wanting.peer_removed(name)
        self.spreading.peer_removed(name)
        self.rerouting.peer_removed(name)
        self.forwarding.link_down(name)
        self._give_up(name, now)
        self._receipts.forget_peer(name, now)
        self.counting.peer_removed(name)
        for topic in list(self._crossing.by_topic):
            self.custody.pull(topic)

    def set_peers(self, now: float, peers: Mapping[str, PeerRules]) -> None:
        """Replace the peers by these, by name."""
        for name in [name for name in self.forwarding.peers if name not in peers]:
            self.remove_peer(name, now)
        for name, rules in peers.items():
            known = self.forwarding.peers.get(name)
            if known is None or known.rules == rules:
                self.set_peer(name, rules)
            else:
                before, known.rules = known.rules, rules
                self.topology.links_changed()
                self.telling.set_rules(name, rules.allow_in, rules.depth_max)
                self.spreading.note_rules(name, before)
                self._apply_rules(known, now)
        sent_to = {name for copy in self._crossing.by_id.values() for name in copy.forwards}
        for name in sent_to - peers.keys():
            self._give_up(name, now)

    def _apply_rules(self, peer: Peer, now: float) -> None:
        """What waits for a peer and may not go there any more does not, what may go there now does.

        A message of mode ONE that is being handed over may be the peer's already, so that goes on.
        """
        for copy in list(self._crossing.by_id.values()):
            if copy.entry.flags & ONE or peer.may_go(copy.entry.topic.name):
                continue
            if copy.unanswered(peer.name) is not None:
                self._forget_forward(copy, peer.name, now)
        for topic in list(self._crossing.by_topic):
            self.destinations.pull(peer, topic)
            self.custody.pull(topic)

    def _give_up(self, name: str, now: float) -> None:
        """Expect no answers of who is no peer; should it become one again, it may have nothing."""
        for copy in list(self._crossing.by_id.values()):
            if name in copy.forwards:
                self._forget_forward(copy, name, now)

    def _forget_forward(self, copy: Copy, name: str, now: float) -> None:
        forward = copy.forwards[name]
        if forward.unacknowledged:
            forward.unacknowledged = 1
            earlier = tuple(forward.earlier)
            self.acknowledged(now, name, copy.entry.id, Answered("denied"))
            for query in (*earlier, forward.query):
                self._receipts.heard(now, name, query, 0, 0, closed=True)
        copy.forwards.pop(name, None)
        copy.kept_back.pop(name, None)
        self._crossing.weigh(copy.entry)
        self._state.out.append(StoreCopy(copy.entry.id))

    def link_up(
        self,
        name: str,
        *,
        restarted: bool = True,
        knows_patterns: bool = True,
        knows_news: bool = True,
        knows_destinations: bool = False,
        wants_from_news: bool = False,
        knows_counts: bool = False,
    ) -> None:
        """Begin with a link: repeat what is unanswered, tell what was removed, and what is wanted.

        Args:
            restarted: the peer is not known to be in the state in which the last link left it.
            knows_patterns: the peer can be told of patterns.
            knows_news: the peer can be told news of sites.
            knows_destinations: the peer sees to the destinations that a copy names.
            wants_from_news: the peer takes from news what sites want, and is told besides what that lacks.
            knows_counts: the peer answers for itself, and passes on, who has what a receipt counts.
        """
        peer = self.forwarding.peers[name]
        peer.up = True
        news = self.spreading.known.get(name)
        peer.said = news.statement.version if news is not None else None
        peer.knows_destinations = knows_destinations
        peer.knows_counts = knows_counts
        self.topology.up_changed()
        peer.wants_from_news = wants_from_news and knows_news
        self.wanting.link_up(peer, knows_patterns=knows_patterns)
        self.removing.link_up(peer, restarted=restarted)
        self.spreading.link_up(name, knows_news=knows_news)
        self._receipts.repeat(name)
        self.forwarding.repeat(name)
        self.rerouting.link_up(name)
        self.custody.forget_denied(name)
        if peer.rules.flood:
            for topic in list(self._crossing.by_topic):
                self.forwarding.pull(peer, topic)
        for topic in list(self._crossing.by_topic):
            self.custody.pull(topic)

    def link_down(self, name: str) -> None:
        """Note that a link is gone. What its peer wanted is kept: what is due to it waits for it."""
        peer = self.forwarding.peers.get(name)
        if peer is not None:
            peer.up = False
            self.forwarding.link_down(name)
            self.wanting.link_down(name)
            self.spreading.link_down(name)
            self.topology.up_changed()

    def see_to_destinations(self) -> None:
        """See that copies are on their way to all destinations, and tell peers of those that have them."""
        self.rerouting.reconsider()
        self._words.tell()
        self.counting.reconsider()

    # -- what peers say ---------------------------------------------------------------------------

    def acknowledged(self, now: float, peer: str, entry_id: int, answered: Answered) -> None:
        """Note what a peer has answered for a copy that it was sent."""
        copy = self.forwarding.acknowledged(peer, entry_id, answered)
        if copy is None:
            return
        if copy.entry.flags & ONE:
            self.custody.acknowledged(copy, peer, answered, now)
        elif copy.seen_to is None:
            self._lifecycle.answered(copy.entry, peer, copy.depth, answered)
        else:
            left = self.destinations.acknowledged(copy, peer, answered.outcome)
            self._lifecycle.answered(copy.entry, peer, copy.depth, answered)
            if left:
                self._assigning.give(copy, left)
            self._receipts.look(copy.entry, now)

    def not_copied(self, refused: Refused) -> None:
        """Record that no copy was made, here of what a peer sent, or there of what was to go."""
        self._state.out.append(refused)

    def heard(self, peer: str, unit: UnitId, refusal: str = "") -> None:
        """Acknowledge what a peer has told, once it is on disk; `refusal`: why it is not taken."""
        self._state.out.append(AcknowledgeUnit(peer, unit, "denied" if refusal else "accepted", refusal))

    def restore_copy(
        self,
        entry: Entry,
        depth: int,
        hops: tuple[str, ...],
        forwards: dict[str, Forward],
        destinations: dict[str, Open] | None = None,
        seen_to: frozenset[str] | None = None,
        *,
        now: float,
    ) -> bool:
        """Enter a copy that the store holds; False where it is handed over, so that nobody here gets it."""
        copy = Copy(entry, entry.smuid(self._state.server), depth, hops, hops[-1] if hops else "", forwards)
        self._crossing.begin(copy)
        waits_for = [name for name, forward in forwards.items() if forward.unacknowledged]
        if not entry.flags & ONE:
            for _ in waits_for:
                copy_events.sent(entry)
            if seen_to is not None:
                self.destinations.restore(copy, destinations or {}, seen_to)
                for site in copy.destinations.keys() - self.spreading.known.keys() - {UNKNOWN}:
                    self.spreading.doubt(site, now)
            return True
        if waits_for:
            self._crossing.leave(copy, waits_for[0])
        return not waits_for

    # -- what this site does ----------------------------------------------------------------------

    def published(self, entry: Entry, depth: int, *, counted: bool) -> list[int]:
        """Send peers a message of this site's own, which is held; returns the questions for its receipt.

        `counted`: peers that it goes to are asked for one.
        """
        depth = self.depth_of(entry, depth)
        if not depth or not self.forwarding.peers:
            return []
        copy = Copy(entry, entry.smuid(self._state.server), depth, (), "", {})
        self._crossing.begin(copy)
        if entry.flags & ONE:
            return []
        sent = None if entry.topic.is_system else self.destinations.begin(copy, counted=counted)
        if sent is None:
            sent = self.forwarding.send_to_all(copy, counted=counted)
        return sent

    def depth_of(self, entry: Entry, depth: int) -> int:
        """How far a message of this site's own goes: one for an account, as far as the account's site."""
        if not entry.topic.is_system:
            return depth
        return DEPTH_UNLIMITED if parse_address(entry.topic.name).server != self._state.server else 0
