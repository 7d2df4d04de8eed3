"""What peers tell each other of wants, where sites are there whose news does not say all of it."""

import pytest

from routing.message import MODES, DeliveryMode
from routing.peering.copies import PeerRules
from routing.peering.leaves import bucket_of
from routing.peering.wants import InterestChange
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.wants import after, distances, told_besides_news, unsubscribe


def subscribe_to_each(sites: RouterFederation, site: str) -> None:
    sites.subscribe(site, "all", accepts="ALL")
    sites.subscribe(site, "one", accepts="ONE")
    sites.subscribe(site, f"x:c@{site}")


def assert_each_arrives(sites: RouterFederation, publisher: str, site: str) -> None:
    """What is published there of mode ALL, of mode ONE and for an account of a site is delivered once."""
    sites.publish(publisher, "1", topic="all", depth=-1)
    sites.publish(publisher, "2", topic="one", depth=-1, delivery="ONE")
    sites.publish(publisher, "3", topic=f"x:c@{site}")
    after(sites)
    assert sites.delivered == {(site, "1"): 1, (site, "2"): 1, (site, "3"): 1}


# -- sites that say no news, or none of all -----------------------------------------------------------


def test_what_is_beyond_a_chain_of_sites_of_an_earlier_version_is_not_too_far() -> None:
    """Some sites are known by news alone, and others by the word of peers alone: all of them count."""
    sites = RouterFederation(
        {("n1", "n2"), ("n2", "n3"), ("n3", "o1"), ("o1", "o2"), ("o2", "o3")}, old=("o1", "o2", "o3")
    )
    know_all(sites)
    subscribe_to_each(sites, "o3")
    after(sites)
    assert distances(sites, "n1", ("ALL", "all")) == {"n2": 4}
    assert distances(sites, "n1", ("ONE", "one")) == {"n2": 4}
    assert distances(sites, "n1", ("SERVER", "o3")) == {"n2": 4}
    assert_each_arrives(sites, "n1", "o3")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("publisher", "site"), [("a", "c"), ("c", "a")])
