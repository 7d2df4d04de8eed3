"""Where one of mode ONE goes by what peers tell besides news: not whether anybody is attached."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.peering.copies import PeerRules
from routing.peering.news import DESTINATIONS
from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_radius import graphs
from tests.support.attached import LINE, RING, begun, leaves, left, publish_for_one, where
from tests.support.examples import examples
from tests.support.sites import IN_NEWS, RouterFederation
from tests.support.wants import after, ticked, unsubscribe

GRAPHS = pytest.mark.parametrize("links", [LINE, RING], ids=["line", "ring"])
SEEDS = pytest.mark.parametrize("seed", range(5))


@SEEDS
@pytest.mark.parametrize("how", ["old", "older", "says no word"])
def test_among_sites_of_an_earlier_version_one_rests_and_is_not_lost(seed: int, how: str) -> None:
    """Beta is one, between; or none tells to what somebody is attached."""
    features = (DESTINATIONS,) if how == "says no word" else IN_NEWS
    sites = begun(
        LINE,
        seed,
        features=features,
        old=("beta",) if how == "old" else (),
        older=("beta",) if how == "older" else (),
    )
    left(sites, "alpha")
    left(sites, "gamma")
    after(sites)
    for name in sites.names:
        publish_for_one(sites, name, name)
        after(sites)
    for _ in range(3):
        after(sites, 60.0)
    assert len(where(sites)) == 3
    assert sites.transfers <= 6
    before = sites.transfers
    for name in ("alpha", "gamma"):
        sites.subscribe(name, channel="night")
        after(sites)
    assert sites.delivered.total() == 3
    assert sites.transfers <= before + 6


@SEEDS
@pytest.mark.parametrize("comes", ["alpha", "gamma"])
def test_one_that_rests_goes_back_by_a_peer_of_an_earlier_version_to_who_comes(seed: int, comes: str) -> None:
    """It is as far as that peer has told all the time; now somebody is attached there."""
    sites = begun(LINE, seed, older=("beta",))
    left(sites, "alpha")
    left(sites, "gamma")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    sites.subscribe(comes, channel="night")
    after(sites)
    assert sites.delivered == {(comes, "m"): 1}


@SEEDS
@pytest.mark.parametrize("site", ["beta", "gamma"])
def test_one_that_rests_goes_to_who_is_told_of_before_news_says_that_somebody_is_there(
    seed: int, site: str
) -> None:
    """It is as far by news as it was told then."""
    sites = begun(LINE, seed)
    left(sites, "alpha")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert where(sites) == ["alpha"]
    sites.subscribe(site, "other")  # its news says so, and may say nothing for a moment
    sites.settle()
    sites.subscribe(site)
    sites.settle()
    after(sites)
    assert sites.delivered == {(site, "m"): 1}


@SEEDS
def test_what_a_peer_told_before_its_link_went_down_keeps_no_job_from_who_is_there(seed: int) -> None:
    sites = begun({*LINE, ("alpha", "delta")}, seed)
    left(sites, "alpha")
    after(sites)
    sites.subscribe("delta", "other")
    sites.settle()
    left(sites, "delta")  # which is told besides news
    sites.settle()
    sites.cut("alpha", "delta")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert where(sites) == ["alpha"]
    sites.subscribe("gamma")
    after(sites)
    assert sites.delivered == {("gamma", "m"): 1}


@SEEDS
def test_what_a_peer_told_before_its_link_went_down_keeps_no_job(seed: int) -> None:
    """It waits with the subscription that is left, and not for the link with the old one."""
    sites = begun({*LINE, ("beta", "old")}, seed, old=("old",))
    left(sites, "gamma")
    sites.subscribe("old")
    after(sites)
    sites.cut("beta", "old")
    after(sites)
    publish_for_one(sites, "alpha")
    after(sites)
    assert where(sites) == ["gamma"]


@SEEDS
@pytest.mark.parametrize("publisher", ["alpha", "beta", "delta"])
def test_what_is_told_on_in_a_circle_passes_for_nobody_who_is_attached(seed: int, publisher: str) -> None:
    circle = {("alpha", "beta"), ("beta", "gamma"), ("alpha", "gamma"), ("beta", "delta"), ("alpha", "delta")}
    sites = begun({*circle, ("alpha", "night")}, seed, older=("beta", "gamma", "delta"))
    left(sites, "night")
    after(sites)
    publish_for_one(sites, publisher)
    for _ in range(3):
        after(sites, 60.0)
    assert where(sites) == ["night"]
    assert sites.transfers <= 2


@SEEDS
def test_a_worker_at_a_peer_of_an_earlier_version_goes_before_a_subscription_as_near(seed: int) -> None:
    """What a peer that says no news tells to be there can be nothing that news knows of."""
    sites = begun({("alpha", "old"), ("alpha", "night")}, seed, old=("old",))
    left(sites, "night")
    sites.subscribe("old")
    after(sites)
    publish_for_one(sites, "alpha")
    after(sites)
    assert sites.delivered == {("old", "m"): 1}


@SEEDS
def test_what_is_told_on_takes_no_job_from_where_it_was_published(seed: int) -> None:
    sites = begun({("alpha", "night"), ("alpha", "older"), ("night", "older")}, seed, older=("older",))
    left(sites, "alpha")
    left(sites, "night")
    after(sites)
    publish_for_one(sites, "alpha")
    after(sites)
    assert (where(sites), sites.transfers) == (["alpha"], 0)


@SEEDS
def test_what_a_peer_tells_of_what_may_not_go_there_keeps_no_job_from_who_has_left(seed: int) -> None:
    sites = RouterFederation(
        LINE, seed, old=("alpha",), rules={("beta", "alpha"): PeerRules(allow_out=("other",))}
    )
    sites.begin_news()
    left(sites, "gamma")
    sites.subscribe("alpha")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert where(sites) == ["gamma"]


@SEEDS
def test_one_that_a_peer_would_not_have_goes_to_who_has_left_once_the_peer_wants_none(seed: int) -> None:
    sites = begun(LINE, seed, old=("alpha",))
    left(sites, "gamma")
    sites.subscribe("alpha", durable=False)
    after(sites)
    sites.routers["alpha"].federation.set_peer("beta", PeerRules(allow_in=("other",)))
    publish_for_one(sites, "beta")
    sites.settle()
    assert where(sites) == ["beta"]
    unsubscribe(sites, "alpha")
    for _ in range(2):
        sites.settle()
        ticked(sites)
    assert where(sites) == ["gamma"]


# -- any graph ---------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(graphs(8), st.integers(0, 2**32), st.data())
def test_one_comes_to_rest_among_sites_of_any_version(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    """Some hear of wants from peers alone, some know no news, and some do not say who is attached."""
    every = sorted({name for link in links for name in link})
    some = st.sets(st.sampled_from(every), max_size=3)
    old, older, silent = (data.draw(some, label=label) for label in ("old", "older", "silent"))
    sites = RouterFederation(links, seed, old=old, older=older)
    know_all(sites)
    for name in sorted(silent - old):
        spreading = sites.routers[name].federation.spreading
        spreading.set_notary(sites.notaries[name], (DESTINATIONS,))
    after(sites)
    at = st.sampled_from(sites.names)
    attached = data.draw(st.sets(at), label="attached")
    there = attached | data.draw(st.sets(at, min_size=1), label="left")
    for name in sorted(there):
        worker = sites.subscribe(name, channel="night", credit=0)
        if name not in attached:
            leaves(sites, name, worker)
    after(sites)
    publish_for_one(sites, data.draw(at, label="origin"))
    after(sites)
    for _ in range(3):
        after(sites, 60.0)
    assert sites.transfers <= 3 * len(sites.names)
    rests = where(sites)
    assert len(rests) == 1
    assert rests[0] in there
    for name in sorted(attached):
        sites.subscribe(name, channel="night")
    after(sites)
    assert (sum(sites.delivered.values()) == 1) == (rests[0] in attached)
