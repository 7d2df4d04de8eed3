"""What is published while a long backlog is given to another peer does not overtake it, on one path."""

import math

import pytest

from routing.federation import rerouting
from routing.peering.decisions import TellDestinations
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation

LINKS = {("u", "a"), ("a", "b"), ("b", "x"), ("a", "c"), ("c", "x"), ("a", "d"), ("d", "x")}
BACKLOG = 25


class InOrder(Federation):
    """Each link carries what was sent first, first."""

    def settle(self, at_most: float = math.inf) -> None:
        carried = 0
        while carried < at_most:
            carried += 1
            controls = [pair for pair, units in self.control.items() if units]
            bulk = [pair for pair, units in self.bulk.items() if units]
            if not controls and not bulk:
                return
            one, other = (controls or bulk)[0]
            unit = self.control[one, other].popleft() if controls else self.bulk[one, other].pop(0)
            self._arrive(one, other, unit)
            self.take(other)

    def carry(self, one: str, other: str) -> None:
        """What is under way to one peer, and nothing else."""
        while self.bulk[one, other]:
            self._arrive(one, other, self.bulk[one, other].pop(0))
            self.take(other)


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> InOrder:
    """A backlog at a that waits for the link to one of b, c and d; ten copies are looked at in one go."""
    monkeypatch.setattr(rerouting, "AT_ONCE", 10)
    sites = InOrder(LINKS)
    for topic in ("t", "other"):
        sites.subscribe("x", topic)
    know_all(sites)
    for peer in "bcd":
        sites.cut("a", peer)
    sites.settle()
    for number in range(BACKLOG):
        sites.publish("u", f"m{number:02}", depth=-1)
    sites.settle()
    return sites


def _those_that_it_does_not_wait_for(sites: InOrder) -> list[str]:
    [*_, copy] = sites.routers["a"].federation.outlook.copies.values()
    return [peer for peer in "bcd" if peer != copy.destinations["x"].via]


def _assert_in_order(sites: InOrder, last: str) -> None:
    for _ in range(BACKLOG):
        sites.take("a")
    sites.settle()
    names = [name for _, name in sites.delivered]
    assert names == sorted(names)
    assert names[-1] == last
    assert len(names) == BACKLOG + (last == "m99")


def test_what_comes_meanwhile_comes_after_the_backlog(sites: InOrder) -> None:
    sites.join("a", _those_that_it_does_not_wait_for(sites)[0])
    sites.publish("u", "m99", depth=-1)
    sites.carry("u", "a")
    _assert_in_order(sites, "m99")


def test_what_is_published_meanwhile_comes_after_the_backlog(sites: InOrder) -> None:
    sites.join("a", _those_that_it_does_not_wait_for(sites)[0])
    sites.publish("a", "m99", depth=-1)
    _assert_in_order(sites, "m99")


def test_a_backlog_whose_way_breaks_while_it_is_given_to_a_peer_goes_to_another_from_its_beginning(
    sites: InOrder,
) -> None:
    one, other = _those_that_it_does_not_wait_for(sites)
    sites.join("a", one)
    sites.cut("a", one)
    sites.join("a", other)
    _assert_in_order(sites, f"m{BACKLOG - 1}")


def test_another_topic_does_not_wait_for_a_backlog(sites: InOrder) -> None:
    peer, _ = _those_that_it_does_not_wait_for(sites)
    sites.join("a", peer)
    sites.publish("a", "m", "other", depth=-1)
    assert any(arrival.topic == "other" for _, arrival in sites.bulk["a", peer])


def test_what_a_peer_still_sees_to_is_asked_in_pieces(sites: InOrder) -> None:
    sites.cut("d", "x")
    sites.cut("c", "x")
    sites.cut("b", "x")
    sites.join("a", "b")
    _take_and_settle(sites)
    sites.cut("a", "b")
    sites.join("a", "b")
    assert 0 < _asked(sites) <= 10
    for _ in range(BACKLOG):
        sites.take("a")
    assert _asked(sites) == BACKLOG


def _take_and_settle(sites: InOrder) -> None:
    for _ in range(BACKLOG):
        sites.take("a")
        sites.settle()


def _asked(sites: InOrder) -> int:
    told = [told for told in sites.control["a", "b"] if isinstance(told, TellDestinations)]
    return sum(len(each.sites) for each in told if each.word == "still")
