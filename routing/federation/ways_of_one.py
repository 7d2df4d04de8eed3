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
it from a site that takes it, or two would each send it to the other; and only where it is nearer than what
news and this site itself know of. For that may be what is told, by another way or in a circle, and a message
would go round for it.

A site that does not say itself to what somebody is attached goes by what is wanted alone, as those of an
earlier version: others take it for one where somebody always is.
"""

import math
from collections.abc import Callable, Mapping

from routing.federation.interest import Interest
from routing.federation.nearest import NearestByNews
from routing.federation.own_wants import OwnWants
from routing.federation.peer import Peer
from routing.matching import Matching
from routing.peering.wants import Want
from routing.subscription import Topic


class WaysOfOne:
    """Part of `Custody`, and what it is asked by before there is a message. Not for accounts.

    Args:
        still_says: whether news of this site brings messages of a topic here by what is not so any more.
        tells_attached: whether news of this site says to what somebody is attached.
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
    ) -> None:
        self._peers = peers
        self._matching = matching
        self._interest = interest
        self._nearest = nearest
        self._own_wants = own_wants
        self._still_says = still_says
        self._tells_attached = tells_attached

    def distances(self, topic: Topic) -> Mapping[str, int]:
        """By peer, links from it to the nearest site to which a message may go that nobody here can take."""
        if self._tells_attached() and (attached := self._to_attached(topic)):
            return attached
        return self.distances_to_left(topic)

    def distances_to_left(self, topic: Topic) -> Mapping[str, int]:
        """The same of one that is to come to nobody who is attached, as none of them is within its depth."""
        if self._tells_attached() and self._matching.is_taken(topic, "ONE"):
            return {}
        return self._interest.distances(("ONE", topic.name))

    def is_attended_elsewhere(self, topic: Topic) -> bool:
        """Whether news says that somebody is attached where a message may go; see `keeps`."""
        return self._tells_attached() and bool(self._nearest.to_attached(topic.name))

    def _to_attached(self, topic: Topic) -> Mapping[str, int]:
        """Distances to sites where somebody is attached; empty where none of them can be reached now."""
        want: Want = ("ONE", topic.name)
        told = {
            name: distance
            for name, distance in self._interest.told(want).items()
            if name in self._peers and self._peers[name].may_go_now(want)
        }
        if told:
            known = self._known_at(topic)
            told = {name: distance for name, distance in told.items() if distance < known}
        return self._interest.with_told(want, self._nearest.to_attached(topic.name), told)

    def _known_at(self, topic: Topic) -> float:
        """The least distance at which peers may tell of a want that this site has, or that news knows of.

        One of this site comes back to a peer by another, as no peer tells who has told it.
        """
        if self._matching.is_taken(topic, "ONE"):
            return 2
        return min(self._nearest.distances(("ONE", topic.name)).values(), default=math.inf)

    def keeps(self, topic: Topic) -> bool:
        """Whether a site holds on to a message that a peer has had before: another such site may be there."""
        if self._own_wants.is_attended(topic) or self._still_says(topic.name):
            return True
        if not self._matching.is_taken(topic, "ONE"):
            return False
        return not self.is_attended_elsewhere(topic)