def test_what_is_for_others_gets_over_a_site_whose_key_cannot_sign(
    monkeypatch: pytest.MonkeyPatch, publisher: str, site: str, *, late: bool
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    if not late:
        monkeypatch.setattr(sites.notaries["b"], "sign", lambda statement: None)
    know_all(sites)
    subscribe_to_each(sites, site)
    after(sites)
    if late:
        monkeypatch.setattr(sites.notaries["b"], "sign", lambda statement: None)
        sites.subscribe("b", "another")
        after(sites)
    assert distances(sites, publisher, ("ALL", "all")) == {"b": 1}
    assert_each_arrives(sites, publisher, site)


def test_a_site_that_can_sign_again_passes_on_by_news_alone_what_others_want(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    monkeypatch.setattr(sites.notaries["b"], "sign", lambda statement: None)
    know_all(sites)
    subscribe_to_each(sites, "c")
    after(sites)
    assert told_besides_news(sites) >= {"all", "one", "b", "c"}
    monkeypatch.undo()
    sites.subscribe("b", "another")
    after(sites)
    assert not told_besides_news(sites)
    assert_each_arrives(sites, "a", "c")


@pytest.mark.parametrize("mode", MODES)
def test_a_pattern_in_news_hides_no_topic_that_a_site_of_an_earlier_version_wants(mode: DeliveryMode) -> None:
    """Also once the pattern is gone, which nobody who was told of the topic hears of."""
    sites = RouterFederation({("d", "a"), ("a", "b"), ("b", "c"), ("b", "e")}, old=("c",))
    know_all(sites)
    sites.subscribe("c", "x.y", accepts=mode)
    sites.subscribe("e", "x.*", accepts=mode)
    after(sites)
    unsubscribe(sites, "e", "x.*")
    after(sites)
    assert distances(sites, "d", (mode, "x.y")) == {"a": 2}
    sites.publish("d", topic="x.y", depth=-1, delivery=mode)
    after(sites)
    assert sites.delivered == {("c", "m"): 1}
    unsubscribe(sites, "c", "x.y")
    after(sites)
    assert not distances(sites, "d", (mode, "x.y"))


# -- what passes for explained ------------------------------------------------------------------------


def want_more_than_may_be_said(sites: RouterFederation, site: str, topic: str, mode: DeliveryMode) -> None:
    """What a site wants is told by its peers for a while: it has just said something else in news."""
    sites.subscribe(site, "another")
    sites.subscribe(site, topic, accepts=mode)
    sites.settle()
    assert topic in told_besides_news(sites)


@pytest.mark.parametrize("mode", MODES)
def test_what_somebody_wants_itself_does_not_hide_from_it_what_others_want_that_are_as_near(
    mode: DeliveryMode,
) -> None:
    """Both a and d are one link from c."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")})
    sites.subscribe("a", accepts=mode)
    know_all(sites)
    want_more_than_may_be_said(sites, "d", "t", mode)
    assert distances(sites, "a", (mode, "t")) == {"b": 2, "c": 1}


def test_a_pattern_that_may_not_come_in_whole_hides_no_other_that_is_as_near() -> None:
    """Both c and d are one link from m; to c a part of it may go."""
    rules = {("c", "m"): PeerRules(allow_in=("weather.oslo",))}
    sites = RouterFederation({("a", "b"), ("b", "m"), ("m", "c"), ("m", "d")}, rules=rules)
    sites.subscribe("c", "weather.#", accepts="ONE")
    know_all(sites)
    want_more_than_may_be_said(sites, "d", "weather.#", "ONE")
    assert distances(sites, "a", ("ONE", "weather.bergen")) == {"b": 2}
    sites.publish("a", topic="weather.bergen", depth=-1, delivery="ONE")
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}


@pytest.mark.parametrize("mode", MODES)
def test_a_pattern_in_news_does_not_pass_for_a_topic_that_it_takes(mode: DeliveryMode) -> None:
    """It may be gone while the topic is still told besides news."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d"), ("c", "e")})
    sites.subscribe("e", "x.*", accepts=mode)
    know_all(sites)
    want_more_than_may_be_said(sites, "d", "x.y", mode)
    unsubscribe(sites, "e", "x.*")
    sites.settle()
    assert distances(sites, "a", (mode, "x.y")) == {"b": 2}
    sites.publish("a", topic="x.y", depth=-1, delivery=mode)
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}


