"""Where a message of mode ONE may go, and whether it stays: to who is there, before who may come some time.

    elsewhere somebody is attached,    to the nearest of those, whoever else wants it
    within the depth that it has left,
    and can be reached
    nobody is, as far as is known      where a subscription here takes it, nowhere: it rests until somebody
                                       comes, here or elsewhere; else to the nearest site that wants it

A durable subscription takes what comes while nobody is attached to it: what is published elsewhere would be
due to nobody else. But nothing is done with it. So a message rests with one, and goes on when news says of
another site that somebody is attached there. What peers tell besides news, as those of an earlier version,
does not say whether anybody is, and counts as if somebody was: but not so much that a message goes back for
it from a site that takes it, or two would each send it to the other; and, but for what a peer that says no
news of itself wants itself, only where it is nearer than what news and this site itself know of. For that may
be what is told, by another way or in a circle, and a message would go round for it.

A site that does not say itself to what somebody is attached goes by what is wanted alone, as those of an
earlier version: others take it for one where somebody always is.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from routing.federation.interest import Interest
from routing.federation.nearest import NearestByNews
from routing.federation.own_wants import OwnWants
from routing.federation.peer import Peer
from routing.matching import Matching
from routing.peering.copies import within
from routing.peering.wants import Want
from routing.targets import Topic


class Prospect(NamedTuple):
    """Where the messages of a topic may go now: all that it depends on whether one goes or waits.

    Attributes:
        distances: by peer, links from it to the nearest site where somebody is attached that can be reached;
            where nobody is, those to the left.
        to_left: the same for one that is to come to nobody who is attached.
        is_attended: news says that somebody is attached there: a message may go back, see `WaysOfOne.keeps`.
    """

    distances: Mapping[str, int]
    to_left: Mapping[str, int]
    is_attended: bool = False

    def within(self, depth: int | None) -> Mapping[str, int]:
        """Those that one goes by which has so much depth at the next site; None where it may not go there."""
        if depth is None or any(within(distance, depth) for distance in self.distances.values()):
            return self.distances
        return self.to_left


class WaysOfOne:
    """Part of `Custody`, and what it is asked by before there is a message. Not for accounts.

    Args:
        still_says: whether news of this site brings messages of a topic here by what is not so any more.
        tells_attached: whether news of this site says to what somebody is attached.
        says_wants: whether news of a site says what it wants.
    """

    def __init__(
        self,
        peers: Mapping[str, Peer],
        matching: Matching,
        interest: Interest,
        nearest: NearestByNews,
        own_wants: OwnWants,
        still_says: Callable[[str], bool],
        tells_attached: Callable[[], bool],
        says_wants: Callable[[str], bool],
    ) -> None:
        self._peers = peers
        self._matching = matching
        self._interest = interest
        self._nearest = nearest
        self._own_wants = own_wants
        self._still_says = still_says
        self._tells_attached = tells_attached
        self._says_wants = says_wants

    def prospect(self, topic: Topic) -> Prospect:
        """Where a message may go that nobody here can take."""
        want: Want = ("ONE", topic.name)
        if not self._tells_attached():
            distances = self._interest.distances(want)
            return Prospect(distances, distances)
        is_taken = self._matching.is_taken(topic, "ONE")
        to_left = {} if is_taken else self._interest.distances(want)
        by_news = self._nearest.to_attached(topic.name)
        to_attached = self._interest.with_told(want, by_news, self._told_of_attached(want, is_taken=is_taken))
        return Prospect(to_attached or to_left, to_left, bool(by_news))

    def _told_of_attached(self, want: Want, *, is_taken: bool) -> Mapping[str, int]:
        """What peers that can be used tell besides news, where it counts as if somebody was attached."""
        told = {
            name: distance
            for name, distance in self._interest.told(want).items()
            if name in self._peers and self._peers[name].may_go_now(want)
        }
        if told:
            known = self._known_at(want, is_taken=is_taken)
            told = {
                name: distance
                for name, distance in told.items()
                if distance < known or (not distance and not self._says_wants(name))
            }
        return told

    def _known_at(self, want: Want, *, is_taken: bool) -> float:
        """The least distance at which peers may tell of a want that this site has, or that news knows of.

        One of this site comes back to a peer by another, as no peer tells who has told it.
        """
        known = min(self._nearest.distances(want).values(), default=math.inf)
        return min(known, 2) if is_taken else known

    def keeps(self, topic: Topic) -> bool:
        """Whether a site holds on to a message that a peer has had before: another such site may be there."""
        if self._own_wants.is_attended(topic) or self._still_says(topic.name):
            return True
        if not self._matching.is_taken(topic, "ONE"):
            return False
        return not (self._tells_attached() and self._nearest.to_attached(topic.name))
