"""Interest over random graphs: what sites tell each other, in any order, ends in the true distances."""

import random
from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.federation.extent import DETOUR_LINKS
from routing.peering.wants import Want
from tests.support.interest import alone

WANT: Want = ("ALL", "news")


class Sites:
    """Sites joined by links over which changes travel when told to, in order on each link."""

    def __init__(self, links: set[tuple[str, str]], seed: int) -> None:
        self.random = random.Random(seed)
        self.names = sorted({name for link in links for name in link})
        known = {name: alone(name) for name in self.names}
        self.sites = {name: interest for name, (interest, _) in known.items()}
        self.telling = {name: telling for name, (_, telling) in known.items()}
        self.links: set[frozenset[str]] = set()
        self.under_way: dict[tuple[str, str], deque[Any]] = {}
        for link in sorted(links):
            self.join(*link)

    def join(self, a: str, b: str) -> None:
        self.links.add(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self.under_way[one, other] = deque()
            self.telling[one].link_up(other)

    def cut(self, a: str, b: str) -> None:
        self.links.discard(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            del self.under_way[one, other]
            self.telling[one].link_down(other)
            self.sites[one].peer_removed(other)

    def settle(self) -> int:
        """Carry all that is to be told, links in random order; the number of changes carried."""
        carried = 0
        while True:
            for name, telling in self.telling.items():
                for peer in telling.untold:
                    if changes := telling.tell(peer):
                        self.under_way[name, peer].append(changes)
            busy = [pair for pair, changes in self.under_way.items() if changes]
            if not busy:
                return carried
            one, other = self.random.choice(busy)
            changes = self.under_way[one, other].popleft()
            carried += len(changes)
            self.sites[other].hear(one, changes)

    def true_distance(self, start: str, without: str, wanting: set[str]) -> int | None:
        """Links from `start` to the nearest wanting site, never over `without`."""
        seen, edge = {start, without}, [start]
        for distance in range(len(self.names)):
            if any(name in wanting for name in edge):
                return distance
            edge = [
                n for n in self.names if n not in seen and any(frozenset((n, e)) in self.links for e in edge)
            ]
            seen.update(edge)
        return None

    def farthest(self, start: str) -> int:
        """Links to the site that is farthest away."""
        distances = (self.true_distance(start, "", {name}) for name in self.names)
        return max(distance for distance in distances if distance is not None)

    def check_distances(self, wanting: set[str]) -> None:
        """Nobody believes a wanting site to be further than it is, or that there is one where none is."""
        for link in self.links:
            for name, peer in (tuple(link), tuple(link)[::-1]):
                told = self.sites[name].distance(peer, WANT)
                true = self.true_distance(peer, name, wanting)
                if true is not None and true < 2 * self.farthest(name) + DETOUR_LINKS:
                    assert told is not None
                    assert told <= true
                elif self.true_distance(peer, "", wanting) is None:
                    assert told is None


@st.composite
def graphs(draw: Any) -> Any:
    count = draw(st.integers(2, 8))
    names = [f"s{n:02}" for n in range(count)]
    tree = {(names[draw(st.integers(0, n - 1))], names[n]) for n in range(1, count)}
    more = draw(st.sets(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=count))
    return tree | {tuple(sorted(pair)) for pair in more if pair[0] != pair[1]}


@given(graphs(), st.integers(0, 2**32), st.data())
def test_no_wanting_site_is_believed_to_be_further_than_it_is(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    sites = Sites(links, seed)
    wanting = data.draw(st.sets(st.sampled_from(sites.names)))
    for name in wanting:
        sites.sites[name].set_own(WANT, True)
    sites.settle()
    sites.check_distances(wanting)


@given(st.integers(2, 12), st.integers(0, 2**32), st.data())
def test_in_a_tree_every_distance_is_the_true_one(count: int, seed: int, data: st.DataObject) -> None:
    names = [f"s{n:02}" for n in range(count)]
    sites = Sites({(names[data.draw(st.integers(0, n - 1))], names[n]) for n in range(1, count)}, seed)
    wanting = data.draw(st.sets(st.sampled_from(names)))
    for name in wanting:
        sites.sites[name].set_own(WANT, True)
    sites.settle()
    for link in sites.links:
        for name, peer in (tuple(link), tuple(link)[::-1]):
            assert sites.sites[name].distance(peer, WANT) == sites.true_distance(peer, name, wanting)


@given(graphs(), st.integers(0, 2**32), st.data())
def test_what_nobody_wants_any_more_is_forgotten_everywhere(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    sites = Sites(links, seed)
    wanting = data.draw(st.sets(st.sampled_from(sites.names), min_size=1))
    for name in wanting:
        sites.sites[name].set_own(WANT, True)
    sites.settle()
    for name in wanting:
        sites.sites[name].set_own(WANT, False)
    sites.settle()
    assert all(not site.distances(WANT) for site in sites.sites.values())


def test_a_want_that_has_gone_is_told_no_further_than_any_way_could_be_long() -> None:
    names = [f"s{n:02}" for n in range(12)]
    circle = {(a, b) for a, b in zip(names, [*names[1:], names[0]], strict=True)}
    sites = Sites(circle | {(names[0], names[6])}, 1)
    sites.settle()
    sites.sites["s03"].set_own(WANT, True)
    come = sites.settle()
    sites.sites["s03"].set_own(WANT, False)
    gone = sites.settle()
    assert come < 2 * 2 * len(sites.links)
    assert gone < 12 * 2 * len(sites.links)


@given(graphs(), st.integers(0, 2**32), st.data())
def test_links_that_come_and_go_leave_no_distance_too_great(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    sites = Sites(links, seed)
    wanting = data.draw(st.sets(st.sampled_from(sites.names), min_size=1))
    for name in wanting:
        sites.sites[name].set_own(WANT, True)
    for link in data.draw(st.lists(st.sampled_from(sorted(links)), max_size=6)):
        if data.draw(st.booleans()):
            sites.settle()
        sites.cut(*link) if frozenset(link) in sites.links else sites.join(*link)
    sites.settle()
    sites.check_distances(wanting)


def test_a_peer_is_told_only_what_has_changed() -> None:
    sites = Sites({("a", "b"), ("b", "c")}, 0)
    sites.sites["c"].set_own(WANT, True)
    sites.settle()
    sites.sites["c"].set_own(("ALL", "weather"), True)
    assert [change.name for change in sites.telling["c"].tell("b")] == ["weather"]
    assert sites.telling["c"].tell("b") == []


def test_servers_can_be_reached_by_name_over_the_nearest_peer() -> None:
    sites = Sites({("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c")}, 0)
    sites.settle()
    assert sites.sites["a"].distances(("SERVER", "c")) == {"b": 1, "d": 2}
