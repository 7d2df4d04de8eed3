"""Who wants what, as peers tell each other: for each want the distance to the nearest site that has it.

For each want (see `routing.peering.wants`) a site tells each peer the distance in links from itself to the
nearest wanting site, leaving out what it heard from that very peer (split horizon). Only changes are told.

Never too far: along any shortest path to a wanting site, each site has told the one before it a distance
no greater than the true one. So a message that may go as far as that site is never held back. It may be too
near for a while: in a circle of sites, a want that has gone is passed on with a growing distance until that
is further than any way could be, and is gone. That costs copies that nobody wants, and loses none.

A link that is down is no way for mode ONE, and peers are told so, though what lies beyond it is kept. A
message of mode ALL goes towards it nonetheless, and waits before it. One of mode ONE would be passed to and
fro between sites each of which believes that the other has a way.

How far a way could be: every site is a want too, so each site knows how far the farthest is. Who wants
something is no farther, and ways more than twice as long are of no use even where a link is down: any circle
can be gone round the other way. The ways to a site itself are hardly longer than there are sites.

Naming the sites on the way, and passing over ways that lead through the listener, would end that at once,
and was not done: where two ways are equally long, the one that is told may be of no use to the listener's
own peer while the other would be, and then a site within depth would not be reached.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from routing.federation.telling import EVERYTHING, InterestPeer
from routing.patterns import PatternTree, TopicTree, subscription_takes
from routing.peering.wants import DISTANCE_MAX, InterestChange, Want, can_be_wanted, is_of_pattern

DETOUR_LINKS: Final = 2
"""What a way may be longer than twice the way to the farthest site."""

WANTS_MAX: Final = 500_000
"""Of one peer: they take some hundred MB."""

PATTERNS_MAX: Final = 100_000
"""Of these, patterns."""

TOPICS_TOLD_MAX: Final = 10_000
"""Topics that stand for patterns to peers that know none."""

COVERING_MAX: Final = 10_000
"""Topics of which it is remembered which patterns take them."""


class Interest:
    """What this site and, by their own word, its peers want or can reach."""

    def __init__(
        self,
        server: str,
        topics: Callable[[], Iterable[str]] = tuple,
        distance_max: int = DISTANCE_MAX,
        wants_max: int = WANTS_MAX,
        patterns_max: int = PATTERNS_MAX,
    ) -> None:
        """`topics`: those that there are at this site."""
        self._topics = topics
        self._distance_max = distance_max
        self._wants_max = wants_max
        self._patterns_max = patterns_max
        self._own: set[Want] = {("SERVER", server)}
        self._heard: dict[Want, dict[str, int]] = {}
        self._heard_from: Counter[str] = Counter()  # how many wants
        self._nearest: dict[Want, int] = {}  # links from here to each other site
        self._sites_at: Counter[int] = Counter()  # how many sites there are at each distance
        self._longest_to_site = self._longest = 0
        self._patterns: PatternTree[str] = PatternTree()  # of all wants, own and heard
        self._patterns_from: Counter[str] = Counter()  # how many of the wants
        self._covering: dict[str, list[str]] = {}  # patterns, by topic
        self._links: dict[str, InterestPeer] = {}  # that are up
        self._told_topics = TopicTree()
        self._told_topics_count = 0

    # -- what is known ----------------------------------------------------------------------------

    def distance(self, peer: str, want: Want) -> int | None:
        """Links from the peer to the nearest site beyond it that wants this; 0 is the peer itself."""
        distance = self._heard.get(want, {}).get(peer)
        for text in self._covering_of(want):
            other = self._heard.get((want[0], text), {}).get(peer)
            if other is not None and (distance is None or other < distance):
                distance = other
        return distance if distance is not None and distance < self._bound(want) else None

    def distances(self, want: Want) -> dict[str, int]:
        """`distance` of every peer that knows one; empty for this site itself: ways to it are circles."""
        if want[0] == "SERVER" and want in self._own:
            return {}
        heard, bound = self._heard.get(want), self._bound(want)
        found = {peer: distance for peer, distance in heard.items() if distance < bound} if heard else {}
        for text in self._covering_of(want):
            for peer, distance in self._heard.get((want[0], text), {}).items():
                if distance < found.get(peer, bound):
                    found[peer] = distance
        return found

    def is_own(self, want: Want) -> bool:
        """Whether this site itself wants it, or takes it by a pattern that it wants."""
        return want in self._own or any((want[0], text) in self._own for text in self._covering_of(want))

    def _covering_of(self, want: Want) -> list[str]:
        """The patterns that are wanted, here or elsewhere, and that take a topic."""
        kind, name = want
        if kind == "SERVER" or not len(self._patterns) or is_of_pattern(want):
            return []
        found = self._covering.get(name)
        if found is None:
            if len(self._covering) >= COVERING_MAX:
                self._covering.clear()
            found = self._covering[name] = self._patterns.match(name)
        return found

    def _bound(self, want: Want) -> int:
        """What is told to be so many links from a peer, or more, is too far to be true, or of use."""
        return self._longest_to_site if want[0] == "SERVER" else self._longest

    # -- what changes -----------------------------------------------------------------------------

    def set_own(self, want: Want, wanted: bool) -> None:
        """Note whether this site itself wants something."""
        if wanted != (want in self._own):
            self._own.symmetric_difference_update((want,))
            self._changed(want)

    def _changed(self, want: Want) -> None:
        """A want has come or gone, or is at another distance."""
        if is_of_pattern(want):
            self._note_pattern(want[1])
        self._mark(want)

    def _note_pattern(self, text: str) -> None:
        """A pattern is wanted by somebody, or by nobody any more."""
        is_wanted = self._is_wanted(text)
        if is_wanted == (self._patterns.get(text) is not None):
            return
        self._covering.clear()
        if not is_wanted:
            self._patterns.discard(text)
            for link in self._links.values():
                link.gone.add(text)
            return
        self._patterns.put(text, text)
        if self.tells_topics:
            for topic in self._topics():
                if subscription_takes(text, topic):
                    self.note_topic(topic)

    def _is_wanted(self, text: str) -> bool:
        return any(want in self._own or want in self._heard for want in (("ALL", text), ("ONE", text)))

    @property
    def tells_topics(self) -> bool:
        """Whether a peer that knows no patterns is linked to: `note_topic` is to be told of new topics."""
        return any(not link.knows_patterns for link in self._links.values())

    def note_topic(self, topic: str) -> None:
        """Note that there is a topic: peers that know no patterns are told of it where a pattern takes it."""
        if self._told_topics_count >= TOPICS_TOLD_MAX or not self._covering_of(("ALL", topic)):
            return
        self._told_topics_count += self._told_topics.add(topic)
        for link in self._links.values():
            if not link.knows_patterns:
                link.stale |= {("ALL", topic), ("ONE", topic)}

    def link_up(
        self, peer: str, may_come: tuple[str, ...] = EVERYTHING, *, knows_patterns: bool = True
    ) -> None:
        """Note that a link is up: the peer has to be told everything.

        Args:
            may_come: patterns of the topics that may come from the peer.
            knows_patterns: it can be told of patterns.
        """
        link = self._links[peer] = InterestPeer(may_come, self._told_topics, knows_patterns=knows_patterns)
        if not knows_patterns:
            for topic in self._topics():
                self.note_topic(topic)
        for want in self._own | self._heard.keys():
            link.mark(want)
        self._mark_ways_for_one(peer)

    def link_down(self, peer: str) -> None:
        """Note that a link is gone for now: what its peer wants is kept, and is no way for mode ONE."""
        self._links.pop(peer, None)
        if not self.tells_topics:
            self._told_topics = TopicTree()
            self._told_topics_count = 0
        self._mark_ways_for_one(peer)

    def set_rules(self, peer: str, may_come: tuple[str, ...]) -> None:
        """Note that other topics may come from a peer."""
        if (link := self._links.get(peer)) is not None:
            link.set_rules(may_come, filter(is_of_pattern, self._own | self._heard.keys()))

    def _mark_ways_for_one(self, peer: str) -> None:
        for want, heard in self._heard.items():
            if want[0] == "ONE" and peer in heard:
                self._mark(want)

    def peer_removed(self, peer: str) -> None:
        """Forget a peer that is none any more, and all that lay beyond it."""
        self.link_down(peer)
        for want in [want for want, heard in self._heard.items() if peer in heard]:
            self._forget(want, peer)
        self._measure()

    def admitted(self, peer: str, changes: Iterable[InterestChange], *, whole: bool) -> list[InterestChange]:
        """What of a peer's changes is to be heard: the rest is nothing that can be, or is too much."""
        room = self._wants_max - (0 if whole else self._heard_from[peer])
        patterns_room = self._patterns_max - (0 if whole else self._patterns_from[peer])
        out = []
        for change in changes:
            if change.distance is not None:
                want: Want = (change.kind, change.name)
                if not 0 <= change.distance < self._distance_max:
                    continue
                if whole or peer not in self._heard.get(want, {}):
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
            before.setdefault(want, self.distance(peer, want))
            heard, distance = self._heard.get(want, {}).get(peer), change.distance
            if distance is None or not 0 <= distance < self._distance_max:
                if heard is not None:
                    self._forget(want, peer)
            elif distance != heard:
                self._set(want, peer, distance)
        if whole:
            for gone in [want for want, heard in self._heard.items() if peer in heard and want not in before]:
                self._forget(gone, peer)
        nearer = {
            (peer, want): None for want, was in before.items() if _is_nearer(self.distance(peer, want), was)
        }
        return list(nearer | dict.fromkeys(self._measure()))

    def tell(self, peer: str) -> list[InterestChange]:
        """What has changed for a peer since it was last asked, each once."""
        link = self._links.get(peer)
        if link is None or not link.stale:
            return []
        told = link.told
        out = []
        for want in sorted(link.stale):
            known = (self._distance_for(peer, each) for each in link.stands_for(want, self._covering_of))
            distance = min((each for each in known if each is not None), default=None)
            if distance != told.get(want):
                out.append(InterestChange(*want, distance))
                if distance is None:
                    del told[want]
                else:
                    told[want] = distance
        link.all_told(self._is_wanted)
        return out

    @property
    def untold(self) -> list[str]:
        """Peers for which `tell` may have something."""
        return [peer for peer, link in self._links.items() if link.stale]

    def _distance_for(self, peer: str, want: Want) -> int | None:
        if want in self._own:
            return 0
        bound = self._bound(want)
        known = (
            distance
            for other, distance in self._heard.get(want, {}).items()
            if other != peer and distance < bound and (want[0] != "ONE" or other in self._links)
        )
        nearest = min(known, default=self._distance_max)
        return nearest + 1 if nearest + 1 < self._distance_max else None

    def _set(self, want: Want, peer: str, distance: int) -> None:
        heard = self._heard.setdefault(want, {})
        self._count(peer, want, peer not in heard)
        heard[peer] = distance
        self._changed(want)
        if want[0] == "SERVER":
            self._place(want)

    def _forget(self, want: Want, peer: str) -> None:
        heard = self._heard[want]
        del heard[peer]
        self._count(peer, want, -1)
        if not heard:
            del self._heard[want]
        self._changed(want)
        if want[0] == "SERVER":
            self._place(want)

    def _count(self, peer: str, want: Want, more: int) -> None:
        self._heard_from[peer] += more
        if is_of_pattern(want):
            self._patterns_from[peer] += more

    def _place(self, site: Want) -> None:
        """Note how far a site is now."""
        if site in self._own:
            return
        before = self._nearest.pop(site, None)
        if before is not None:
            self._sites_at[before] -= 1
            if not self._sites_at[before]:
                del self._sites_at[before]
        if heard := self._heard.get(site):
            nearest = self._nearest[site] = min(heard.values()) + 1
            self._sites_at[nearest] += 1

    def _measure(self) -> list[tuple[str, Want]]:
        """Find the bounds again; returns what is within them now and was not."""
        # a power of two, so that the bound is the same for nearly every site that comes or goes
        to_site = 1 << len(self._nearest).bit_length()
        to_any = min(to_site, 2 * max(self._sites_at, default=0) + DETOUR_LINKS)
        before, before_to_site = self._longest, self._longest_to_site
        if (before, before_to_site) == (to_any, to_site):
            return []
        self._longest, self._longest_to_site = to_any, to_site
        nearer: list[tuple[str, Want]] = []
        for want, heard in self._heard.items():
            old = before_to_site if want[0] == "SERVER" else before
            new = self._bound(want)
            for peer, distance in heard.items():
                if min(old, new) <= distance < max(old, new):
                    self._mark(want)
                    if new > old:
                        nearer.append((peer, want))
        return nearer

    def _mark(self, want: Want) -> None:
        for link in self._links.values():
            link.mark(want)


def _is_nearer(distance: int | None, than: int | None) -> bool:
    return distance is not None and (than is None or distance < than)
