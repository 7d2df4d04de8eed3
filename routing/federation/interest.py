"""Who wants what, as peers tell each other: for each want the distance to the nearest site that has it.

For each want (see `routing.peering.wants`) a site tells each peer the distance in links from itself to the
nearest wanting site, leaving out what it heard from that very peer (split horizon). Only changes are told,
and to peers that know news of sites only what that does not explain, see `telling` and `nearest`.

Never too far: along any shortest path to a wanting site, of those that topic rules and `depth_max` of links
leave open, each site has told the one before it a distance no greater than the true one. So a message that
may go as far as that site is never held back. It may be too near for a while: in a circle of sites, a want
that has gone is passed on with a growing distance until that is further than any way could be (see
`extent`), and is gone. That costs copies that nobody wants, and loses none.

A link that is down is no way for mode ONE, and peers are told so, though what lies beyond it is kept. Nor is
it one for an account, once news says that it is down, where news knows of a way that is up. A message of mode
ALL goes towards it nonetheless, and waits before it. One of mode ONE would be passed to and fro between sites
each of which believes that the other has a way.

Naming the sites on the way, and passing over ways that lead through the listener, would end that at once,
and was not done: where two ways are equally long, the one that is told may be of no use to the listener's
own peer while the other would be, and then a site within depth would not be reached.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from routing.federation.extent import Extent
from routing.federation.nearest import NearestByNews
from routing.patterns import PatternTree
from routing.peering.wants import DISTANCE_MAX, InterestChange, Want, can_be_wanted, is_of_pattern

WANTS_MAX: Final = 500_000
"""Of one peer: they take some hundred MB."""

PATTERNS_MAX: Final = 100_000
"""Of these, patterns."""

COVERING_MAX: Final = 10_000
"""Topics of which it is remembered which patterns take them."""


class Interest:
    """What this site and, by their own word or by news, its peers want or can reach.

    Attributes:
        own: what this site itself wants.
        heard: by want, what peers have told last, however far it is.

    Args:
        nearest: how far it is by news.
        changed: told of a want that has come or gone, or is at another distance, and whether it is of a
            pattern that was not wanted before.
    """

    def __init__(self, server: str, nearest: NearestByNews, changed: Callable[[Want, bool], None]) -> None:
        self.own: set[Want] = {("SERVER", server)}
        self.heard: dict[Want, dict[str, int]] = {}
        self._tell_changed = changed
        self._nearest = nearest
        self._heard_from: Counter[str] = Counter()  # how many wants
        self._extent = Extent()
        self._patterns: PatternTree[str] = PatternTree()  # of all wants, own and heard
        self._patterns_from: Counter[str] = Counter()  # how many of the wants
        self._covering: dict[str, list[str]] = {}  # patterns, by topic

    # -- what is known ----------------------------------------------------------------------------

    def distance(self, peer: str, want: Want) -> int | None:
        """Links from the peer to the nearest site beyond it that wants this; 0 is the peer itself."""
        return _nearer(self._told_by(peer, want), self._nearest.distances(want).get(peer))

    def is_barred(self, peer: str, want: Want) -> bool:
        """Whether what is known of a want beyond a peer is out of reach by the rules of links alone."""
        return self.distance(peer, want) is None and self._nearest.is_beyond(peer, want)

    def _told_by(self, peer: str, want: Want) -> int | None:
        distance = self.heard.get(want, {}).get(peer)
        for text in self.covering(want):
            distance = _nearer(distance, self.heard.get((want[0], text), {}).get(peer))
        return distance if distance is not None and distance < self.bound(want) else None

    def distances(self, want: Want) -> Mapping[str, int]:
        """`distance` of every peer that knows one; empty for this site itself: ways to it are circles."""
        if want[0] == "SERVER" and want in self.own:
            return {}
        return self.with_told(want, self._nearest.distances(want), self.told(want))

    def with_told(self, want: Want, by_news: Mapping[str, int], told: Mapping[str, int]) -> Mapping[str, int]:
        """Distances by news, and by what peers tell besides where that is nearer."""
        if not told or not by_news:
            return told or by_news
        nearer = {
            peer: each
            for peer, each in told.items()
            if each < by_news.get(peer, math.inf) and not self._nearest.is_passed_by(peer, want)
        }
        return {**by_news, **nearer}

    def told(self, want: Want) -> dict[str, int]:
        """Distances as of `distances`, by what peers tell besides news."""
        heard, bound = self.heard.get(want), self.bound(want)
        found = {peer: distance for peer, distance in heard.items() if distance < bound} if heard else {}
        for text in self.covering(want):
            for peer, distance in self.heard.get((want[0], text), {}).items():
                if distance < found.get(peer, bound):
                    found[peer] = distance
        return found

    def is_own(self, want: Want) -> bool:
        """Whether this site itself wants it, or takes it by a pattern that it wants."""
        return want in self.own or any((want[0], text) in self.own for text in self.covering(want))

    def is_wanted(self, pattern: str) -> bool:
        """Whether this site wants a pattern, or a peer has told that it is wanted."""
        return any(want in self.own or want in self.heard for want in (("ALL", pattern), ("ONE", pattern)))

    def covering(self, want: Want) -> list[str]:
        """The patterns that are wanted, here or as peers tell, and that take a topic."""
        kind, name = want
        if kind == "SERVER" or not len(self._patterns) or is_of_pattern(want):
            return []
        found = self._covering.get(name)
        if found is None:
            if len(self._covering) >= COVERING_MAX:
                self._covering.clear()
            found = self._covering[name] = self._patterns.match(name)
        return found

    @property
    def sites(self) -> Collection[str]:
        """The other sites of which peers have told."""
        return self._extent.sites

    def bound(self, want: Want) -> int:
        """What is told to be so many links from a peer, or more, is too far to be true, or of use."""
        return self._extent.to_site if want[0] == "SERVER" else self._extent.to_any

    # -- what changes -----------------------------------------------------------------------------

    def set_own(self, want: Want, wanted: bool) -> None:
        """Note whether this site itself wants something."""
        if wanted != (want in self.own):
            self.own.symmetric_difference_update((want,))
            self._changed(want)

    def _changed(self, want: Want) -> None:
        self._tell_changed(want, is_of_pattern(want) and self._note_pattern(want[1]))

    def _note_pattern(self, text: str) -> bool:
        """A pattern is wanted by somebody, or by nobody any more; whether it was not before."""
        is_wanted = self.is_wanted(text)
        if is_wanted == (self._patterns.get(text) is not None):
            return False
        self._covering.clear()
        if is_wanted:
            self._patterns.put(text, text)
        else:
            self._patterns.discard(text)
        return is_wanted

    def peer_removed(self, peer: str) -> None:
        """Forget a peer that is none any more, and all that lay beyond it."""
        for want in [want for want, heard in self.heard.items() if peer in heard]:
            self._forget(want, peer)
        self.measure()

    def admitted(self, peer: str, changes: Iterable[InterestChange], *, whole: bool) -> list[InterestChange]:
        """What of a peer's changes is to be heard: the rest is nothing that can be, or is too much."""
        room = WANTS_MAX - (0 if whole else self._heard_from[peer])
        patterns_room = PATTERNS_MAX - (0 if whole else self._patterns_from[peer])
        out = []
        for change in changes:
            if change.distance is not None:
                want: Want = (change.kind, change.name)
                if not 0 <= change.distance < DISTANCE_MAX:
                    continue
                if whole or peer not in self.heard.get(want, {}):
                    of_pattern = is_of_pattern(want)
                    if room <= 0 or (of_pattern and patterns_room <= 0) or not can_be_wanted(*want):
                        continue
                    room -= 1
                    patterns_room -= of_pattern
            out.append(change)
        return out

    def hear(
        self, peer: str, changes: Iterable[InterestChange], *, whole: bool = False
    ) -> list[tuple[str, Want]]:
        """Take what a peer tells; returns peers, and the wants to which they are a new or a nearer way.

        `whole`: what it told before and does not tell now, it does not want any more.
        """
        before: dict[Want, int | None] = {}
        for change in changes:
            want: Want = (change.kind, change.name)
            before.setdefault(want, self._sure(peer, want))
            heard, distance = self.heard.get(want, {}).get(peer), change.distance
            if distance is None or not 0 <= distance < DISTANCE_MAX:
                if heard is not None:
                    self._forget(want, peer)
            elif distance != heard:
                self._set(want, peer, distance)
        if whole:
            for gone in [want for want, heard in self.heard.items() if peer in heard and want not in before]:
                self._forget(gone, peer)
        nearer = {
            (peer, want): None for want, was in before.items() if _is_nearer(self._sure(peer, want), was)
        }
        return list(nearer | dict.fromkeys(self.measure()))

    def _sure(self, peer: str, want: Want) -> int | None:
        """As `distance`, but not to those of which it is not known whether they want it."""
        return _nearer(self._told_by(peer, want), self._nearest.distance(peer, want))

    def _set(self, want: Want, peer: str, distance: int) -> None:
        heard = self.heard.setdefault(want, {})
        self._count(peer, want, peer not in heard)
        heard[peer] = distance
        self._changed(want)
        self._place(want)

    def _forget(self, want: Want, peer: str) -> None:
        heard = self.heard[want]
        del heard[peer]
        self._count(peer, want, -1)
        if not heard:
            del self.heard[want]
        self._changed(want)
        self._place(want)

    def _count(self, peer: str, want: Want, more: int) -> None:
        self._heard_from[peer] += more
        if is_of_pattern(want):
            self._patterns_from[peer] += more

    def _place(self, want: Want) -> None:
        if want[0] == "SERVER" and want not in self.own:
            self._extent.place(want[1], self.heard.get(want, {}).values())

    def measure(self) -> list[tuple[str, Want]]:
        """Find the bounds again, as sites have come or gone; what is within them now and was not.

        As of `hear`: peers, and the wants that they have told.
        """
        extent = self._extent
        before, before_to_site = extent.to_any, extent.to_site
        extent.measure(*self._nearest.extent() if self.heard else ((), 0))
        if (before, before_to_site) == (extent.to_any, extent.to_site):
            return []
        nearer: list[tuple[str, Want]] = []
        for want, heard in self.heard.items():
            old = before_to_site if want[0] == "SERVER" else before
            new = self.bound(want)
            for peer, distance in heard.items():
                if min(old, new) <= distance < max(old, new):
                    self._tell_changed(want, False)
                    if new > old:
                        nearer.append((peer, want))
        return nearer


def _nearer(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _is_nearer(distance: int | None, than: int | None) -> bool:
    return distance is not None and (than is None or distance < than)
