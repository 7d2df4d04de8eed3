"""Patterns that other sites want: told, pruned, and found by what is published."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.peering.copies import PeerRules
from routing.peering.wants import InterestChange, Want
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.interest import alone
from tests.support.sites import RouterFederation
from tests.support.wishes import takes

CHAIN = {("a", "b"), ("b", "c")}

TOPICS = ("t", "t.u", "v")
PATTERNS = ("#", "t.*", "t.#", "v", "*.u")


@settings(max_examples=examples(50), deadline=None)
@given(graphs(12), st.data())
def test_a_message_reaches_exactly_who_wants_its_topic_by_a_pattern_within_its_depth(
    links: set[tuple[str, str]], data: st.DataObject
) -> None:
    sites = RouterFederation(links, data.draw(st.integers(0, 10_000)))
    wanting = data.draw(st.dictionaries(st.sampled_from(sites.names), st.sampled_from(PATTERNS), max_size=4))
    late = data.draw(st.booleans())
    topic = data.draw(st.sampled_from(TOPICS))
    depth = data.draw(st.integers(-1, 4))
    origin = data.draw(st.sampled_from(sites.names))
    if late:
        sites.publish(origin, topic=topic, depth=depth, timeout_s=100.0)
        sites.settle()
    for site, pattern in wanting.items():
        sites.subscribe(site, pattern)
    sites.settle()
    if not late:
        sites.publish(origin, topic=topic, depth=depth, receipt="ALL")
        sites.settle()
    reached = {site for site in sites.ball(origin, depth) if site in wanting and takes(wanting[site], topic)}
    assert dict(sites.delivered) == {(site, "m"): 1 for site in reached}
    for site in reached:
        sites.commit(site, "m")
    sites.settle()
    if not late:
        counts = [r.receipt for _, r in sites.records if r.event == "receipt"]
        assert counts == [f"{len(reached)}/{len(reached)}"]
    assert set(sites.final_records("m").values()) <= {1}


@settings(max_examples=examples(50), deadline=None)
@given(graphs(12), st.data())
def test_a_message_to_one_goes_to_one_who_takes_it_by_name_or_by_pattern(
    links: set[tuple[str, str]], data: st.DataObject
) -> None:
    sites = RouterFederation(links, data.draw(st.integers(0, 10_000)))
    wanting = data.draw(st.dictionaries(st.sampled_from(sites.names), st.sampled_from(PATTERNS), max_size=4))
    topic = data.draw(st.sampled_from(TOPICS))
    origin = data.draw(st.sampled_from(sites.names))
    sites.publish(origin, topic=topic, depth=-1, delivery="ONE")
    sites.settle()
    for site, pattern in wanting.items():
        sites.subscribe(site, pattern)
    sites.settle()
    taking = {site for site in sites.ball(origin, -1) if site in wanting and takes(wanting[site], topic)}
    assert sum(sites.delivered.values()) == bool(taking)
    for site, name in list(sites.held):
        sites.commit(site, name)
    sites.settle()
    held = sum(router.view.held for router in sites.routers.values())
    assert held == (not taking)


def test_what_is_told_is_what_may_come_over_the_link() -> None:
    rules = {
        ("c", "b"): PeerRules(allow_in=("weather.#", "news")),
        ("b", "a"): PeerRules(allow_in=("*.oslo",)),
    }
    sites = RouterFederation(CHAIN, rules=rules)
    sites.subscribe("c", "#")
    sites.settle()
    heard = sites.routers["b"].federation.interest
    assert {want for want in heard.heard if want[0] == "ALL"} == {("ALL", "weather.#"), ("ALL", "news")}
    heard = sites.routers["a"].federation.interest
    assert {want for want in heard.heard if want[0] == "ALL"} == {("ALL", "weather.oslo")}
    for topic in ("weather.oslo", "weather.bergen", "stocks.oslo"):
        sites.publish("a", topic, topic=topic, depth=-1)
        sites.settle()
    assert sites.delivered == {("c", "weather.oslo"): 1}


def test_rules_that_change_are_told_by() -> None:
    sites = RouterFederation({("a", "b")})
    sites.subscribe("b", "#")
    sites.settle()
    for allowed, heard in (("weather.#", ["weather.#"]), ("news.*", ["news.*"]), ("#", ["#"])):
        sites.routers["b"].federation.set_peers(sites.now, {"a": PeerRules(allow_in=(allowed,))})
        sites.take("b")
        sites.settle()
        wants = sites.routers["a"].federation.interest.heard
        assert [name for kind, name in wants if kind == "ONE"] == heard


def test_a_want_that_goes_leaves_what_others_want_by_the_same_words() -> None:
    interest, telling = alone("a")
    telling.link_up("b", ("x.y",))
    wants: list[Want] = [("ALL", "x.#"), ("ALL", "#"), ("ALL", "x.y")]
    for want in wants:
        interest.set_own(want, True)
    assert telling.tell("b") == [InterestChange("ALL", "x.y", 0), InterestChange("SERVER", "a", 0)]
    for want in wants[:2]:
        interest.set_own(want, False)
        assert telling.tell("b") == []
    interest.set_own(wants[2], False)
    assert telling.tell("b") == [InterestChange("ALL", "x.y", None)]
    assert not telling._links["b"]._overlaps


def test_peers_that_know_no_patterns_are_told_the_topics_that_there_are() -> None:
    sites = RouterFederation(CHAIN, old=("a",))
    sites.subscribe("b", "weather.oslo", accepts="ONE")
    sites.subscribe("c", "weather.#", accepts="ALL")
    sites.settle()
    heard = sites.routers["a"].federation.interest.heard
    assert ("ALL", "weather.#") not in heard
    sites.publish("a", "1", topic="weather.oslo", depth=-1)
    sites.publish("b", "2", topic="weather.rain", depth=-1, timeout_s=100.0)
    sites.settle()
    sites.publish("a", "3", topic="weather.rain", depth=-1)
    sites.publish("a", "4", topic="weather.wind", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "1"): 1, ("c", "2"): 1, ("c", "3"): 1}
    sites.routers["c"].subscribing.unsubscribe(sites.now, sites.consumer("c", "c"), "weather.#", "", None)
    sites.take("c")
    sites.settle()
    assert [want for want in heard if want[0] == "ALL"] == []


def test_a_peer_wants_no_more_patterns_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.federation.interest.PATTERNS_MAX", 2)
    interest, _ = alone("a")
    told = [InterestChange("ALL", f"{name}.#", 0) for name in "wxyz"] + [InterestChange("ALL", "t", 0)]
    told.append(InterestChange("ALL", "a.#.b", 0))
    admitted = interest.admitted("b", told, whole=True)
    assert [change.name for change in admitted] == ["w.#", "x.#", "t"]
    interest.hear("b", admitted, whole=True)
    assert interest.admitted("b", told[2:3], whole=False) == []
    interest.hear("b", [InterestChange("ALL", "w.#", None)])
    assert interest.admitted("b", told[2:3], whole=False) == told[2:3]


def test_only_what_the_accounts_of_a_site_may_have_is_wanted() -> None:
    sites = RouterFederation({("a", "b")})

    class Rights:
        def may_subscribe(self, account: str, topic: str) -> bool:
            return topic.startswith("weather.")

        def subscribable(self, account: str, pattern: str) -> list[str]:
            return ["weather.#"]

    sites.routers["b"]._state.matching._rights = Rights()
    sites.subscribe("b", "#", accepts="ALL")
    sites.settle()
    heard = sites.routers["a"].federation.interest.heard
    assert [want for want in heard if want[0] == "ALL"] == [("ALL", "weather.#")]


def test_a_peer_that_knows_no_patterns_is_told_a_topic_again_once_the_way_to_who_takes_it_is_up_again() -> (
    None
):
    sites = RouterFederation(CHAIN, old=("a",))
    sites.subscribe("c", "weather.#", accepts="ONE")
    sites.settle()
    sites.publish("b", topic="weather.oslo", depth=0, timeout_s=1e6)
    sites.settle()
    told = sites.routers["a"].federation.interest.told
    for change, expected in ((None, {"b": 1}), (sites.cut, {}), (sites.join, {"b": 1})):
        if change is not None:
            change("b", "c")
            sites.settle()
        assert told(("ONE", "weather.oslo")) == expected
