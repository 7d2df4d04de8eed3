"""What each peer is told of wants, so that it hears of every change once, in words that it knows.

    a topic, a server       as it is
    a pattern               its overlaps with what may come over the link; nothing where there are none
    to a peer that knows no patterns    in its place each topic that there is and that it takes
    to a peer that takes wants from news    none of that which is in news that it has

So one thing that is told can stand for several wants: told is the least of their distances.
"""

from collections.abc import Callable, Iterable
from typing import Final

from routing.federation.peer import some_allowed
from routing.message import MODES
from routing.patterns import TopicTree, is_pattern, overlap
from routing.peering.copies import within
from routing.peering.wants import Want

EVERYTHING: Final = ("#",)


class InterestPeer:
    """A peer that is told of wants, until its link goes down.

    Args:
        knows_patterns: it does not belong to an earlier version.
        wants_from_news: nor to one that takes wants from peers alone.
        may_come: patterns of the topics that may come from it.
        depth_max: with which depth these are taken at most.
        topics: those that there are, of which peers that know no patterns are told.

    Attributes:
        told: distances, as they were told last.
        stale: what may have changed since.
        gone: patterns of these, which nobody may want any more.
        explained: what other peers have told, and this one is not, as news explains it.
    """

    def __init__(
        self,
        may_come: tuple[str, ...],
        depth_max: int,
        topics: TopicTree,
        *,
        knows_patterns: bool,
        wants_from_news: bool,
    ) -> None:
        self._depth_max = depth_max
        self.knows_patterns = knows_patterns
        self.wants_from_news = wants_from_news
        self.told: dict[Want, int] = {}
        self._told_topics = TopicTree()  # those of them, for a peer that knows no patterns
        self.stale: set[Want] = set()
        self.gone: set[str] = set()
        self.explained: set[Want] = set()
        self._topics = topics
        self._may_come = may_come
        self._overlaps: dict[str, tuple[str, ...]] = {}
        self._overlapped_by: dict[str, set[str]] = {}

    def may_reach(self, want: Want, distance: int = 0) -> bool:
        """Whether a message that comes from it may go so far for a want; of a pattern, whether some may."""
        kind, name = want
        if kind == "SERVER":
            return True
        return within(distance, self._depth_max) and some_allowed(self._may_come, name)

    def mark(self, want: Want) -> None:
        """Note that the distance of a want may have changed."""
        kind, name = want
        if kind == "SERVER" or not is_pattern(name):
            self.stale.add(want)
        elif not self.knows_patterns:
            for topics in (self._topics, self._told_topics):
                self.stale.update((kind, topic) for topic in topics.under(name))
        else:
            self.stale.update((kind, text) for text in self._overlaps_of(name))
            if name in self._overlaps:
                self.gone.add(name)  # if so, which is looked at when it is told

    def note_told(self, want: Want, distance: int | None) -> None:
        """Note what the peer is told; None where there is nobody any more who wants it."""
        kind, name = want
        if distance is None:
            del self.told[want]
        else:
            self.told[want] = distance
        if self.knows_patterns or kind == "SERVER":
            return
        if distance is not None:
            self._told_topics.add(name)
        elif not any((mode, name) in self.told for mode in MODES):
            self._told_topics.discard(name)

    def stands_for(self, told: Want, covering: Callable[[Want], Iterable[str]]) -> Iterable[Want]:
        """The wants of which the peer is told by this; `covering` has the patterns that take a topic."""
        kind, name = told
        if kind == "SERVER" or (self.knows_patterns and self._may_come == EVERYTHING):
            return (told,)
        if not self.knows_patterns:
            return (told, *((kind, text) for text in covering(told)))
        overlapped = ((kind, text) for text in self._overlapped_by.get(name, ()))
        return overlapped if is_pattern(name) else (told, *overlapped)

    def _overlaps_of(self, pattern: str) -> tuple[str, ...]:
        if self._may_come == EVERYTHING:
            return (pattern,)
        found = self._overlaps.get(pattern)
        if found is None:
            shared = (overlap(pattern, each) for each in self._may_come)
            found = tuple(dict.fromkeys(each for each in shared if each is not None))
            self._overlaps[pattern] = found
            for text in found:
                self._overlapped_by.setdefault(text, set()).add(pattern)
        return found

    def all_told(self, is_wanted: Callable[[str], bool]) -> None:
        """Note that the peer knows all: nothing need be known of patterns that nobody wants any more."""
        self.stale.clear()
        for pattern in self.gone:
            if not is_wanted(pattern):
                self._forget(pattern)
        self.gone.clear()

    def _forget(self, pattern: str) -> None:
        for text in self._overlaps.pop(pattern, ()):
            by = self._overlapped_by[text]
            by.discard(pattern)
            if not by:
                del self._overlapped_by[text]

    def set_rules(self, may_come: tuple[str, ...], depth_max: int, wants: Iterable[Want]) -> None:
        """Take other rules of the link: tell all `wants` by them."""
        self.stale.update(want for want in self.told if want[0] != "SERVER")
        self._may_come, self._depth_max = may_come, depth_max
        self._overlaps.clear()
        self._overlapped_by.clear()
        for want in wants:
            self.mark(want)
