"""What others may read of a site among its peers: who they are, and what is under way to them.

And where a message would go from here, and why not elsewhere: the rules of `forwarding` and `custody`, asked
without a message.
"""

from collections.abc import Callable, Mapping

import msgspec

from routing.copy_states import has_timed_out
from routing.federation.assignments import Assignments
from routing.federation.forwarding import Forwarding
from routing.federation.interest import Interest
from routing.federation.obstacles import WORDS, Obstacle
from routing.federation.own_wants import OwnWants
from routing.federation.peer import Peer
from routing.federation.spreading import Spreading
from routing.federation.ways_of_one import WaysOfOne
from routing.matching import Matching
from routing.message import DEPTH_UNLIMITED, DeliveryMode
from routing.names import is_system_topic, parse_address
from routing.peering.copies import Copy, onward, within
from routing.peering.crossing import Crossing
from routing.peering.news import KnownNews
from routing.peering.wants import Want


class Way(msgspec.Struct, frozen=True):
    """One peer.

    Attributes:
        depth: with which the message goes there; None where it does not go.
        obstacle: it does not go there; "" where it goes.
        detail: what the obstacle's words leave open: who is nearer, how far it is, why a link is down.
    """

    peer: str
    depth: int | None
    obstacle: Obstacle = ""
    detail: str = ""

    @property
    def why(self) -> str:
        """The obstacle in words; "" for none."""
        return WORDS[self.obstacle].format(self.detail)


class AnswerDue(msgspec.Struct, frozen=True):
    """A peer that is to have a message, and has not answered for it.

    Attributes:
        entry_id: the message's number here, by which it goes to this peer.
        may_have, attempt: see `Forwarding.has_gone`.
    """

    peer: str
    entry_id: int
    may_have: bool = False
    attempt: int = 0


class Outlook:
    """Read it; what changes it is told to `Federation`.

    Attributes:
        peers: by name, up or down.
        copies: by entry id, what is held and may cross links.
        news: by site, the latest that is known.
        known_wants: what the other sites want.
        assignments: the destinations of a message of mode ALL.
        has_room, would_hold: of a copy that comes, see `Forwarding`.
    """

    def __init__(
        self,
        server: str,
        forwarding: Forwarding,
        entry_ids: Callable[[str], list[int]],
        interest: Interest,
        matching: Matching,
        ways_of_one: WaysOfOne,
        crossing: Crossing,
        spreading: Spreading,
        own_wants: OwnWants,
        assignments: Assignments,
    ) -> None:
        """`entry_ids`: the numbers of all copies of a message that may be here."""
        self.peers: Mapping[str, Peer] = forwarding.peers
        self.copies: Mapping[int, Copy] = crossing.by_id
        self.news: Mapping[str, KnownNews] = spreading.known
        self.known_wants = spreading.wants
        self.assignments = assignments
        self.has_room = forwarding.has_room
        self.would_hold = forwarding.would_hold
        self._has_gone = forwarding.has_gone
        self._entry_ids = entry_ids
        self._interest = interest
        self._matching = matching
        self._ways_of_one = ways_of_one
        self._own_wants = own_wants
        self._server = server

    def unanswered(self, smuid: str) -> list[AnswerDue]:
        """The peers that have not answered for a message, and to what.

        One of mode ONE may be here again, and have ended here, while a peer has still to answer for what it
        was handed before.
        """
        copies = [self.copies.get(id) for id in self._entry_ids(smuid)]
        return [
            AnswerDue(peer, copy.entry.id, *self._has_gone(copy, peer))
            for copy in copies
            if copy is not None and copy.smuid == smuid and not has_timed_out(copy.entry)
            for peer in sorted(copy.forwards)
            if copy.unanswered(peer) is not None
        ]

    def is_up(self, peer: str) -> bool:
        """Whether there is a link with a peer."""
        known = self.peers.get(peer)
        return known is not None and known.up

    def wants_of(self, site: str) -> int | None:
        """How many topics and patterns a site wants, as far as is known; None where it does not say."""
        return self._own_wants.count if site == self._server else self.known_wants.count(site)

    def distances(self, want: Want) -> Mapping[str, int]:
        """Links from each peer to the nearest site that wants this, by peer; see `Interest.distances`."""
        return self._interest.distances(want)

    def ways(self, topic: str, mode: DeliveryMode, depth: int, hops: tuple[str, ...]) -> list[Way]:
        """All peers, by name, as ways for a message that came through `hops` and may go `depth` more."""
        if is_system_topic(topic):
            return self.ways_to(("SERVER", parse_address(topic).server), DEPTH_UNLIMITED, hops)
        return self.ways_to((mode, topic), depth, hops)

    def ways_to(self, want: Want, depth: int, hops: tuple[str, ...]) -> list[Way]:
        """Ways as of `ways`, for what a message has to find at the end of its way."""
        one = want[0] != "ALL"
        wanted = distances = self.distances(want)
        if want[0] == "ONE":
            distances = self._ways_of_one.prospect(self._matching.find(want[1])).within(onward(depth))
        found = []
        for name, peer in sorted(self.peers.items()):
            distance = 0 if peer.rules.flood and not one else distances.get(name)
            obstacle = _obstacle(peer, want, distance, onward(depth), hops)
            if obstacle == "unwanted":
                obstacle = self._why_unwanted(peer, want)
                if name in wanted:
                    obstacle = "unattended" if peer.up else "down"
            detail = str(distance + 1) if obstacle == "far" and distance is not None else ""
            found.append(Way(name, None if obstacle else onward(depth), obstacle, detail))
        return _nearest(found, distances) if one else found

    def _why_unwanted(self, peer: Peer, want: Want) -> Obstacle:
        """Why a peer has not told that anybody there wants it. A site tells of itself first of all."""
        told = self._interest.distance(peer.name, ("SERVER", peer.name)) is not None
        if not peer.up:
            return "down-unwanted" if told else "down-untold"
        if not told:
            return "untold"
        if want[0] == "SERVER":
            return "no-way"
        return "barred" if self._interest.is_barred(peer.name, want) else "unwanted"


def _obstacle(
    peer: Peer, want: Want, distance: int | None, depth: int | None, hops: tuple[str, ...]
) -> Obstacle:
    if peer.name in hops:
        return "source" if peer.name == hops[-1] else "been-there"
    if depth is None:
        return "depth"
    if want[0] != "SERVER" and not peer.may_go(want[1]):
        return "rules"
    if distance is None:
        return "unwanted"
    if not within(distance, depth):
        return "far"
    return "" if peer.up else "down"


def _nearest(found: list[Way], distances: Mapping[str, int]) -> list[Way]:
    """One way is gone, the nearest."""
    fit = [(distances[way.peer], way.peer) for way in found if not way.obstacle]
    chosen = min(fit)[1] if fit else ""
    return [
        way if way.obstacle or way.peer == chosen else Way(way.peer, None, "nearer", chosen) for way in found
    ]
