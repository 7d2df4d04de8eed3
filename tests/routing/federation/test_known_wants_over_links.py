"""Who is known to want what comes to all, once over each link, and not where a rule hides it."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.federation.saying import SPACING_S, WANTS_SPACING_S
from routing.peering.copies import PeerRules
from routing.peering.leaves import (
    BUCKETS,
    HASH_BYTES,
    bucket_of,
    read_bucket,
)
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.sites import RouterFederation
from tests.support.wants import wanting


def known(sites: RouterFederation, at: str, topic: str = "t", mode: str = "ALL") -> set[str] | None:
    return wanting(sites.routers[at].federation.known_wants, topic, mode)


def settle(sites: RouterFederation) -> None:
    for _ in range(3):
        sites.settle()
        sites.pass_time(SPACING_S)
    sites.settle()


@settings(max_examples=examples(40), deadline=None)
@given(graph=graphs(10), seed=st.integers(0, 2**32))
def test_in_any_graph_all_know_what_all_want_and_each_change_crosses_a_link_once_in_each_direction(
    graph: set[tuple[str, str]], seed: int
) -> None:
    sites = RouterFederation(graph, seed)
    chance = random.Random(seed)
    subscribers = chance.sample(sites.names, len(sites.names) // 2)
    for name in subscribers[::2]:
        sites.subscribe(name)
    sites.begin_news()
    settle(sites)
    sites.news_carried.clear()
    for name in subscribers[1::2]:
        sites.subscribe(name)
    sites.pass_time(0.0)
    settle(sites)
    for name in sites.names:
        assert known(sites, name) == set(subscribers) - {name}
    assert not sites.wants_carried
    per_link = Counter((one, other, site) for one, other, site, _ in sites.news_carried)
    assert all(count == 1 for count in per_link.values())


def test_a_want_that_goes_costs_as_much_as_one_that_comes() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "c")})
    sites.begin_news()
    settle(sites)
    counts = []
    for comes in (True, False, True, False):
        sites.news_carried.clear()
        if comes:
            consumer = sites.subscribe("a")
        else:
            sites.routers["a"].subscribing.unsubscribe(sites.now, consumer, "t", "", None)
            sites.take("a")
        sites.pass_time(WANTS_SPACING_S)
        sites.settle()
        assert known(sites, "b") == known(sites, "c") == ({"a"} if comes else set())
        counts.append(len(sites.news_carried))
    assert max(counts) <= len(sites.links)


def test_what_was_missed_while_a_link_was_down_comes_when_it_is_up() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    sites.begin_news()
    settle(sites)
    sites.cut("b", "c")
    for number in range(100):
        sites.subscribe("a", f"t{number}")
    settle(sites)
    sites.wants_carried.clear()
    sites.join("b", "c")
    settle(sites)
    assert all(known(sites, "c", f"t{number}") == {"a"} for number in range(100))
    sites.wants_carried.clear()
    sites.news_carried.clear()
    sites.cut("b", "c")
    sites.join("b", "c")
    sites.settle()
    assert not sites.wants_carried


class TestRules:
    def federation(self, *hides: str) -> RouterFederation:
        """A ring of four; what the sites of `hides` take from whom tells them nothing of other topics."""
        ring = {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}
        only = PeerRules(allow_in=("weather.#",))
        rules = {(one, other): only for one, _, other in (each.partition("-") for each in hides)}
        return RouterFederation(ring, rules=rules)

    def test_a_name_that_may_not_come_from_a_peer_is_hidden_from_it(self) -> None:
        sites = RouterFederation(
            {("a", "b"), ("b", "c")}, rules={("b", "c"): PeerRules(allow_in=("weather.#",))}
        )
        for topic in ("weather.oslo", "secret", "secret.#"):
            sites.subscribe("a", topic)
        sites.begin_news()
        settle(sites)
        assert known(sites, "b", "secret") == known(sites, "b", "weather.oslo") == {"a"}
        assert known(sites, "c", "weather.oslo") == {"a"}
        assert known(sites, "c", "secret") == known(sites, "c", "secret.x") == set()
        wants = sites.routers["c"].federation.known_wants
        whole = b"".join(wants.bucket("a", index) for index in range(BUCKETS))
        assert b"weather.oslo" in whole
        assert b"secret" not in whole
        assert not wants.may_cross("c", "b", "secret")
        assert wants.may_cross("c", "b", "weather.oslo")

    def test_a_name_that_one_way_hides_comes_by_the_other(self) -> None:
        for seed in range(20):
            sites = self.federation("b-c")
            sites.random.seed(seed)
            sites.subscribe("a", "secret")
            sites.begin_news()
            settle(sites)
            assert known(sites, "c", "secret") == {"a"}
            assert known(sites, "b", "secret") == {"a"}
            sites.subscribe("a", "secret.more")
            settle(sites)
            assert known(sites, "c", "secret.more") == {"a"}

    def test_what_both_ways_hide_is_hidden(self) -> None:
        sites = self.federation("b-c", "d-c")
        sites.subscribe("a", "secret")
        sites.begin_news()
        settle(sites)
        assert known(sites, "c", "secret") == set()

    def test_what_a_rule_hides_no_more_is_told(self) -> None:
        sites = RouterFederation(
            {("a", "b"), ("b", "c")}, rules={("b", "c"): PeerRules(allow_in=("weather.#",))}
        )
        sites.subscribe("a", "secret")
        sites.begin_news()
        settle(sites)
        sites.routers["b"].federation.set_peers(sites.now, {"a": PeerRules(), "c": PeerRules()})
        sites.take("b")
        settle(sites)
        assert known(sites, "c", "secret") == {"a"}
        assert sites.routers["c"].federation.known_wants.may_cross("c", "b", "secret")


def test_the_salts_of_a_site_are_its_own() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    for name in ("a", "b"):
        sites.subscribe(name)
    sites.begin_news()
    settle(sites)
    wants = sites.routers["c"].federation.known_wants
    one, other = (read_bucket(wants.bucket(name, bucket_of("t"))) for name in ("a", "b"))
    assert [leaf.name for leaf in one.leaves] == [leaf.name for leaf in other.leaves]
    assert one.hashes != other.hashes
    assert all(len(each) == HASH_BYTES for each in one.hashes)
