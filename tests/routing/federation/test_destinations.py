"""A copy goes where it is wanted, once, on shortest ways."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.peering.copies import UNKNOWN, Open, PeerRules
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.sites import IN_NEWS, RouterFederation


def know_all(sites: RouterFederation, features: tuple[str, ...] = IN_NEWS) -> None:
    """All sites know the links and wants of all that tell them."""
    sites.begin_news(features)
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()


def on_shortest_ways(sites: RouterFederation, origin: str, depth: int, due: set[str]) -> int:
    """Links that a message has to cross."""
    sent, todo = 0, [(origin, sorted(due - {origin}), depth)]
    while todo:
        site, left, depth = todo.pop()
        ways = sites.routers[site].federation.topology.ways
        by_peer, nowhere = ways.assign([one for one in left if one != site], "t", depth)
        assert not nowhere
        sent += len(by_peer)
        todo += [(peer, some, depth - 1 if depth > 0 else depth) for peer, some in by_peer.items()]
    return sent


@settings(max_examples=examples(100), deadline=None)
@given(graphs(), st.integers(0, 2**32), st.integers(-1, 6), st.data())
def test_it_goes_over_shortest_ways_once(
    links: set[tuple[str, str]], seed: int, depth: int, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    know_all(sites)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.transfers = 0
    sites.publish(origin, depth=depth)
    sites.settle()
    due = sites.ball(origin, depth) & subscribed
    assert {site: n for (site, _), n in sites.delivered.items()} == dict.fromkeys(due, 1)
    assert sites.transfers == on_shortest_ways(sites, origin, depth, due)
    for name in sorted(due):
        sites.commit(name, "m")
    assert not any(router._state.entries for router in sites.routers.values())
    assert set(sites.final_records("m").values()) <= {1}


@settings(max_examples=examples(200), deadline=None)
@given(
    graphs(10),
    st.integers(0, 2**32),
    st.integers(-1, 5),
    st.sampled_from([None, 1e6]),
    st.sampled_from(["NONE", "ALL"]),
    st.lists(st.integers(0, 40), min_size=1, max_size=8),
    st.booleans(),
    st.data(),
)
def test_whatever_fails_it_arrives_once(
    links: set[tuple[str, str]],
    seed: int,
    depth: int,
    timeout_s: Any,
    receipt: Any,
    steps: list[int],
    mixed: Any,
    data: st.DataObject,
) -> None:
    whole = sorted(links)
    names = sorted({name for link in links for name in link})
    old = data.draw(st.sets(st.sampled_from(names), max_size=2)) if mixed else ()
    sites = RouterFederation(links, seed, old=old)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.subscribe(origin, f"x:publisher@{origin}", channel="publisher")
    know_all(sites)
    ball = sites.ball(origin, depth)
    sites.publish(origin, depth=depth, timeout_s=timeout_s, receipt=receipt)
    cut: set[tuple[str, str]] = set()
    for step in steps:
        sites.settle(step)
        link = data.draw(st.sampled_from(whole))
        if link in cut:
            sites.join(*link)
            cut.discard(link)
        else:
            sites.cut(*link)
            cut.add(link)
        if step % 3 == 0:
            sites.pass_time(2.0)
    for link in sorted(cut):
        sites.join(*link)
    sites.settle()
    for _ in range(3):
        sites.pass_time(3.0)
        sites.settle()
    due = ball & subscribed
    got = {site: n for (site, name), n in sites.delivered.items() if name == "m"}
    assert got == dict.fromkeys(due, 1)
    for name in sorted(due):
        sites.commit(name, "m")
        sites.settle()
    if receipt == "ALL":
        assert sites.receipts == [f"{len(due)}/{len(due)}"]
    for router in sites.routers.values():
        held = [copy for copy in router.federation.outlook.copies.values() if copy.entry.topic.name == "t"]
        assert not any(copy.destinations for copy in held)
        assert timeout_s or not held
    assert set(sites.final_records("m").values()) <= {1}


@settings(max_examples=examples(200), deadline=None)
@given(
    graphs(10),
    st.integers(0, 2**32),
    st.integers(-1, 5),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.data(),
)
def test_a_way_that_is_left_is_enough(
    links: set[tuple[str, str]], seed: int, depth: int, steps: list[int], data: st.DataObject
) -> None:
    """Links go, one after another and for good; who is within depth over those that are left has it."""
    sites = RouterFederation(links, seed)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    know_all(sites)
    ball = sites.ball(origin, depth)
    sites.publish(origin, depth=depth)
    left = sorted(links)
    for step in steps:
        sites.settle(step)
        if left:
            link = data.draw(st.sampled_from(left))
            left.remove(link)
            sites.cut(*link)
    for _ in range(6):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    still = sites.ball(origin, depth) & subscribed
    got = {site: n for (site, _), n in sites.delivered.items()}
    assert set(got.values()) <= {1}
    assert still <= got.keys() <= ball & subscribed


RING = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")}


@pytest.mark.parametrize("seed", range(40))
def test_a_broken_way_is_gone_round(seed: int) -> None:
    """However far the copy has come when the site next to where it began is gone for good."""
    sites = RouterFederation(RING, seed)
    sites.subscribe("d")
    know_all(sites)
    sites.publish("a", depth=-1)
    [copy] = sites.routers["a"].federation.outlook.copies.values()
    first = copy.destinations["d"].via
    sites.settle(seed % 8)
    for other in sorted(other for one, other in set(sites.links) if one == first):
        sites.cut(first, other)
    sites.pass_time(2.0)
    sites.settle()
    assert sites.delivered["d", "m"] == 1


def test_it_goes_back_over_a_site_that_it_came_through_where_there_is_no_other_way() -> None:
    links = {("a", "b"), ("b", "c"), ("b", "d"), ("a", "e"), ("d", "e"), ("a", "x"), ("c", "x")}
    sites = RouterFederation(links, 0)
    for name in "bcd":
        sites.subscribe(name)
    know_all(sites)
    sites.cut("b", "d")
    sites.cut("a", "e")
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("b", "m"): 1, ("c", "m"): 1}
    sites.cut("a", "b")
    sites.join("b", "d")
    sites.pass_time(3.0)
    sites.settle()
    assert sites.delivered["d", "m"] == 1
    assert not any(copy.destinations for copy in sites.routers["a"].federation.outlook.copies.values())


def test_what_nobody_else_wants_goes_nowhere() -> None:
    """Though peers tell, round the circle, of somebody: the site itself, where it begins."""
    sites = RouterFederation(RING, 0)
    sites.subscribe("a")
    know_all(sites)
    sites.transfers = 0
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("a", "m"): 1}
    assert not sites.transfers


def test_a_copy_has_one_hop_less_with_each_link() -> None:
    sites = RouterFederation(RING, 0)
    sites.subscribe("d")
    know_all(sites)
    sites.publish("a", depth=4)
    sites.settle()
    came = {record.peer: record.depth for _, record in sites.records_of("m", "received")}
    assert sorted(came.values()) == [1, 2, 3]


def test_destinations_that_the_store_does_not_tell_are_found_anew() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d")}, 0)
    for name in "cd":
        sites.subscribe(name)
    know_all(sites)
    sites.cut("b", "c")
    sites.cut("b", "d")
    sites.publish("a", depth=-1)
    sites.settle()
    [copy] = sites.routers["b"].federation.outlook.copies.values()
    sites.cut("a", "b")
    copy.destinations, copy.seen_to, copy.entry.due = {UNKNOWN: Open()}, frozenset(), 1
    copy.forwards.clear()
    copy.kept_back.clear()
    sites.join("b", "c")
    sites.join("b", "d")
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}
    sites.join("a", "b")
    sites.settle()
    for name in "cd":
        sites.commit(name, "m")
    assert not any(router._state.entries for router in sites.routers.values())


def test_who_will_not_have_a_copy_is_not_offered_it_with_each_change() -> None:
    """Its rules forbid it, of which the site before it has not heard."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "x")}, 0)
    sites.subscribe("c")
    know_all(sites)
    sites.routers["b"].federation.forwarding.peers["a"].rules = PeerRules(allow_in=("other",))
    sites.transfers = 0
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.transfers == 1
    for number in range(20):
        sites.subscribe("x", f"another{number}")
        sites.pass_time(3.0)
        sites.settle()
    assert sites.transfers <= 6


