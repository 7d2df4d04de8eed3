"""Topic rules and `depth_max` of links bound what wants are within reach, and what peers tell of them."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.message import MODES, DeliveryMode
from routing.peering.copies import PeerRules, capped, onward
from routing.peering.wants import Want
from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_destinations_rules import Links, Rules, drawn, lets_pass, within_rules
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.sites import RouterFederation
from tests.support.wants import after, distances, trust_all_but, unsubscribe

NOBODY_BEYOND = PeerRules(depth_max=0)
CLOSED_IN = PeerRules(allow_in=("u",))
CLOSED_OUT = PeerRules(allow_out=("u",))


def told_all(earlier: str, names: str) -> dict[str, Any]:
    """That these sites are `old`, or `older`, see `RouterFederation`."""
    return {earlier: names}


def links_to_nearest(links: Links, rules: Rules, here: str, peer: str, wanting: set[str]) -> int | None:
    """Of the shortest way on which a message comes from here, over a peer, to one that wants it."""
    here_to, at = {(here, -1)}, {(here, -1)}
    distance = -1
    while at:
        found = set[tuple[str, int]]()
        for site, depth in at:
            for one, other in [link for a, b in links for link in ((a, b), (b, a)) if link[0] == site]:
                there, going = rules.get((other, one), PeerRules()), onward(depth)
                passes = lets_pass(rules.get((one, other), PeerRules()).allow_out) and lets_pass(
                    there.allow_in
                )
                if other != here and (site != here or other == peer) and passes and going is not None:
                    found.add((other, capped(going, there.depth_max)))
        distance += 1
        if any(site in wanting for site, _ in found):
            return distance
        at = found - here_to
        here_to |= found
    return None


@st.composite
def federations(draw: Any) -> tuple[Links, Rules, RouterFederation]:
    """Sites that are linked, with rules of some links."""
    links, seed = draw(graphs(9)), draw(st.integers(0, 2**32))
    rules = drawn(links, random.Random(seed))
    return links, rules, RouterFederation(links, seed, rules=rules)


def some_want(sites: RouterFederation, mode: DeliveryMode, data: st.DataObject) -> set[str]:
    """Some sites want `t`, and all know it."""
    wanting = data.draw(st.sets(st.sampled_from(sites.names)), label="wanting")
    for name in sorted(wanting):
        sites.subscribe(name, accepts=mode)
    know_all(sites)
    return wanting


@settings(max_examples=examples(150), deadline=None)
@given(federations(), st.sampled_from(MODES), st.data())
def test_it_is_as_far_by_news_as_a_message_would_go(
    drawn_federation: tuple[Links, Rules, RouterFederation], mode: DeliveryMode, data: st.DataObject
) -> None:
    links, rules, sites = drawn_federation
    wanting = some_want(sites, mode, data)
    for here in sites.names:
        peers = sites.routers[here].federation.outlook.peers
        known = {peer: links_to_nearest(links, rules, here, peer, wanting - {here}) for peer in peers}
        expected = {peer: distance for peer, distance in known.items() if distance is not None}
        assert distances(sites, here, (mode, "t")) == expected


@settings(max_examples=examples(150), deadline=None)
@given(federations(), st.integers(-1, 5), st.data())
def test_one_comes_to_who_takes_it_if_any_site_does_that_rules_let_it_reach(
    drawn_federation: tuple[Links, Rules, RouterFederation], depth: int, data: st.DataObject
) -> None:
    links, rules, sites = drawn_federation
    wanting = some_want(sites, "ONE", data)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.publish(origin, depth=depth, delivery="ONE")
    after(sites)
    takers = [site for site, _ in sites.delivered]
    if within_rules(links, rules, origin, depth).isdisjoint(wanting):
        assert not takers
    else:
        assert len(takers) == 1
        assert wanting.issuperset(takers)


@pytest.mark.parametrize("mode", MODES)
def test_who_is_too_deep_beyond_a_link_hides_nobody_that_is_as_far(mode: DeliveryMode) -> None:
    """E wants it by news, and c takes nothing from m that goes on; of f only peers have told yet."""
    sites = RouterFederation(
        {("a", "b"), ("b", "m"), ("m", "c"), ("c", "e"), ("m", "d"), ("d", "f")},
        rules={("c", "m"): NOBODY_BEYOND},
    )
    sites.subscribe("e", accepts=mode)
    know_all(sites)
    assert not distances(sites, "a", (mode, "t"))
    sites.subscribe("f", "another")  # so that news of the next want has to wait
    sites.subscribe("f", accepts=mode)
    sites.settle()
    assert distances(sites, "a", (mode, "t")) == {"b": 3}
    sites.publish("a", depth=-1, delivery=mode)
    sites.settle()
    assert sites.delivered == {("f", "m"): 1}


@pytest.mark.parametrize("other_ways", [(), (("a", "x"), ("x", "c"))])
def test_who_may_not_have_it_by_rules_hides_nobody_that_is_as_far(
    other_ways: tuple[tuple[str, str], ...],
) -> None:
    """Both are a link from m, and only other topics may pass the one to c; of d only peers have told yet."""
    rules = {("c", "m"): PeerRules(allow_in=("weather.oslo",), allow_out=("weather.oslo",))}
    sites = RouterFederation({("a", "b"), ("b", "m"), ("m", "c"), ("m", "d"), *other_ways}, rules=rules)
    sites.subscribe("c", "weather.#", accepts="ALL")
    know_all(sites)
    sites.subscribe("d", "another")  # so that news of the next want has to wait
    sites.subscribe("d", "weather.#", accepts="ALL")
    sites.settle()
    sites.publish("a", topic="weather.bergen", depth=-1)
    sites.settle()
    assert sites.delivered == {("d", "m"): 1} | ({("c", "m"): 1} if other_ways else {})


def test_what_earlier_peers_tell_round_a_circle_is_nobody_else_who_wants_it() -> None:
    sites = RouterFederation({("a", "x"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")}, older="abcdx")
    sites.subscribe("x", accepts="ALL")
    know_all(sites)
    assert distances(sites, "a") == {"x": 0, "b": 4, "d": 4}
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.transfers == 1


@pytest.mark.parametrize("more", [(), ("u", "v")])
def test_a_longer_way_counts_where_the_shortest_ends(more: tuple[str, ...]) -> None:
    """Q takes nothing from p that goes on, but does so from r."""
    links = {("a", "p"), ("p", "q"), ("p", "r"), ("r", "q"), *(("q", name) for name in ("t", *more))}
    sites = RouterFederation(links, rules={("q", "p"): NOBODY_BEYOND})
    for name in ("t", *more):
        sites.subscribe(name, accepts="ONE")
    know_all(sites)
    assert distances(sites, "a", ("ONE", "t")) == {"p": 3}
    sites.publish("a", depth=4, delivery="ONE")
    sites.publish("a", "too far", depth=3, delivery="ONE")
    after(sites)
    assert [name for _, name in sites.delivered] == ["m"]


@pytest.mark.parametrize("mode", MODES)
def test_an_earlier_peer_is_told_of_what_its_messages_may_reach(mode: DeliveryMode) -> None:
    links = {("a", "b"), ("b", "c"), ("c", "d")}
    sites = RouterFederation(links, old=("a", "b"), rules={("c", "b"): NOBODY_BEYOND})
    sites.subscribe("d", accepts=mode)
    know_all(sites)
    assert distances(sites, "b", (mode, "t")) == {}
    assert distances(sites, "b", ("SERVER", "d")) == {"c": 1}
    for rules, expected in ((PeerRules(), {"c": 1}), (NOBODY_BEYOND, {}), (PeerRules(depth_max=1), {"c": 1})):
        sites.routers["c"].federation.set_peers(sites.now, {"b": rules, "d": PeerRules()})
        sites.take("c")
        after(sites)
        assert distances(sites, "b", (mode, "t")) == expected
    assert distances(sites, "a", (mode, "t")) == {"b": 2}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("earlier", ["old", "older"])
def test_an_earlier_peer_is_told_when_a_link_further_away_ends_the_way_or_does_no_more(
    earlier: str, mode: DeliveryMode
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")}, **told_all(earlier, "a"))
    sites.subscribe("e", accepts=mode)
    know_all(sites)
    for depth_max, expected in ((0, {}), (-1, {"b": 3}), (0, {}), (1, {"b": 3})):
        rules = {"c": PeerRules(depth_max=depth_max), "e": PeerRules()}
        sites.routers["d"].federation.set_peers(sites.now, rules)
        sites.take("d")
        after(sites)
        assert sites.routers["a"].federation.interest.told((mode, "t")) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rules", [{("q", "p"): CLOSED_IN}, {("p", "q"): CLOSED_OUT}])
@pytest.mark.parametrize("earlier", ["p", "q", "w"])
def test_nobody_is_told_of_a_topic_over_a_link_that_is_closed_for_it(
    earlier: str, rules: Rules, mode: DeliveryMode
) -> None:
    """There is a longer way that is open: what is told by those who are told all leads nobody astray."""
    links = {("a", "p"), ("p", "q"), ("q", "w"), ("a", "x"), ("x", "y"), ("y", "z"), ("z", "w")}
    sites = RouterFederation(links, older=(earlier,), rules=rules)
    sites.subscribe("w", accepts=mode)
    know_all(sites)
    assert distances(sites, "a", (mode, "t")) == {"x": 3}
    sites.publish("a", depth=-1, delivery=mode)
    after(sites)
    assert (sites.delivered, sites.transfers) == ({("w", "m"): 1}, 4)


@pytest.mark.parametrize("rules", [{("q", "p"): CLOSED_IN}, {("p", "q"): CLOSED_OUT}])
@pytest.mark.parametrize("earlier", ["a", "p", "q", "w"])
def test_a_pattern_that_may_not_pass_in_whole_makes_no_news_late(earlier: str, rules: Rules) -> None:
    links = {("a", "p"), ("p", "q"), ("q", "w"), ("a", "x"), ("x", "y"), ("y", "z"), ("z", "w")}
    sites = RouterFederation(links, older=(earlier,), rules=rules)
    sites.subscribe("w", "t.#", accepts="ALL")
    know_all(sites)
    sites.publish("a", topic="t.one", depth=-1)
    after(sites)
    assert (sites.delivered, sites.transfers) == ({("w", "m"): 1}, 4)


@pytest.mark.parametrize("earlier", ["a", "p", "q", "w"])
def test_a_pattern_over_a_closed_link_sends_nothing_where_there_is_no_other_way(earlier: str) -> None:
    sites = RouterFederation(
        {("a", "p"), ("p", "q"), ("q", "w")}, older=(earlier,), rules={("p", "q"): CLOSED_OUT}
    )
    sites.subscribe("w", "t.#", accepts="ALL")
    know_all(sites)
    sites.publish("a", topic="t.one", depth=-1)
    after(sites)
    assert sites.transfers == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_account_first", [False, True])
def test_a_site_is_in_reach_of_its_accounts_messages_where_it_is_not_of_others(
    mode: DeliveryMode, *, is_account_first: bool
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")}, rules={("c", "b"): NOBODY_BEYOND})
    sites.subscribe("d", accepts=mode)
    know_all(sites)
    wants: list[Want] = [("SERVER", "d"), (mode, "t")]
    found = {
        want[0]: distances(sites, "a", want) for want in (wants if is_account_first else reversed(wants))
    }
    assert found == {"SERVER": {"b": 2}, mode: {}}


@pytest.mark.parametrize("mode", MODES)
def test_an_earlier_peer_is_told_of_no_topic_that_a_pattern_takes_and_it_may_not_send(
    mode: DeliveryMode,
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, old=("a",), rules={("b", "a"): CLOSED_IN})
    sites.subscribe("c", "#", accepts=mode)
    sites.subscribe("b", "another")
    for topic in ("t", "u"):
        sites.publish("b", topic=topic, name=topic, timeout_s=1e6)
    know_all(sites)
    assert not distances(sites, "a", (mode, "t"))
    assert not distances(sites, "a", (mode, "another"))
    assert distances(sites, "a", (mode, "u")) == {"b": 1}


@pytest.mark.parametrize("mode", MODES)
def test_an_earlier_peer_is_told_of_a_topic_anew_when_a_pattern_that_takes_it_comes_or_goes(
    mode: DeliveryMode,
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, old=("a",))
    know_all(sites)
    sites.subscribe("c", "t", "n", accepts=mode)
    after(sites)
    assert distances(sites, "a", (mode, "t")) == {"b": 1}
    sites.subscribe("b", "t.#", "p", accepts=mode)
    after(sites)
    assert distances(sites, "a", (mode, "t")) == {"b": 0}
    unsubscribe(sites, "b", "t.#", "p")
    after(sites)
    assert distances(sites, "a", (mode, "t")) == {"b": 1}


def test_peers_are_told_of_a_topic_once_the_rules_of_a_link_let_it_pass() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, old=("a", "c"), rules={("b", "c"): CLOSED_OUT})
    sites.subscribe("c", accepts="ALL")
    sites.settle()
    assert not distances(sites, "a")
    for rules, expected in ((PeerRules(), {"b": 1}), (CLOSED_OUT, {})):
        sites.routers["b"].federation.set_peers(sites.now, {"a": PeerRules(), "c": rules})
        sites.take("b")
        sites.settle()
        assert distances(sites, "a") == expected


@pytest.mark.parametrize("mode", MODES)
def test_what_peers_tell_is_not_too_far_where_links_stop_some_messages(mode: DeliveryMode) -> None:
    """H takes from all in a chain what ends there: so all are near, and messages have to go all the way."""
    chain = [f"c{number:02}" for number in range(12)]
    links = {*pairwise(chain), *(("h", name) for name in chain)}
    sites = RouterFederation(links, rules={("h", name): NOBODY_BEYOND for name in chain})
    sites.subscribe(chain[-1], accepts=mode)
    know_all(sites)
    trust_all_but(sites, chain[0], chain[-1])
    after(sites)
    sites.publish(chain[0], depth=-1, delivery=mode)
    after(sites)
    assert sites.delivered == {(chain[-1], "m"): 1}


@pytest.mark.parametrize("earlier", ["old", "older"])
def test_no_rule_bounds_what_is_for_an_account(earlier: str) -> None:
    links = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")}
    rules = PeerRules(allow_in=("u",), allow_out=("u",), depth_max=0)
    ends = {end for link in links for end in (link, link[::-1])}
    sites = RouterFederation(links, rules=dict.fromkeys(ends, rules), **told_all(earlier, "ac"))
    sites.subscribe("e", "x:c@e")
    know_all(sites)
    sites.publish("a", topic="x:c@e", delivery="ONE")
    after(sites)
    assert sites.delivered == {("e", "m"): 1}


@pytest.mark.parametrize("mode", MODES)
def test_what_an_earlier_site_wants_is_told_no_further_than_messages_may_go(mode: DeliveryMode) -> None:
    rules = {("b", "a"): PeerRules(depth_max=1)}
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")}, old=("d",), rules=rules)
    know_all(sites)
    sites.subscribe("d", accepts=mode)
    after(sites)
    assert distances(sites, "b", (mode, "t")) == {"c": 1}
    assert distances(sites, "a", (mode, "t")) == {}
    sites.routers["b"].federation.set_peers(sites.now, {"a": PeerRules(), "c": PeerRules()})
    sites.take("b")
    after(sites)
    assert distances(sites, "a", (mode, "t")) == {"b": 2}


def test_who_is_cut_off_for_a_topic_hides_nobody_any_more_though_other_topics_reach_it() -> None:
    """The earlier o has two ways to s, one of which is not for t; of v only peers have told yet."""
    sites = RouterFederation(
        {("b", "a"), ("a", "o"), ("o", "x"), ("x", "s"), ("o", "y"), ("y", "s"), ("o", "z"), ("z", "v")},
        older=("o",),
        rules={("y", "o"): PeerRules(allow_in=("u",))},
    )
    sites.subscribe("s", accepts="ONE")
    know_all(sites)
    after(sites)
    sites.subscribe("v", "another")  # so that news of the next want has to wait
    sites.subscribe("v", accepts="ONE")
    sites.settle()
    assert distances(sites, "b", ("ONE", "t")) == {"a": 3}
    sites.cut("x", "s")
    sites.routers["x"].timing.tick(sites.now)  # says so; v does not yet
    sites.take("x")
    sites.settle()
    assert distances(sites, "b", ("ONE", "t")) == {"a": 3}
