"""The ways from one site to all others, by what is known of all links at one moment. Pure.

A copy may go from a site to its peer where the topic rules of both ends let it pass, and arrives there with
one hop less, or with the `depth_max` that the peer has for that link. Of all ways the shortest are taken,
over links that are up at both ends; where there are none, those that there would be if all links were up, and
the copy waits where the first of them is down.

Where several peers are on shortest ways, one is taken that is needed anyway, else the one that is on the ways
to most targets, and of these the first by name: targets that can share a way do. Every site that decides by
the same knowledge carries it on, so a copy comes to no site twice: a site on shortest ways to two targets is
so by the same peers, and whoever of these is taken first is taken for both. Where a peer must be taken for a
target, though others are as near, as an earlier copy is still under way by it, it is so for all that have a
way by it: that target may be on theirs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from routing.federation.link_graph import LinkEnd, LinkGraph, Shut
from routing.message import DEPTH_UNLIMITED
from routing.peering.copies import wider, within

REACHES_MAX: Final = 1_000
"""Remembered: one for each set of links that rules shut, each depth that links bound, each detour."""

ASSIGNED_MAX: Final = 1_000
"""Remembered: one for each set of destinations, depth and ways that were not to be taken."""

ASSIGNED_SITES_MAX: Final = 50_000
"""Destinations in all of these."""

NOBODY: Final = frozenset[str]()

Assigned = tuple[Mapping[str, list[str]], list[str]]
"""By peer, what it is to see to; and what there is no way to."""

_Asked = tuple[
    tuple[str, ...],
    Shut,
    int,
    tuple[str, ...],
    tuple[tuple[str, tuple[str, ...]], ...],
    tuple[tuple[str, str], ...],
]

_Beyond = tuple[str, Shut, bool, frozenset[str], bool, bool]
"""What is asked of `Ways.beyond`."""

NOWHERE: Final = -2
"""Less than any depth."""


class Reach(msgspec.Struct):
    """Who can be reached.

    Attributes:
        hops: by site, links on a shortest way; 0 for the site itself.
        first: by site, the peers that shortest ways begin with, as bits: the n-th of `Ways.peers` is 1 << n.
    """

    hops: dict[str, int]
    first: dict[str, int]


class Ways:
    """What follows from the links that all sites say they have.

    Args:
        said, may_cross: see `LinkGraph`.

    Attributes:
        peers: of this site, by name.
        links: all links.
    """

    def __init__(
        self,
        server: str,
        said: Mapping[str, Mapping[str, LinkEnd]],
        may_cross: Callable[[str, str, str], bool] = lambda sender, receiver, topic: True,
    ) -> None:
        self.links = LinkGraph(said, may_cross)
        self._server = server
        self._reaches: dict[tuple[Shut, int, bool, frozenset[str]], Reach] = {}
        self._assigned: dict[_Asked, Assigned] = {}
        self._assigned_sites = 0
        self._from: dict[str, dict[str, int]] = {}
        self._places: dict[str, dict[str, int]] = {}
        self._towards: dict[tuple[str, Shut, bool, bool], dict[str, int]] = {}
        self._beyond: dict[_Beyond, dict[str, int]] = {}
        self.peers = sorted(said.get(server, ()))
        self._bits = {peer: 1 << number for number, peer in enumerate(self.peers)}

    def towards(self, target: str, shut: Shut, *, up: bool, is_bounded: bool = True) -> Mapping[str, int]:
        """Links from all sites to one, as of `beyond`, of a message that comes to them with any depth.

        `is_bounded`: `depth_max` of links bounds it.
        """
        key = target, shut, up, is_bounded and self.links.has_bounds
        found = self._towards.get(key)
        if found is None:
            if len(self._towards) >= REACHES_MAX:
                self._towards.clear()
            found, edge = {target: 0}, [target]
            for site in edge:
                for other in self.links.neighbours[site]:
                    if other in found or other not in self.links.said or other == self._server:
                        continue
                    if (other, site) in shut or (up and not self.links.is_up(other, site)):
                        continue
                    if not is_bounded or within(found[site], self.links.depth_max(other, site)):
                        found[other] = found[site] + 1
                        edge.append(other)
            self._towards[key] = found
        return found

    def distances(self, peer: str) -> Mapping[str, int]:
        """Links from a peer to each other site, if all were up and let everything pass."""
        found = self._from.get(peer)
        if found is None:
            found, edge = {peer: 0}, [peer]
            for site in edge:
                for other in self.links.neighbours[site]:
                    if other not in found:
                        found[other] = found[site] + 1
                        edge.append(other)
            self._from[peer] = found
        return found

    def beyond(
        self,
        peer: str,
        shut: Shut,
        *,
        up: bool,
        without: frozenset[str] = NOBODY,
        is_bounded: bool = True,
        over_here: bool = False,
    ) -> Mapping[str, int]:
        """Links from a peer to what a message that is given to it can reach without coming back here.

        Or from this site itself.

        Only over sites that say something of themselves: of others it is not known what they pass on.

        Args:
            shut: the links that it may not cross, that with the peer among them.
            up: over links that are up at both ends alone; that with the peer may be down.
            without: sites that it is not to come to either.
            is_bounded: it has any depth, but for `depth_max` of links, which ends its way where it is less.
            over_here: it may come back here, as what peers tell each other does in a circle.
        """
        is_bounded = is_bounded and self.links.has_bounds
        key = peer, shut, up, without, is_bounded, over_here
        found = self._beyond.get(key)
        if found is None:
            if len(self._beyond) >= REACHES_MAX:
                self._beyond.clear()
            if (self._server, peer) in shut:
                found = {}
            else:
                shunned = without if over_here else without | {self._server}
                search = self._search_bounded if is_bounded else self._search_unbounded
                found = search(peer, shut, up, shunned)
            self._beyond[key] = found
        return found

    def _search_unbounded(self, peer: str, shut: Shut, up: bool, shunned: frozenset[str]) -> dict[str, int]:
        links, found, edge = self.links, {peer: 0}, [peer]
        for site in edge:
            for other in links.neighbours[site] if site in links.said else ():
                if other in found or other in shunned or (shut and (site, other) in shut):
                    continue
                if not up or links.is_up(site, other):
                    found[other] = found[site] + 1
                    edge.append(other)
        return found

    def _search_bounded(self, peer: str, shut: Shut, up: bool, shunned: frozenset[str]) -> dict[str, int]:
        left = DEPTH_UNLIMITED
        if peer != self._server:
            left = self.links.depth_max(self._server, peer)
        found, greatest, edge = {peer: 0}, {peer: left}, {peer: left}
        distance = 0
        while edge:
            distance += 1
            come: dict[str, int] = {}
            for site, left in edge.items():
                for other in self.links.neighbours[site] if site in self.links.said else ():
                    if other in shunned or (site, other) in shut:
                        continue
                    if up and not self.links.is_up(site, other):
                        continue
                    coming = self.links.coming(left, site, other)
                    if coming is not None and wider(coming, come.get(other, greatest.get(other, NOWHERE))):
                        come[other] = coming
                        found.setdefault(other, distance)
            greatest |= come
            edge = come
        return found

    def may_go_on(self, peer: str, distance: int) -> bool:
        """Whether a message may go so many links further than a peer, by the bound of the link with it."""
        return within(distance, self.links.depth_max(self._server, peer))

    def places(self, peer: str) -> Mapping[str, int]:
        """The place of each site, by site, in an order in which those reached over one link come together.

        If all links were up; sites that only this one links with the peer have none.
        """
        found = self._places.get(peer)
        if found is None:
            beyond: dict[str, list[str]] = {peer: []}
            edge = [peer]
            for site in edge:
                for other in self.links.neighbours[site]:
                    if other not in beyond and other != self._server:
                        beyond[other] = []
                        beyond[site].append(other)
                        edge.append(other)
            found, left = {}, [peer]
            while left:
                site = left.pop()
                found[site] = len(found)
                left += beyond[site]
            self._places[peer] = found
        return found

    def reach(
        self, topic: str, depth: int, *, up: bool = True, without: frozenset[str] = frozenset()
    ) -> Reach:
        """The sites that can be reached by a message of a topic.

        Args:
            depth: of the copy at this site: sites that are further than that may be among those found, too.
            up: over links that are up at both ends alone.
            without: sites that it is not to pass.
        """
        key = (self.links.shut(topic), depth if self.links.has_bounds else DEPTH_UNLIMITED, up, without)
        found = self._reaches.get(key)
        if found is None:
            if len(self._reaches) >= REACHES_MAX:
                self._reaches.clear()
            found = self._reaches[key] = self._search(*key)
        return found

    def _search(self, shut: Shut, depth: int, up: bool, without: frozenset[str]) -> Reach:
        server, bits = self._server, self._bits
        found = Reach({server: 0}, {})
        left = {server: depth}  # the greatest with which it can come there
        edge = {server: 0}
        distance = 0
        while edge:
            distance += 1
            beyond: dict[str, int] = {}
            come: dict[str, int] = {}
            for site, first in edge.items():
                for peer in self.links.neighbours[site]:
                    if peer in without or (site, peer) in shut or (up and not self.links.is_up(site, peer)):
                        continue
                    coming = self.links.coming(left[site], site, peer)
                    if coming is None:
                        break
                    by = first or bits[peer]
                    if found.hops.setdefault(peer, distance) == distance and peer != server:
                        found.first[peer] = found.first.get(peer, 0) | by
                    if come.get(peer) == coming:
                        beyond[peer] |= by
                    elif wider(coming, come.get(peer, left.get(peer, NOWHERE))):
                        come[peer], beyond[peer] = coming, by
            left |= come
            edge = beyond
        return found

    def within(self, topic: str, depth: int) -> dict[str, int]:
        """The sites that a copy could come to if all links were up, this one among them; how far they are."""
        hops = self.reach(topic, depth, up=False).hops
        return {site: distance for site, distance in hops.items() if within(distance, depth)}

    def best(self, site: str, topic: str, depth: int) -> int:
        """The peers, as bits, that shortest ways to a site begin with now; 0 where there are none."""
        reach = self.reach(topic, depth)
        return reach.first[site] if _is_within(reach, site, depth) else 0

    def bit(self, peer: str) -> int:
        """What stands for a peer of this site; 0 for what is none."""
        return self._bits.get(peer, 0)

    def assign(
        self,
        targets: Iterable[str],
        topic: str,
        depth: int,
        avoid: tuple[str, ...] = (),
        refused: Mapping[str, tuple[str, ...]] | None = None,
        first: Mapping[str, str] | None = None,
    ) -> Assigned:
        """The targets that each peer is to see to, by peer; and those to which there is no way within depth.

        The latter are with a peer all the same if there is a way back: by a site that it came through.

        Args:
            avoid: sites that it is not to pass if there is another way: those that it came through.
            refused: by target, sites by which it is not to go there.
            first: by target, the peer to be taken of those whose ways are as short as any.
        """
        # one message after the other is for the same
        key = (
            tuple(targets),
            self.links.shut(topic),
            depth,
            avoid,
            tuple(refused.items()) if refused else (),
            tuple(first.items()) if first else (),
        )
        found = self._assigned.get(key)
        if found is None:
            self._assigned_sites += len(key[0])
            if len(self._assigned) >= ASSIGNED_MAX or self._assigned_sites > ASSIGNED_SITES_MAX:
                self._assigned.clear()
                self._assigned_sites = len(key[0])
            found = self._assign(key[0], topic, depth, frozenset(avoid), refused or {}, first or {})
            self._assigned[key] = found
        return found

    def _assign(
        self,
        targets: Iterable[str],
        topic: str,
        depth: int,
        hops: frozenset[str],
        refused: Mapping[str, tuple[str, ...]],
        taken: Mapping[str, str],
    ) -> Assigned:
        choices: dict[str, int] = {}
        nowhere = []
        bound = 0
        for target in targets:
            first, is_back = self._choice(target, topic, depth, hops, frozenset(refused.get(target, ())))
            if is_back or not first:
                nowhere.append(target)
            only = first & self.bit(taken.get(target, ""))
            if only != first:
                bound |= only
            if first:
                choices[target] = only or first
        if bound:
            choices = {target: first & bound or first for target, first in choices.items()}
        return self._merged(choices), nowhere

    def choice(
        self, target: str, topic: str, depth: int, avoid: tuple[str, ...], refused: tuple[str, ...]
    ) -> int:
        """The peers, as bits, of which `assign` takes one for a target; 0 where there is none but back."""
        first, is_back = self._choice(target, topic, depth, frozenset(avoid), frozenset(refused))
        return 0 if is_back else first

    def _choice(
        self, target: str, topic: str, depth: int, hops: frozenset[str], shut: frozenset[str]
    ) -> tuple[int, bool]:
        """The peers, and whether their ways are ways back."""
        without = hops | shut
        if first := self._first(target, topic, depth, without):
            return first, False
        if back := self._first(target, topic, depth, shut) if hops else 0:
            return back, True
        return self._first(target, topic, depth, without, up=False), False

    def _first(self, target: str, topic: str, depth: int, without: frozenset[str], *, up: bool = True) -> int:
        shut = 0
        for site in without:
            shut |= self._bits.get(site, 0)
        reach = self.reach(topic, depth, up=up)
        if not _is_within(reach, target, depth):
            return 0
        if first := reach.first[target] & ~shut:
            return first
        reach = self.reach(topic, depth, up=up, without=without - {target})
        return reach.first[target] & ~shut if _is_within(reach, target, depth) else 0

    def _merged(self, choices: Mapping[str, int]) -> dict[str, list[str]]:
        """A peer that is taken is so for all that are left and have a way by it; first those that must be."""
        left: dict[int, list[str]] = {}  # targets, by the peers that their ways begin with
        for target, first in choices.items():
            left.setdefault(first, []).append(target)
        assigned: dict[str, list[str]] = {}
        forced = 0
        for first in [first for first in left if not first & (first - 1)]:
            forced |= first
            assigned[self._peer(first)] = left.pop(first)
        for first in [first for first in left if first & forced]:
            assigned[self._peer(first & forced)] += left.pop(first)
        count: Counter[int] = Counter()
        for first, targets in left.items():
            for bit in _bits(first):
                count[bit] += len(targets)
        while left:
            chosen = max(count, key=lambda bit: (count[bit], -bit))
            taken = assigned[self._peer(chosen)] = []
            for first in [first for first in left if first & chosen]:
                taken += left[first]
                for bit in _bits(first):
                    count[bit] -= len(left[first])
                del left[first]
        return assigned

    def _peer(self, bits: int) -> str:
        """The first of these by name."""
        return self.peers[(bits & -bits).bit_length() - 1]


def _bits(of: int) -> Iterator[int]:
    while of:
        yield of & -of
        of &= of - 1


def _is_within(reach: Reach, site: str, depth: int) -> bool:
    distance = reach.hops.get(site, 0)
    return distance > 0 and within(distance, depth)
