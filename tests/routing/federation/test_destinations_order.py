"""What is published later does not overtake what waits, on one path or while that is given elsewhere."""

import math

import pytest

from routing.federation import rerouting
from routing.peering.decisions import TellDestinations
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation

LINKS = {("u", "a"), ("a", "b"), ("b", "x"), ("a", "c"), ("c", "x"), ("a", "d"), ("d", "x")}
BACKLOG = 25


class InOrder(RouterFederation):
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

    def talk(self) -> None:
        """What sites tell each other is carried, and no message."""
        while told := [pair for pair, units in self.control.items() if units]:
            one, other = told[0]
            self._arrive(one, other, self.control[one, other].popleft())
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


def test_what_is_published_while_others_are_taken_from_a_peer_that_comes_back_comes_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rerouting, "AT_ONCE", 10)
    sites = InOrder(LINKS)
    sites.subscribe("x", "t")
    know_all(sites)
    for number in range(BACKLOG):
        sites.publish("a", f"m{number:02}", depth=-1)
    [*_, last] = sites.routers["a"].federation.outlook.copies.values()
    via = last.destinations["x"].via
    sites.cut("a", via)
    assert last.destinations["x"].via == via  # while those before it are given to another peer
    sites.publish("a", "m99", depth=-1)
    sites.join("a", via)
    _assert_in_order(sites, "m99")


def test_a_backlog_whose_way_breaks_while_it_is_given_to_a_peer_goes_to_another_from_its_beginning(
    sites: InOrder,
) -> None:
    one, other = _those_that_it_does_not_wait_for(sites)
    sites.join("a", one)
    sites.cut("a", one)
    sites.join("a", other)
    _assert_in_order(sites, f"m{BACKLOG - 1}")


def test_who_follows_what_is_under_way_takes_all_along_that_may_be_on_its_way() -> None:
    links = {("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("t", "u"), ("a", "v")}
    sites = InOrder(links)
    sites.subscribe("t", "t")
    know_all(sites)
    sites.cut("s", "a")
    sites.publish("s", "m0", depth=-1)
    sites.join("s", "a")
    for site in "uv":
        sites.subscribe(site, "t")
    sites.talk()
    sites.pass_time(3.0)
    sites.talk()
    sites.publish("s", "m1", depth=-1)
    sites.settle()
    assert sites.delivered == dict.fromkeys([("t", "m0"), *((site, "m1") for site in "tuv")], 1)
    assert sites.transfers == 2 + 5, "m0 by way of b, and m1 with one copy over each link"


def test_of_a_backlog_that_waits_for_its_turn_a_peer_may_have_what_was_sent_before(sites: InOrder) -> None:
    outlook = sites.routers["a"].federation.outlook
    [*_, last] = outlook.copies.values()
    via = last.destinations["x"].via
    known = []
    for _ in range(2):
        sites.join("a", via)
        [one] = outlook.unanswered(last.smuid)
        known.append((one.peer, one.may_have, one.attempt))
        for _ in range(BACKLOG):
            sites.take("a")
        sites.cut("a", via)
    assert known == [(via, False, 0), (via, True, 1)]


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


OLD_WAY = ("f", "z")
"""f has a link with z, which says nothing of itself: while that is up, all goes wherever it is wanted."""


def _know_all_but_the_old_one(sites: InOrder) -> None:
    sites.cut(*OLD_WAY)
    know_all(sites)


def _one_of_two_ways_is_cut() -> InOrder:
    """From a to x there are b and c, as short; a has lost b, and m1 waits for c."""
    sites = InOrder({("a", "b"), ("b", "x"), ("a", "c"), ("c", "x")})
    sites.subscribe("x")
    know_all(sites)
    sites.cut("a", "b")
    sites.settle()
    sites.publish("a", "m1", depth=-1)
    return sites


def test_of_two_ways_that_are_as_short_what_comes_later_takes_that_on_which_others_are() -> None:
    sites = _one_of_two_ways_is_cut()
    sites.carry("a", "c")
    sites.join("a", "b")
    _carry_controls(sites)
    sites.publish("a", "m2", depth=-1)
    sites.carry("a", "b")
    sites.carry("b", "x")
    sites.cut("c", "x")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    assert [name for _, name in sites.delivered] == ["m1", "m2"]


def test_once_nothing_waits_the_way_is_taken_that_most_can_share() -> None:
    sites = _one_of_two_ways_is_cut()
    sites.join("a", "b")
    sites.settle()
    sites.publish("a", "m2", depth=-1)
    assert sites.bulk["a", "b"]


def test_what_was_named_goes_before_what_went_wherever_it_is_wanted_when_the_link_comes_up() -> None:
    sites = InOrder({("a", "b"), ("a", "f"), ("b", "f"), OLD_WAY}, old=("z",))
    sites.subscribe("b")
    _know_all_but_the_old_one(sites)
    sites.cut("a", "b")
    _carry_controls(sites)
    sites.publish("a", "m1", depth=-1)
    sites.carry("a", "f")
    sites.join(*OLD_WAY)
    sites.pass_time(3.0)
    _carry_controls(sites)
    sites.publish("a", "m2", depth=-1)
    assert [copy.seen_to for copy in sites.routers["a"].federation.outlook.copies.values()][1] is None
    sites.join("a", "b")
    sites.carry("a", "b")
    assert [name for _, name in sites.delivered] == ["m1", "m2"]


def test_what_goes_wherever_it_is_wanted_comes_after_the_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerouting, "AT_ONCE", 10)
    sites = InOrder({*LINKS, ("u", "f"), OLD_WAY}, old=("z",))
    sites.subscribe("x")
    _know_all_but_the_old_one(sites)
    for peer in "bcd":
        sites.cut("a", peer)
    sites.settle()
    for number in range(BACKLOG):
        sites.publish("u", f"m{number:02}", depth=-1)
    sites.settle()
    sites.join(*OLD_WAY)
    sites.pass_time(3.0)
    sites.settle()
    sites.join("a", _those_that_it_does_not_wait_for(sites)[0])
    sites.publish("a", "m99", depth=-1)
    [*_, copy] = sites.routers["a"].federation.outlook.copies.values()
    assert copy.seen_to is None
    _assert_in_order(sites, "m99")


def _carry_controls(sites: InOrder) -> None:
    while busy := [pair for pair, told in sites.control.items() if told]:
        one, other = busy[0]
        sites._arrive(one, other, sites.control[one, other].popleft())
        sites.take(other)
