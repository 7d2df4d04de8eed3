"""What news says of who is attached, who believes it, and what it costs."""

from collections import Counter

from routing.peering.leaves import bucket_of
from routing.peering.news import DESTINATIONS
from tests.support.attached import LINE, RING, begun, leaves, left, publish_for_one, where
from tests.support.sites import IN_NEWS
from tests.support.wants import after, told_besides_news


def test_peers_of_an_earlier_version_are_told_nothing_of_who_is_attached() -> None:
    sites = begun(LINE, old=("beta",))
    worker = sites.subscribe("gamma")
    after(sites)
    sites.interest_carried.clear()
    leaves(sites, "gamma", worker)
    after(sites)
    sites.subscribe("gamma")
    after(sites)
    assert not sites.interest_carried


def test_of_a_site_that_does_not_tell_each_want_counts_as_attached() -> None:
    sites = begun(LINE, features=(DESTINATIONS,))
    left(sites, "gamma")
    left(sites, "alpha")
    after(sites)
    publish_for_one(sites, "alpha")
    after(sites)
    assert where(sites) == ["gamma"]


def test_a_site_that_tells_from_now_on_is_believed_at_once() -> None:
    sites = begun(LINE, features=(DESTINATIONS,))
    left(sites, "gamma")
    after(sites)
    known = sites.routers["alpha"].federation.known_wants
    assert set(known.attached("t")) == {"gamma"}
    gamma = sites.routers["gamma"]
    gamma.federation.spreading.set_notary(sites.notaries["gamma"], IN_NEWS)
    gamma.timing.tick(sites.now)
    sites.take("gamma")
    after(sites)
    assert not known.attached("t")
    assert set(known.wanting("ONE", "t")) == {"gamma"}
    gamma.federation.spreading.set_notary(sites.notaries["gamma"], (DESTINATIONS,))
    gamma.timing.tick(sites.now)
    sites.take("gamma")
    after(sites)
    assert set(known.attached("t")) == {"gamma"}


# -- what it costs -----------------------------------------------------------------------------------


def test_who_comes_and_goes_costs_one_control_a_link_and_direction_at_most() -> None:
    sites = begun(RING)
    worker = sites.subscribe("gamma", channel="night")
    after(sites)
    for comes in (False, True, False):
        sites.news_carried.clear()
        sites.wants_carried.clear()
        sites.interest_carried.clear()
        if comes:
            worker = sites.subscribe("gamma", channel="night")
        else:
            leaves(sites, "gamma", worker)
        after(sites)
        assert {site for _, _, site, _ in sites.news_carried} == {"gamma"}
        assert max(Counter(carried[:2] for carried in sites.news_carried).values()) == 1
        assert not sites.interest_carried
        assert not sites.wants_carried
    assert not told_besides_news(sites)


def test_who_leaves_and_is_back_before_news_may_say_so_costs_nothing() -> None:
    sites = begun(LINE)
    worker = sites.subscribe("gamma", channel="night")
    sites.settle()
    said = len(sites.news_carried)
    leaves(sites, "gamma", worker)
    sites.subscribe("gamma", channel="night")
    after(sites)
    assert len(sites.news_carried) == said


def test_what_is_wanted_is_counted_once_whoever_is_attached() -> None:
    sites = begun(LINE)
    sites.subscribe("gamma")
    left(sites, "gamma", "u.*")
    after(sites)
    outlook = sites.routers["alpha"].federation.outlook
    assert outlook.wants_of("gamma") == sites.routers["gamma"].federation.outlook.wants_of("gamma") == 2
    assert sorted(outlook.known_wants.wants_of({"gamma"})) == [
        ("ALL", "t"),
        ("ALL", "u.*"),
        ("ONE", "t"),
        ("ONE", "u.*"),
    ]
    assert bucket_of("t") != bucket_of("u.*")
