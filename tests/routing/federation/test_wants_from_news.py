"""What sites want is heard from news, and from peers only what that does not explain."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from routing.message import MODES, DeliveryMode
from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.wants import after, distances, told_besides_news, trust_all_but, unsubscribe

CIRCLE = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a"), ("b", "e")}


def forget_what_was_carried(sites: RouterFederation) -> None:
    for carried in (sites.interest_carried, sites.news_carried, sites.wants_carried):
        carried.clear()


# -- what it costs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["t", "weather.#"])
def test_a_want_comes_and_goes_with_one_control_a_link_and_direction_at_most(topic: str) -> None:
    sites = RouterFederation(CIRCLE)
    know_all(sites)
    for change in (sites.subscribe, lambda *args: unsubscribe(sites, *args)):
        forget_what_was_carried(sites)
        change("c", topic)
        after(sites)
        carried = Counter((one, other) for one, other, *_ in (*sites.news_carried, *sites.wants_carried))
        assert set(carried.values()) == {1}
        assert not sites.interest_carried
    assert not told_besides_news(sites)


@pytest.mark.parametrize("seed", range(5))
def test_wants_that_come_faster_than_news_may_be_said_are_told_by_peers_until_it_is(seed: int) -> None:
    """Then all take back what they have told, and few tell in circles that it is further, and further."""
    sites = RouterFederation(CIRCLE, seed)
    know_all(sites)
    sites.subscribe("c", "first")
    sites.subscribe("c", "second")
    sites.settle()
    assert told_besides_news(sites) == {"second"}
    assert distances(sites, "a", ("ALL", "second")) == {"b": 1, "e": 2}
    sites.publish("a", "m", topic="second", depth=2)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}
    forget_what_was_carried(sites)
    after(sites)
    assert not told_besides_news(sites)
    assert distances(sites, "a", ("ALL", "second")) == {"b": 1, "e": 2}
    changes = [change for _, _, change in sites.interest_carried]
    assert {change.name for change in changes} == {"second"}
    assert max(change.distance or 0 for change in changes) < len(sites.names)
    assert len(changes) <= 40


def test_a_want_that_goes_before_it_is_in_news_is_gone_everywhere() -> None:
    sites = RouterFederation(CIRCLE)
    know_all(sites)
    sites.subscribe("c", "first")
    sites.subscribe("c", "second")
    sites.settle()
    unsubscribe(sites, "c", "second")
    after(sites)
    assert not told_besides_news(sites)
    assert not any(distances(sites, name, ("ALL", "second")) for name in sites.names)


def test_who_wants_something_hears_of_others_that_do_before_there_is_news() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    sites.subscribe("a")
    know_all(sites)
    sites.subscribe("c", "first")
    sites.subscribe("c")
    sites.settle()
    assert distances(sites, "a") == {"b": 1}


# -- peers of earlier versions ------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", ["old", "older"])
def test_peers_of_an_earlier_version_are_told_all_and_what_they_tell_goes_on(earlier: str) -> None:
    """The chain is new, earlier, new, new."""
    chain = {("a", "b"), ("b", "c"), ("c", "d")}
    sites = RouterFederation(chain, old=("b",) if earlier == "old" else (), older=("b",))
    know_all(sites)
    for name in sites.names:
        sites.subscribe(name, f"of.{name}", accepts="ALL")
        sites.subscribe(name, f"one.{name}", accepts="ONE")
    after(sites)
    assert distances(sites, "b", ("ALL", "of.d")) == {"c": 1}
    assert distances(sites, "b", ("SERVER", "d")) == {"c": 1}
    assert distances(sites, "d", ("ONE", "one.a")) == {"c": 2}
    for site in sites.names:
        for to in sites.names:
            sites.publish(site, f"{site}{to}", topic=f"of.{to}", depth=-1)
            sites.publish(site, f"one {site}{to}", topic=f"one.{to}", depth=-1, delivery="ONE")
            after(sites)
            assert sites.delivered[to, f"{site}{to}"] == 1
            assert sites.delivered[to, f"one {site}{to}"] == 1
    for name in sites.names:
        unsubscribe(sites, name, f"of.{name}")
        unsubscribe(sites, name, f"one.{name}")
    after(sites)
    assert not any(distances(sites, name, ("ALL", f"of.{to}")) for name in sites.names for to in sites.names)


def test_nobody_who_is_as_near_hides_what_is_wanted_beyond_a_site_of_an_earlier_version() -> None:
    """What s wants, beyond x, is as far from v3 as what the last of the chain does."""
    ring = ["x", "v1", "v2", "v3", "y2", "y1", "x"]
    chain = ["v3", "o1", "o2", "o3", "o4"]
    sites = RouterFederation({*pairwise(ring), *pairwise(chain), ("x", "s")}, old=("o1", "o2", "o3", "o4"))
    know_all(sites)
    for name in ("s", "o4"):
        sites.subscribe(name)
    after(sites)
    sites.publish("x", depth=-1)
    after(sites)
    assert sites.delivered == {("s", "m"): 1, ("o4", "m"): 1}


@pytest.mark.parametrize("more", [(), ("f", "g", "h")])
@pytest.mark.parametrize("depth_max", [-1, 9])
def test_one_does_not_go_where_a_site_in_between_knows_of_no_way(
    more: tuple[str, ...], depth_max: int
) -> None:
    """The earlier b knows no patterns, and is not told of a topic that is not there yet."""
    links = {("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c"), *(("c", name) for name in more)}
    sites = RouterFederation(links, old=("b",), rules={("e", "d"): PeerRules(depth_max=depth_max)})
    know_all(sites)
    for name in ("c", *more):
        sites.subscribe(name, "t.#", accepts="ONE")
    after(sites)
    assert distances(sites, "a", ("ONE", "t.x")) == {"d": 2}
    sites.publish("a", topic="t.x", depth=-1, delivery="ONE")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}


@pytest.mark.parametrize("target", ["t", "*"])
def test_what_goes_wherever_it_is_wanted_goes_to_who_comes_to_want_it(target: str) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "o")}, old=("o",))
    know_all(sites)
    sites.publish("a", depth=2, timeout_s=1000.0)
    after(sites)
    sites.subscribe("c", target)
    after(sites)
    assert sites.delivered == {("c", "m"): 1}


def test_what_goes_wherever_it_is_wanted_goes_over_links_that_come() -> None:
    sites = RouterFederation({("a", "b"), ("a", "o"), ("c", "d")}, old=("o",))
    sites.subscribe("d")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=1000.0)
    after(sites)
    for one, other in (("b", "c"), ("c", "b")):
        sites.routers[one].federation.set_peer(other, PeerRules())
    sites.join("b", "c")
    after(sites)
    assert sites.delivered == {("d", "m"): 1}


def test_one_that_knows_no_patterns_is_told_the_topics_that_are_taken_by_those_in_news() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")}, old=("a",))
    know_all(sites)
    sites.subscribe("b", "weather.oslo", accepts="ONE")
    sites.subscribe("d", "weather.#", accepts="ALL")
    after(sites)
    assert distances(sites, "a", ("ALL", "weather.oslo")) == {"b": 2}
    sites.publish("a", "1", topic="weather.oslo", depth=-1)
    sites.publish("b", "2", topic="weather.rain", depth=-1, timeout_s=100.0)
    after(sites)
    sites.publish("a", "3", topic="weather.rain", depth=-1)
    after(sites)
    assert sites.delivered == {("d", "1"): 1, ("d", "2"): 1, ("d", "3"): 1}
    unsubscribe(sites, "d", "weather.#")
    after(sites)
    assert not distances(sites, "a", ("ALL", "weather.oslo"))


# -- news that somebody would not have ----------------------------------------------------------------


@pytest.mark.parametrize("distrusted", ["c", "b"])
def test_who_does_not_trust_a_site_hears_of_its_wants_from_others_that_do(distrusted: str) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "d")})
    sites.notaries["a"].distrusted.add(distrusted)
    sites.notaries["d"].distrusted.add(distrusted)
    know_all(sites)
    sites.subscribe(distrusted, "t", accepts="ALL")
    sites.subscribe(distrusted, "one", accepts="ONE")
    after(sites)
    far = 1 if distrusted == "c" else 0
    assert distances(sites, "a") == {"b": far}
    assert distances(sites, "d", ("SERVER", distrusted)) == {"a": far + 1}
    for site in ("a", "d"):
        sites.publish(site, f"all {site}", depth=-1)
        sites.publish(site, f"one {site}", topic="one", depth=-1, delivery="ONE")
        after(sites)
        assert sites.delivered[distrusted, f"all {site}"] == sites.delivered[distrusted, f"one {site}"] == 1
    for name in ("a", "d"):
        trust_all_but(sites, name)
    for _ in range(5):
        after(sites, 60.0)
    assert not told_besides_news(sites)
    assert distances(sites, "d", ("ONE", "one")) == {"a": far + 1}


def test_a_site_whose_key_cannot_sign_tells_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    monkeypatch.setattr(sites.notaries["c"], "sign", lambda statement: None)
    know_all(sites)
    sites.subscribe("c")
    after(sites)
    assert distances(sites, "a") == {"b": 1}
    monkeypatch.undo()
    sites.subscribe("c", "another")
    after(sites)
    assert not told_besides_news(sites)
    assert distances(sites, "a") == {"b": 1}


def test_what_is_in_a_bucket_that_is_kept_back_is_told_by_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.federation.own_leaves.BUCKET_LEAVES_MAX", 0)
    sites = RouterFederation({("a", "b"), ("b", "c")})
    know_all(sites)
    sites.subscribe("c", accepts="ONE")
    after(sites)
    assert distances(sites, "a", ("ONE", "t")) == {"b": 1}
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}
    unsubscribe(sites, "c")
    after(sites)
    assert not distances(sites, "a", ("ONE", "t"))


# -- rules --------------------------------------------------------------------------------------------


def test_a_pattern_beyond_a_link_that_lets_little_of_it_pass_hides_no_other_that_is_as_far() -> None:
    """What c wants may come from b in part; what the earlier d wants, in whole."""
    rules = {("c", "b"): PeerRules(allow_in=("weather.oslo",))}
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d")}, older=("d",), rules=rules)
    know_all(sites)
    for name in ("c", "d"):
        sites.subscribe(name, "weather.#", accepts="ALL")
    after(sites)
    sites.publish("a", topic="weather.bergen", depth=-1)
    after(sites)
    assert sites.delivered == {("d", "m"): 1}


def test_a_topic_that_may_not_pass_a_link_by_its_rules_goes_round() -> None:
    rules = {("b", "c"): PeerRules(allow_out=("news",))}
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c")}, rules=rules)
    know_all(sites)
    sites.subscribe("c", accepts="ONE")
    after(sites)
    assert distances(sites, "a", ("ONE", "t")) == {"d": 2}
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    assert sites.delivered == {("c", "m"): 1}


# -- mode ONE, and accounts ---------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("e", "f")])
def test_one_waits_where_no_way_is_up_and_goes_when_one_comes_up_anywhere(more: tuple[str, ...]) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d"), *(("d", name) for name in more)})
    for name in ("d", *more):
        sites.subscribe(name, accepts="ONE")
    know_all(sites)
    sites.cut("c", "d")
    after(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    assert [len(sites.routers[name].federation.outlook.copies) for name in "abc"] == [1, 0, 0]
    sites.join("c", "d")
    after(sites)
    assert sites.delivered == {("d", "m"): 1}


@pytest.mark.parametrize("target", ["t", "*"])
def test_one_waits_for_somebody_who_takes_it_and_goes_there(target: str) -> None:
    sites = RouterFederation(CIRCLE)
    know_all(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    sites.subscribe("d", target, accepts="ONE")
    after(sites)
    assert sites.delivered == {("d", "m"): 1}


def test_what_is_for_an_account_goes_to_its_site_wherever_that_is() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")})
    know_all(sites)
    sites.subscribe("d", "x:c@d")
    sites.publish("a", topic="x:c@d")
    after(sites)
    assert sites.delivered == {("d", "m"): 1}


# -- whatever comes and goes --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_whatever_comes_and_goes_no_site_is_believed_to_be_further_than_it_is(seed: int) -> None:
    source = random.Random(seed)
    names = [f"s{number}" for number in range(source.randint(2, 9))]
    links = {(source.choice(names[:at]), name) for at, name in enumerate(names) if at}
    for _ in range(source.randrange(len(names))):
        one, other = sorted(source.sample(names, 2))
        links.add((one, other))

    def some() -> list[str]:
        return source.sample(names, source.choice([0, 0, 1, 1, 2])) if len(names) > 1 else []

    sites = RouterFederation(links, seed, old=some(), older=some())
    for site in some():
        sites.notaries[site].distrusted |= set(some()) - {site}
    know_all(sites)
    wanting: set[tuple[str, DeliveryMode]] = set()
    for _ in range(source.randrange(14)):
        match source.randrange(6):
            case 0:
                link = source.choice(sorted(links))
                sites.cut(*link) if link in sites.links else sites.join(*link)
            case 1 if wanting:
                site, mode = source.choice(sorted(wanting))
                wanting.discard((site, mode))
                unsubscribe(sites, site, "t", mode)
            case 2:
                sites.settle(source.randrange(30))
            case 3:
                after(sites, source.choice([0.01, 0.1, 3.0]))
            case _:
                site, mode = source.choice(names), source.choice(MODES)
                wanting.add((site, mode))
                sites.subscribe(site, "t", mode, accepts=mode)
    for _ in range(4):
        after(sites, 60.0)
    for mode in MODES:
        _check_distances(sites, mode, {site for site, each in wanting if each == mode})


def _check_distances(sites: RouterFederation, mode: DeliveryMode, wanting: set[str]) -> None:
    """Over links that are up: those that are down bring nearer, and for mode ONE are none."""
    for name, peer in sorted(sites.links):
        known = distances(sites, name, (mode, "t")).get(peer)
        beyond = _beyond(sites, peer, name)
        true = min((beyond[site] for site in wanting if site in beyond), default=None)
        if true is not None:
            assert known is not None, (name, peer, mode, true)
            assert known <= true
        elif mode == "ONE" and not wanting:
            assert known is None, (name, peer, mode, known)


def _beyond(sites: RouterFederation, start: str, without: str) -> dict[str, int]:
    found, edge = {start: 0}, [start]
    for site in edge:
        for one, other in sorted(sites.links):
            if one == site and other != without and other not in found:
                found[other] = found[site] + 1
                edge.append(other)
    return found