@pytest.mark.parametrize("mode", MODES)
def test_who_is_as_near_hides_nobody_any_more_once_it_is_out_of_reach(mode: DeliveryMode) -> None:
    """Both d and x are one link from c; then x is not."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d"), ("c", "x"), ("x", "y")})
    sites.subscribe("x", accepts=mode)
    know_all(sites)
    want_more_than_may_be_said(sites, "d", "t", mode)
    for one, other in (("c", "x"), ("x", "c")):
        sites.routers[one].federation.remove_peer(other, sites.now)
    sites.cut("c", "x")
    for name in ("c", "x"):
        sites.routers[name].timing.tick(sites.now)
        sites.take(name)
    sites.settle()
    assert distances(sites, "a", (mode, "t")) == {"b": 2}


# -- links that come up -------------------------------------------------------------------------------


@pytest.mark.parametrize("carried", range(8))
def test_what_a_site_was_told_before_a_start_holds_until_it_has_the_news_of_its_peer(carried: int) -> None:
    """As what a site of an earlier version has in its store: it begins this one without any news."""
    sites = RouterFederation({("a", "b")}, carried)
    sites.cut("a", "b")
    sites.subscribe("b", accepts="ALL")
    sites.begin_news()
    changes = [InterestChange("SERVER", "b", 0), InterestChange("ALL", "t", 0)]
    sites.routers["a"].federation.wanting.hear("b", changes, whole=False)
    sites.take("a")
    sites.publish("a", "before", depth=-1)
    sites.join("a", "b")
    for name in sites.names:  # as each does at once: it says in news that the link is there
        sites.routers[name].timing.tick(sites.now)
        sites.take(name)
    sites.settle(carried)
    assert distances(sites, "a") == {"b": 0}
    sites.publish("a", "after", depth=-1)
    after(sites)
    assert sites.delivered == {("b", "before"): 1, ("b", "after"): 1}
    assert not told_besides_news(sites)


def test_what_a_site_was_told_before_a_start_holds_until_its_peer_has_said_any_news() -> None:
    """Each says which news it has before the other has come to say its own."""
    sites = RouterFederation({("a", "b")})
    sites.cut("a", "b")
    sites.subscribe("b", accepts="ALL")
    sites.begin_news()
    changes = [InterestChange("SERVER", "b", 0), InterestChange("ALL", "t", 0)]
    sites.routers["a"].federation.wanting.hear("b", changes, whole=False)
    sites.take("a")
    sites.join("a", "b")
    sites.settle()
    assert distances(sites, "a") == {"b": 0}
    sites.publish("a", depth=-1)
    after(sites)
    assert sites.delivered == {("b", "m"): 1}


# -- what is in a bucket that is kept back ------------------------------------------------------------


def test_a_late_subscriber_whose_bucket_becomes_kept_back_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one more topic it is more than is told; a message goes wherever that is wanted."""
    monkeypatch.setattr("routing.federation.own_leaves.BUCKET_LEAVES_MAX", 1)
    other = next(f"n{number}" for number in range(10_000) if bucket_of(f"n{number}") == bucket_of("t"))
    sites = RouterFederation({("a", "b"), ("b", "e"), ("a", "o")}, old=("o",))
    know_all(sites)
    sites.subscribe("e", other, accepts="ALL")
    after(sites)
    sites.publish("a", depth=-1, timeout_s=1000.0)
    after(sites)
    sites.subscribe("e", accepts="ALL", channel="late")
    after(sites)
    assert sites.delivered == {("e", "m"): 1}


@pytest.mark.parametrize("mode", MODES)
def test_what_falls_into_a_bucket_that_becomes_kept_back_is_told_with_all_else_in_it(
    monkeypatch: pytest.MonkeyPatch, mode: DeliveryMode
) -> None:
    leaves = {"ALL": 1, "ONE": 2}[mode]  # that somebody is attached is another one
    monkeypatch.setattr("routing.federation.own_leaves.BUCKET_LEAVES_MAX", leaves)
    other = next(f"n{number}" for number in range(10_000) if bucket_of(f"n{number}") == bucket_of("t"))
    sites = RouterFederation({("a", "b"), ("b", "e")})
    know_all(sites)
    sites.subscribe("e", "t", accepts=mode)
    after(sites)
    assert not told_besides_news(sites)
    sites.subscribe("e", other, accepts=mode)
    after(sites)
    assert told_besides_news(sites) == {"t", other}
    assert distances(sites, "a", (mode, "t")) == distances(sites, "a", (mode, other)) == {"b": 1}
    unsubscribe(sites, "e", other)
    after(sites)
    assert not told_besides_news(sites)
    assert distances(sites, "a", (mode, "t")) == {"b": 1}
    assert not distances(sites, "a", (mode, other))


# -- what was told is withdrawn -----------------------------------------------------------------------


def test_who_was_told_of_a_topic_and_of_a_pattern_that_takes_it_hears_that_both_are_gone() -> None:
    """The older o takes wants from peers alone."""
    sites = RouterFederation({("o", "a"), ("a", "e"), ("a", "f")}, older=("o",))
    know_all(sites)
    sites.subscribe("f", "x.y")
    sites.subscribe("e", "x.*")
    after(sites)
    unsubscribe(sites, "f", "x.y")
    after(sites)
    assert distances(sites, "o", ("ALL", "x.y")) == {"a": 1}
    unsubscribe(sites, "e", "x.*")
    after(sites)
    assert not distances(sites, "o", ("ALL", "x.y"))
    assert told_besides_news(sites).isdisjoint({"x.y", "x.*"})
