"""Topic rules and `depth_max` of links bound where a copy with destinations goes, both ways round."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.patterns import topic_matches
from routing.peering.copies import PeerRules, capped, onward, wider
from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.sites import RouterFederation
from tests.support.wants import after

Links = set[tuple[str, str]]
Rules = dict[tuple[str, str], PeerRules]

ALLOWED = [("#",), ("#",), ("t", "x.#"), ("u",)]
DEPTHS_MAX = [-1, 0, 1, 2, 3]


def drawn(links: Links, chance: random.Random) -> Rules:
    """Some ends of links have rules."""
    return {
        end: PeerRules(
            allow_in=chance.choice(ALLOWED),
            allow_out=chance.choice(ALLOWED),
            depth_max=chance.choice(DEPTHS_MAX),
        )
        for a, b in sorted(links)
        for end in ((a, b), (b, a))
        if chance.random() < 0.3
    }


def within_rules(links: Links, rules: Rules, origin: str, depth: int) -> set[str]:
    """The sites that a message to `t` may come to."""
    neighbours: dict[str, list[str]] = {}
    for a, b in links:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    left, todo = {origin: depth}, [origin]
    for site in todo:
        going = onward(left[site])
        if going is None:
            continue
        for peer in neighbours[site]:
            here, there = rules.get((site, peer), PeerRules()), rules.get((peer, site), PeerRules())
            if not (lets_pass(here.allow_out) and lets_pass(there.allow_in)):
                continue
            coming = capped(going, there.depth_max)
            if peer not in left or wider(coming, left[peer]):
                left[peer] = coming
                todo.append(peer)
    return set(left)


def lets_pass(allowed: tuple[str, ...]) -> bool:
    return any(topic_matches(pattern, "t") for pattern in allowed)


@settings(max_examples=examples(150), deadline=None)
@given(
    graphs(9),
    st.integers(0, 2**32),
    st.integers(-1, 5),
    st.lists(st.integers(0, 40), max_size=8),
    st.data(),
)
def test_it_comes_to_all_and_to_nobody_else_whatever_fails(
    links: Links, seed: int, depth: int, steps: list[int], data: st.DataObject
) -> None:
    rules = drawn(links, random.Random(seed))
    sites = RouterFederation(links, seed, rules=rules)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.subscribe(origin, f"x:publisher@{origin}", channel="publisher")
    know_all(sites)
    sites.publish(origin, depth=depth, receipt="ALL")
    cut: Links = set()
    for step in steps:
        sites.settle(step)
        link = data.draw(st.sampled_from(sorted(links)))
        if link in cut:
            sites.join(*link)
        else:
            sites.cut(*link)
        cut ^= {link}
        if step % 3 == 0:
            sites.pass_time(2.0)
    for link in sorted(cut):
        sites.join(*link)
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    due = within_rules(links, rules, origin, depth) & subscribed
    assert {site: n for (site, name), n in sites.delivered.items() if name == "m"} == dict.fromkeys(due, 1)
    for name in sorted(due):
        sites.commit(name, "m")
        sites.settle()
    assert sites.receipts == [f"{len(due)}/{len(due)}"]
    assert set(sites.final_records("m").values()) <= {1}


@pytest.mark.parametrize("seed", range(3))
def test_a_late_subscriber_who_may_not_have_it_is_not_waited_for(seed: int) -> None:
    """While b's rules of a topic come that has begun to be wanted, a takes them for none."""
    sites = RouterFederation({("a", "b"), ("b", "e")}, seed, rules={("b", "e"): PeerRules(allow_out=("u",))})
    gone = sites.subscribe("b")
    know_all(sites)
    sites.routers["b"].subscribing.unsubscribe(sites.now, gone, "t", "", None)
    sites.publish("a", depth=3, timeout_s=1e6)
    for seconds in (3.0, 60.0, 60.0, 60.0):
        sites.settle()
        sites.pass_time(seconds)
    for name in "abe":
        sites.subscribe(name, channel="late", lock_s=1e9)
    for seconds in (3.0, 3.0, 60.0, 60.0):
        sites.settle()
        sites.pass_time(seconds)
    sites.settle()
    assert sites.delivered == {("a", "m"): 1, ("b", "m"): 1}
    for name in "abe":
        assert not any(copy.destinations for copy in sites.routers[name].federation.outlook.copies.values())
    rules = {"a": PeerRules(), "e": PeerRules()}
    sites.routers["b"].federation.set_peers(sites.now, rules)
    sites.take("b")
    for _ in range(2):
        sites.settle()
        sites.pass_time(3.0)
    sites.settle()
    assert sites.delivered == {("a", "m"): 1, ("b", "m"): 1, ("e", "m"): 1}


@pytest.mark.parametrize("closes", ["a", "b"])
def test_a_late_subscriber_that_rules_put_out_of_reach_is_waited_for_no_more(closes: str) -> None:
    """E has come to want it, and a sees to that, when the link breaks before it has come there."""
    sites = RouterFederation({("a", "b"), ("b", "e")})
    know_all(sites)
    sites.publish("a", depth=3, timeout_s=1e6)
    for _ in range(3):
        after(sites, 60.0)
    sites.subscribe("e", lock_s=1e9)
    [copy] = sites.routers["a"].federation.outlook.copies.values()
    while not copy.destinations:
        sites.settle(1)
    sites.cut("b", "e")
    closed = PeerRules(allow_out=("u",))
    rules = {"a": {"b": closed}, "b": {"a": PeerRules(), "e": closed}}[closes]
    sites.routers[closes].federation.set_peers(sites.now, rules)
    sites.take(closes)
    for _ in range(3):
        after(sites, 60.0)
    assert not copy.destinations
