"""How far from each peer the nearest site is that wants something, by what all sites say of themselves.

News says who wants what, and which links there are; what follows from that nobody need be told. So peers that
know it tell each other of wants only what it does not explain, see `interest`.

Over sites that say something of themselves, and links whose rules and `depth_max` let a message pass, but
not back over this site. A message of mode ONE goes only over links that are up at both ends, and not by a
peer whose link is down once the news of this site says so; one for an account likewise, where there is such a
way. Others wait before a link that is down.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from itertools import product, starmap, zip_longest
from typing import Final

import msgspec

from routing.federation.link_graph import OPEN, Shut
from routing.federation.topology import Topology
from routing.federation.wants_by_name import Touched
from routing.federation.ways import NOBODY
from routing.patterns import is_pattern
from routing.peering.leaves import TOPIC_BUCKETS, bucket_of
from routing.peering.wants import KINDS, Said, Want, WantKind, is_of_pattern

FOUND_MAX: Final = 256
"""Remembered of each bucket of topics, and of servers."""

_SERVERS: Final = TOPIC_BUCKETS
"""In the place of the number of a bucket."""

_NOWHERE: Final[Mapping[str, int]] = {}


class _Seen(msgspec.Struct, frozen=True):
    """What `moved` compares: who says something, how far they are, and whether links have topic rules."""

    sites: frozenset[str]
    reached: dict[WantKind, list[Mapping[str, int]]]
    has_rules: bool


_UP: Final[Mapping[WantKind, tuple[bool, ...]]] = {"ALL": (False,), "ONE": (True,), "SERVER": (True, False)}
"""For wants of each kind, which ways to who has them count: those over links that are up, or all, or both."""

_NOTHING: Final = _Seen(NOBODY, {kind: [] for kind in KINDS}, False)


class EverySite:
    """Holds the names of all sites."""

    def __contains__(self, site: object) -> bool:
        return True


EVERY_SITE: Final = EverySite()


class NearestByNews:
    """Finds them.

    Attributes:
        peers: of this site, by name.
    """

    def __init__(self, server: str, peers: Collection[str], topology: Topology) -> None:
        self.peers = peers
        self._server = server
        self._topology = topology
        self._version = -1  # of the topology
        self._complete = -1, False  # at that version of it
        self._looked_at = -1  # at that version of it
        self._from_peers: dict[tuple[str, WantKind], Mapping[str, int]] = {}
        self._had_rules = False  # links, when these were looked at
        self._seen: dict[str, _Seen] = {}  # by peer, when `moved` was asked last
        self._found: list[dict[Said, dict[str, int]]] = [{} for _ in range(TOPIC_BUCKETS + 1)]
        topology.listeners.append(self._wants_changed)

    def distances(self, want: Want) -> Mapping[str, int]:
        """Links from each peer to the nearest site that wants this, by peer; 0 is the peer itself.

        Of mode ALL also to one of which it is not known whether it does, as a bucket of its is not here.
        """
        kind, name = want
        if is_of_pattern(want):
            return self._distances(want, self._wanting(want))
        remembered = self._remembered(_SERVERS if kind == "SERVER" else bucket_of(name))
        found = remembered.get(want)
        if found is None:
            wanting = self._wanting(want)
            if kind == "ALL":
                wanting = self._topology.wants.unsure(name).union(wanting)
            found = _remember(remembered, want, self._distances(want, wanting))
        return found

    def to_attached(self, topic: str) -> Mapping[str, int]:
        """Distances as of `distances`, of mode ONE, to sites alone where somebody is attached."""
        remembered = self._remembered(bucket_of(topic))
        found = remembered.get(("ATTACHED", topic))
        if found is None:
            attached = self._topology.wants.attached(topic)
            found = _remember(remembered, ("ATTACHED", topic), self._distances(("ONE", topic), attached))
        return found

    def _remembered(self, bucket: int) -> dict[Said, dict[str, int]]:
        """What has been found of a bucket and holds still."""
        if self._version != self._topology.version:
            self._version = self._topology.version
            for each in self._found:
                each.clear()
        return self._found[bucket]

    def distances_without(self, want: Want, sites: Container[str]) -> Mapping[str, int]:
        """Distances as of `distances`, if these sites did not want it."""
        return self._distances(want, [site for site in self._wanting(want) if site not in sites])

    def distance(self, peer: str, want: Want) -> int | None:
        """Links from one peer, as of `distances`, to those alone that are known to want it."""
        sites = self._wanting(want)
        return self._distance(peer, want, sites, self._shut(want)) if sites else None

    def is_beyond(self, peer: str, want: Want) -> bool:
        """Whether a site that wants something could be reached over a peer if links had no rules."""
        reached = self._topology.ways.beyond(peer, OPEN, up=want[0] == "ONE", is_bounded=False)
        return not reached.keys().isdisjoint(self._wanting(want))

    def is_wanted(self, want: Want) -> bool:
        """Whether another site says this very want, however far it is."""
        return bool(self._saying(want))

    def explains(self, peer: str, want: Want, distance: int, to: str) -> bool:
        """Whether a site says this very want that is known to be no further than so many links from a peer.

        And is so for another peer, `to`: it is not that one, nor reached over it.
        """
        saying = self._saying(want)
        if not saying:
            return False
        # a pattern may be wanted beyond a link whose rules let a part of it pass, and not the rest
        shut = self._topology.ways.links.limited if is_of_pattern(want) else self._shut(want)
        nearest = self._distance(peer, want, saying, shut, frozenset((to,)))
        return nearest is not None and nearest <= distance

    def from_here(self, want: Want, to: str, refused: frozenset[str], *, by_pattern: bool) -> int | None:
        """Links to the nearest site that wants something, not over the peer that is told of it.

        If that refuses news, then of those sites that it does not know, or not that they are so near.

        To a server over links that are up where there is such a way from here, be it by that very peer: so
        go messages that are here, and what the peer sent towards a link that is down would come back to it.

        `by_pattern`: also to those that want a topic by a pattern, and not by its name.
        """
        wanting = self._wanting(want) if by_pattern else self._saying(want)
        if not wanting:
            return None
        shut, theirs, up = self._shut(want), _NOWHERE, self._goes_over_links_up(want)
        known = self._beyond(self._server, want[0], shut, frozenset((to,)), up=up)
        if refused and self._server not in refused:
            theirs = self._beyond(self._server, want[0], shut, refused | {to}, up=up)
        return min(
            (known[site] for site in wanting if site in known and theirs.get(site) != known[site]),
            default=None,
        )

    @property
    def is_complete(self) -> bool:
        """Whether all sites that are known to be there say what they want."""
        if self._complete[0] != self._topology.version:
            self._complete = self._topology.version, not (self._topology.sites and self._is_one_silent())
        return self._complete[1]

    def _is_one_silent(self) -> bool:
        tells, links = self._topology.wants.tells, self._topology.ways.links
        silent = (site for site in links.sites if site != self._server and not tells(site))
        return any(map(links.is_linked, silent))

    def moved(self, peer: str, refused: frozenset[str]) -> Iterator[Want]:
        """What may be nearer, not over a peer, than when this was asked last, or further, or is new.

        For this site, or for the peer, which refuses news.
        """
        if not self._topology.sites and peer not in self._seen:
            return
        ways, before, apart = self._topology.ways, self._seen.get(peer, _NOTHING), frozenset((peer,))
        reached = {
            kind: [
                _NOWHERE
                if self._server in without
                else self._beyond(self._server, kind, OPEN, without, up=up)
                for without, up in product((apart, refused | apart), _UP[kind])
            ]
            for kind in KINDS
        }
        reached["SERVER"].append(self._up_to_servers())
        now = self._seen[peer] = _Seen(frozenset(self._topology.sites), reached, bool(ways.links.limited))
        new = before.sites ^ now.sites
        moved = {kind: new.union(*_moved(before.reached[kind], now.reached[kind])) for kind in KINDS}
        if before.has_rules or now.has_rules:  # by which each topic has other ways
            moved["ALL"] = moved["ONE"] = new.union(*before.reached["SERVER"], *now.reached["SERVER"])
        yield from (("SERVER", site) for site in moved["SERVER"] if site != self._server)
        wants = self._topology.wants
        yield from (want for want in wants.wants_of(moved["ALL"]) if want[0] == "ALL")
        yield from (want for want in wants.wants_of(moved["ONE"]) if want[0] == "ONE")

    def look(self) -> Mapping[tuple[str, WantKind], Mapping[str, int]]:
        """Remember how far all is from peers now, for `has_moved`; how far it was."""
        before = self._from_peers
        if self._looked_at != self._topology.version:
            self._looked_at, ways = self._topology.version, self._topology.ways
            self._had_rules = bool(ways.links.limited)
            self._from_peers = {
                (peer, kind): self._beyond(peer, kind, OPEN, up=kind == "ONE")
                for peer in self.peers
                for kind in KINDS
            }
        return before

    def has_moved(self) -> Callable[[Want], bool]:
        """Whether who wants something may be nearer to a peer than after `look`, or further."""
        had_rules, before = self._had_rules, self.look()
        if had_rules or self._had_rules:  # by which each topic has other ways
            return lambda want: True
        moved: dict[WantKind, set[str]] = {kind: set() for kind in KINDS}
        for key in before.keys() | self._from_peers.keys():
            moved[key[1]] |= _differing(before.get(key, _NOWHERE), self._from_peers.get(key, _NOWHERE))
        return lambda want: not moved[want[0]].isdisjoint(self._saying(want))

    def forget(self, peer: str) -> None:
        """Forget what `moved` was told of a peer."""
        self._seen.pop(peer, None)

    def wants_of(self, sites: Container[str]) -> Iterator[Want]:
        """What these sites are known to want, and the sites themselves."""
        yield from self._topology.wants.wants_of(sites)
        for site in self._topology.sites:
            if site in sites and site != self._server:
                yield "SERVER", site

    def tells(self, site: str) -> bool:
        """Whether a site says what it wants."""
        return self._topology.wants.tells(site)

    def is_taken_by_pattern(self, topic: str) -> bool:
        """Whether another site wants a pattern that takes a topic."""
        return self._topology.wants.is_taken_by_pattern(topic)

    def extent(self) -> tuple[Collection[str], int]:
        """The other sites that there are, as they or their peers say, and links to the farthest.

        For messages that no link stops that stops any, if that is further.
        """
        if not self._topology.sites:
            return (), 0
        ways = self._topology.ways
        distances = ways.distances(self._server)
        farthest = max(distances.values())
        for shut in (OPEN, ways.links.limited) if ways.links.stop_some else ():
            round_about = ways.beyond(self._server, shut, up=False)
            farthest = max(farthest, *round_about.values())
        return distances.keys() - {self._server}, farthest

    def _wanting(self, want: Want) -> Collection[str]:
        """The sites that want it, a topic also by a pattern."""
        kind, name = want
        if kind == "SERVER" or is_pattern(name):
            return self._saying(want)
        return self._topology.wants.wanting(kind, name)

    def _saying(self, want: Want) -> Collection[str]:
        """The sites that say this very want."""
        kind, name = want
        if kind == "SERVER":
            return (name,) if name != self._server and self._topology.has_news(name) else ()
        return self._topology.wants.wanting_by_name(kind, name)

    def _distances(self, want: Want, sites: Collection[str]) -> dict[str, int]:
        if not sites:
            return {}
        found = self._distances_over(want, sites, up=want[0] != "ALL")
        if not found and want[0] == "SERVER":
            return self._distances_over(want, sites, up=False)
        return found

    def _distances_over(self, want: Want, sites: Collection[str], *, up: bool) -> dict[str, int]:
        """From the sites to all peers, or from the peers to all sites, whatever is less work."""
        shut, ways, is_said_down = self._shut(want), self._topology.ways, self._topology.is_said_down
        peers = [peer for peer in self.peers if (self._server, peer) not in shut]
        if up:
            peers = [peer for peer in peers if not is_said_down(peer)]
        found = {peer: 0 for peer in peers if peer in sites}
        others, is_bounded = [peer for peer in peers if peer not in found], want[0] != "SERVER"
        if len(sites) <= len(others):
            towards = [ways.towards(site, shut, up=up, is_bounded=is_bounded) for site in sites]
            nearest = (min((each[peer] for each in towards if peer in each), default=None) for peer in others)
            known = [
                (peer, distance)
                for peer, distance in zip(others, nearest, strict=True)
                if distance is None or not is_bounded or ways.may_go_on(peer, distance)
            ]
        else:
            reached = (ways.beyond(peer, shut, up=up, is_bounded=is_bounded) for peer in others)
            known = [(peer, _nearest(each, sites)) for peer, each in zip(others, reached, strict=True)]
        found.update((peer, distance) for peer, distance in known if distance is not None)
        return found

    def _shut(self, want: Want) -> Shut:
        """The links that are shut to a want; none to a pattern: their rules may let a part of it pass."""
        return OPEN if want[0] == "SERVER" or is_of_pattern(want) else self._topology.ways.links.shut(want[1])

    def _distance(
        self,
        start: str,
        want: Want,
        sites: Collection[str],
        shut: Shut,
        without: frozenset[str] = NOBODY,
    ) -> int | None:
        return _nearest(self._beyond(start, want[0], shut, without, up=want[0] == "ONE"), sites)

    def _beyond(
        self, start: str, kind: WantKind, shut: Shut, without: frozenset[str] = NOBODY, *, up: bool
    ) -> Mapping[str, int]:
        """Links to what a message can reach that is for a want of this kind; see `Ways.beyond`."""
        is_bounded = kind != "SERVER"
        return self._topology.ways.beyond(start, shut, up=up, without=without, is_bounded=is_bounded)

    def is_passed_by(self, peer: str, want: Want) -> bool:
        """Whether messages for a server go by others, as the link with a peer is down, and news says so."""
        return want[0] == "SERVER" and self._topology.is_said_down(peer) and self._goes_over_links_up(want)

    def _goes_over_links_up(self, want: Want) -> bool:
        """Whether a message for it goes from here over links that are up at both ends, and over no others."""
        kind, name = want
        return kind == "ONE" or (kind == "SERVER" and name in self._up_to_servers())

    def _up_to_servers(self) -> Mapping[str, int]:
        """Links to each site to which all on the way are up."""
        return self._beyond(self._server, "SERVER", OPEN, up=True)

    def _wants_changed(self, touched: Touched) -> None:
        buckets = touched.buckets.union(map(bucket_of, touched.names), map(bucket_of, touched.names_for_one))
        if any(bucket >= TOPIC_BUCKETS for bucket in buckets):
            buckets = set(range(TOPIC_BUCKETS))
        for bucket in buckets:
            self._found[bucket].clear()


def _remember(remembered: dict[Said, dict[str, int]], said: Said, found: dict[str, int]) -> dict[str, int]:
    if len(remembered) >= FOUND_MAX:
        remembered.clear()
    remembered[said] = found
    return found


def _nearest(reached: Mapping[str, int], sites: Collection[str]) -> int | None:
    return min((reached[site] for site in sites if site in reached), default=None)


def _moved(before: list[Mapping[str, int]], now: list[Mapping[str, int]]) -> Iterator[set[str]]:
    return starmap(_differing, zip_longest(before, now, fillvalue=_NOWHERE))


def _differing(one: Mapping[str, int], other: Mapping[str, int]) -> set[str]:
    """The sites that are not as far in both."""
    return {site for site, _ in one.items() ^ other.items()}