def test_who_knows_no_destinations_has_it_as_before() -> None:
    """Beyond an earlier version nothing is known of wants: it goes wherever peers tell that it is wanted."""
    sites = RouterFederation(RING, 0, old=("c",))
    for name in "cd":
        sites.subscribe(name)
    know_all(sites)
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}


def test_who_leaves_a_copy_unanswered_is_gone_round() -> None:
    """Its link is up, but it has no room for the copy, or no disk."""
    sites = RouterFederation({("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}, 0)
    sites.subscribe("d")
    know_all(sites)
    sites.publish("a", depth=2)
    [first] = [peer for peer in "bc" if sites.bulk["a", peer]]
    for _ in range(4):
        sites.bulk["a", first].clear()
        sites.settle()
        sites.pass_time(60.0)
    sites.bulk["a", first].clear()
    sites.settle()
    assert sites.delivered["d", "m"]


def test_a_site_that_names_one_as_its_peer_which_is_none_changes_nothing() -> None:
    sites = RouterFederation(
        {("a", "b"), ("b", "c"), ("a", "c")}, rules={("b", "a"): PeerRules(allow_out=("other",))}
    )
    sites.subscribe("c")
    know_all(sites)
    sites.cut("a", "b")
    sites.routers["a"].federation.remove_peer("b", sites.now)
    sites.take("a")
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}
