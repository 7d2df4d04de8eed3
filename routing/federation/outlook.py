"""What others may read of a site among its peers: who they are, and what is under way to them.

And where a message would go from here, and why not elsewhere: the rules of `forwarding` and `custody`, asked
without a message.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from routing.federation.assignments import Assignments
from routing.federation.forwarding import Forwarding
from routing.federation.interest import Interest
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

LINK_DOWN: Final = "the link is down"
DOWN_UNWANTED: Final = "the link is down, and when it was up nobody there wanted it"
DOWN_UNTOLD: Final = "the link is down, and has not been up: what is wanted there is not known"
DOWN: Final = (LINK_DOWN, DOWN_UNWANTED, DOWN_UNTOLD)
"""Where it would go with the link up, or may go: what lies beyond a link that is down changes unheard."""

UNTOLD: Final = "the link has just come up: what is wanted there is not known yet"
UNWANTED: Final = "nobody there wants it"
UNATTENDED: Final = "nobody who wants it there is attached"
BARRED: Final = "topic rules or depth_max of a link keep it from who wants it there"
NO_WAY: Final = "no way to it is known there"
COME_FROM_THERE: Final = "it has come from there"


class Way(msgspec.Struct, frozen=True):
    """One peer.

    Attributes:
        depth: with which the message goes there; None where it does not go.
        why: it does not go there; "" where it goes.
    """

    peer: str
    depth: int | None
    why: str = ""


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
        interest: Interest,
        matching: Matching,
        ways_of_one: WaysOfOne,
        crossing: Crossing,
        spreading: Spreading,
        own_wants: OwnWants,
        assignments: Assignments,
    ) -> None:
        self.peers: Mapping[str, Peer] = forwarding.peers
        self.copies: Mapping[int, Copy] = crossing.by_id
        self.news: Mapping[str, KnownNews] = spreading.known
        self.known_wants = spreading.wants
        self.assignments = assignments
        self.has_room = forwarding.has_room
        self.would_hold = forwarding.would_hold
        self._interest = interest
        self._matching = matching
        self._ways_of_one = ways_of_one
        self._own_wants = own_wants
        self._server = server

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
            distances = self._ways_of_one.distances(self._matching.find(want[1]))
        found = []
        for name, peer in sorted(self.peers.items()):
            distance = 0 if peer.rules.flood and not one else distances.get(name)
            why = _why_not(peer, want, distance, onward(depth), hops)
            if why == UNWANTED:
                why = UNATTENDED if name in wanted else self._why_unwanted(peer, want)
            found.append(Way(name, None if why else onward(depth), why))
        return _nearest(found, distances) if one else found

    def _why_unwanted(self, peer: Peer, want: Want) -> str:
        """Why a peer has not told that anybody there wants it. A site tells of itself first of all."""
        told = self._interest.distance(peer.name, ("SERVER", peer.name)) is not None
        if not peer.up:
            return DOWN_UNWANTED if told else DOWN_UNTOLD
        if not told:
            return UNTOLD
        if want[0] == "SERVER":
            return NO_WAY
        return BARRED if self._interest.is_barred(peer.name, want) else UNWANTED


def _why_not(peer: Peer, want: Want, distance: int | None, depth: int | None, hops: tuple[str, ...]) -> str:
    if peer.name in hops:
        return COME_FROM_THERE if peer.name == hops[-1] else "it has been there"
    if depth is None:
        return "its Depth ends here"
    if want[0] != "SERVER" and not peer.may_go(want[1]):
        return "the rules of the link forbid it"
    if distance is None:
        return UNWANTED
    if not within(distance, depth):
        return f"who wants it there is {distance + 1} links away, further than its Depth"
    return "" if peer.up else LINK_DOWN


def _nearest(found: list[Way], distances: Mapping[str, int]) -> list[Way]:
    """One way is gone, the nearest."""
    fit = [(distances[way.peer], way.peer) for way in found if not way.why]
    chosen = min(fit)[1] if fit else ""
    return [
        way if way.why or way.peer == chosen else Way(way.peer, None, f"{chosen} is as near or nearer")
        for way in found
    ]
