"""Where a message of mode ONE goes by who is attached: to somebody who is there, before who may come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.peering.copies import PeerRules
from routing.peering.news import DESTINATIONS
from routing.subscription import Consumer
from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_radius import graphs
from tests.support.attached import LINE, RING, begun, leaves, left, publish_for_one, where
from tests.support.examples import examples
from tests.support.sites import IN_NEWS, RouterFederation
from tests.support.wants import after, ticked, unsubscribe

GRAPHS = pytest.mark.parametrize("links", [LINE, RING], ids=["line", "ring"])
SEEDS = pytest.mark.parametrize("seed", range(5))


# -- somebody is there -------------------------------------------------------------------------------


@GRAPHS
@SEEDS
def test_one_that_rests_with_a_subscription_that_nobody_is_attached_to_goes_to_who_is_there(
    links: set[tuple[str, str]], seed: int
) -> None:
    sites = begun(links, seed)
    left(sites, "alpha")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert where(sites) == ["alpha"]
    sites.subscribe("gamma")
    after(sites)
    assert sites.delivered == {("gamma", "m"): 1}


@GRAPHS
@SEEDS
@pytest.mark.parametrize("pattern", ["t", "#"])
def test_one_goes_past_a_subscription_that_nobody_is_attached_to(
    links: set[tuple[str, str]], seed: int, pattern: str
) -> None:
    sites = begun(links, seed)
    left(sites, "alpha", pattern)
    left(sites, "beta", pattern)
    sites.subscribe("gamma", pattern)
    after(sites)
    publish_for_one(sites, "alpha")
    publish_for_one(sites, "beta", "n")
    after(sites)
    assert sites.delivered == {("gamma", "m"): 1, ("gamma", "n"): 1}
    assert sites.transfers == 3


@GRAPHS
@SEEDS
@pytest.mark.parametrize("lost", [False, True])
def test_what_somebody_leaves_unfinished_goes_to_the_next_one_elsewhere(
    links: set[tuple[str, str]], seed: int, lost: bool
) -> None:
    """Whose subscription stays; more of the topic waits for it."""
    sites = begun(links, seed)
    worker = sites.subscribe("gamma", credit=1)
    after(sites)
    publish_for_one(sites, "alpha")
    sites.settle()
    publish_for_one(sites, "alpha", "n")
    after(sites)
    sites.subscribe("alpha", credit=2)
    after(sites)
    assert ("alpha", "m") not in sites.delivered
    leaves(sites, "gamma", worker, lost=lost)
    after(sites)
    assert sites.delivered == {("gamma", "m"): 1, ("alpha", "m"): 1, ("alpha", "n"): 1}


@SEEDS
def test_one_that_waits_for_somebody_busy_goes_when_that_one_leaves_before_news_may_say_so(seed: int) -> None:
    """Until then alpha might send it here again."""
    sites = begun(LINE, seed)
    worker = sites.subscribe("gamma", credit=0)
    after(sites)
    publish_for_one(sites, "alpha")
    sites.settle()
    assert where(sites) == ["gamma"]
    sites.subscribe("alpha")
    sites.settle()
    sites.subscribe("gamma", "another")
    leaves(sites, "gamma", worker)
    sites.settle()
    assert where(sites) == ["gamma"]
    after(sites)
    assert sites.delivered == {("alpha", "m"): 1}


@SEEDS
def test_what_waits_for_somebody_busy_goes_when_that_one_leaves_where_there_is_no_news(seed: int) -> None:
    sites = RouterFederation({("alpha", "beta")}, seed, old=("alpha",))
    sites.subscribe("alpha", credit=0)
    worker = sites.subscribe("beta", credit=0, durable=False)
    sites.settle()
    publish_for_one(sites, "alpha")
    sites.settle()
    assert where(sites) == ["beta"]
    leaves(sites, "beta", worker)
    sites.settle()
    assert where(sites) == ["alpha"]


@SEEDS
def test_what_a_session_that_is_replaced_had_stays_with_the_one_in_its_place(seed: int) -> None:
    sites = begun(LINE, seed)
    sites.subscribe("gamma", credit=0)
    sites.subscribe("alpha")
    after(sites)
    publish_for_one(sites, "gamma")
    after(sites)
    assert sites.delivered == {("alpha", "m"): 1}
    said = len(sites.news_carried)
    sites.subscribe("alpha")
    after(sites)
    assert sites.delivered == {("alpha", "m"): 2}
    assert len(sites.news_carried) == said


def test_one_of_a_group_follows_the_others_to_who_is_there() -> None:
    sites = begun(LINE)
    left(sites, "alpha")
    after(sites)
    for name in ("m1", "m2", "m3"):
        publish_for_one(sites, "beta", name, group="g")
        sites.settle()
    assert where(sites) == ["alpha"] * 3
    sites.subscribe("gamma", credit=1)
    after(sites)
    for number in range(3):
        assert sites.delivered.total() == number + 1
        site, name = list(sites.delivered)[-1]
        assert site == "gamma"
        sites.commit("gamma", name)


# -- nobody is there ---------------------------------------------------------------------------------


@GRAPHS
@SEEDS
@pytest.mark.parametrize("first", ["alpha", "beta", "gamma"])
def test_one_rests_while_nobody_is_attached_and_goes_to_who_comes_first(
    links: set[tuple[str, str]], seed: int, first: str
) -> None:
    sites = begun(links, seed)
    left(sites, "alpha")
    left(sites, "gamma")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert sites.transfers == 1
    for _ in range(5):
        after(sites, 60.0)
    assert sites.transfers == 1
    sites.subscribe(first, channel="night")
    after(sites)
    assert sites.delivered == {(first, "m"): 1}
    assert sites.transfers <= 4


@SEEDS
def test_one_rests_where_it_was_published_if_that_takes_it_and_nobody_is_there(seed: int) -> None:
    sites = begun(LINE, seed)
    for name in sites.names:
        left(sites, name)
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert (where(sites), sites.transfers) == (["beta"], 0)


@SEEDS
def test_one_goes_on_to_a_subscription_elsewhere_where_its_own_ends(seed: int) -> None:
    sites = begun(LINE, seed)
    left(sites, "alpha")
    left(sites, "gamma")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    held = where(sites)[0]
    unsubscribe(sites, held, channel="night")
    after(sites)
    assert where(sites) == [{"alpha": "gamma", "gamma": "alpha"}[held]]


@SEEDS
def test_one_goes_to_who_is_there_as_soon_as_a_way_is_up(seed: int) -> None:
    sites = begun(LINE, seed)
    left(sites, "alpha")
    sites.subscribe("gamma")
    after(sites)
    sites.cut("beta", "gamma")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    assert where(sites) == ["alpha"]
    sites.join("beta", "gamma")
    after(sites)
    assert sites.delivered == {("gamma", "m"): 1}


@SEEDS
def test_one_goes_to_a_subscription_within_its_depth_if_nobody_there_is_attached(seed: int) -> None:
    sites = begun({*LINE, ("gamma", "delta")}, seed)
    left(sites, "alpha")
    sites.subscribe("delta")
    after(sites)
    sites.publish("beta", "m", depth=1, delivery="ONE")
    sites.publish("beta", "n", depth=2, delivery="ONE")
    after(sites)
    assert where(sites) == ["alpha", "delta"]
    assert sites.delivered == {("delta", "n"): 1}


@SEEDS
def test_one_goes_to_a_subscription_within_its_depth_once_a_way_is_up(seed: int) -> None:
    """Somebody is attached all the time, beyond its depth."""
    there = {("alpha", "beta"), ("beta", "gamma"), ("gamma", "delta")}
    sites = begun({*there, ("alpha", "way"), ("way", "night")}, seed)
    left(sites, "night")
    sites.subscribe("delta")
    after(sites)
    sites.cut("way", "night")
    after(sites)
    sites.publish("alpha", "m", depth=2, delivery="ONE")
    after(sites)
    assert where(sites) == ["alpha"]
    sites.join("way", "night")
    after(sites)
    assert where(sites) == ["night"]


@SEEDS
def test_one_rests_with_a_subscription_here_if_who_is_attached_is_beyond_its_depth(seed: int) -> None:
    sites = begun(LINE, seed)
    left(sites, "alpha")
    left(sites, "beta")
    sites.subscribe("gamma")
    after(sites)
    sites.publish("alpha", "m", depth=1, delivery="ONE")
    after(sites)
    assert where(sites) == ["alpha"]
    assert sites.transfers == 0


# -- all are busy ------------------------------------------------------------------------------------


@GRAPHS
@SEEDS
def test_two_who_are_busy_do_not_pass_it_to_and_fro(links: set[tuple[str, str]], seed: int) -> None:
    sites = begun(links, seed)
    sites.subscribe("alpha", credit=0)
    sites.subscribe("gamma", credit=0)
    after(sites)
    publish_for_one(sites, "beta")
    for _ in range(3):
        after(sites, 60.0)
    assert sites.transfers <= 4
    assert len(where(sites)) == 1


@SEEDS
def test_one_stays_with_who_has_as_much_as_it_takes(seed: int) -> None:
    sites = begun(LINE, seed)
    sites.subscribe("gamma", credit=1)
    left(sites, "alpha")
    after(sites)
    publish_for_one(sites, "beta")
    after(sites)
    publish_for_one(sites, "beta", "n")
    after(sites)
    assert where(sites) == ["gamma", "gamma"]
    assert sites.delivered == {("gamma", "m"): 1}
    sites.commit("gamma", "m")
    assert sites.delivered[("gamma", "n")] == 1
    assert sites.transfers == 2


@SEEDS
def test_one_stays_with_who_is_busy_and_does_not_go_to_where_nobody_is(seed: int) -> None:
    sites = begun(LINE, seed)
    sites.subscribe("gamma", credit=0)
    left(sites, "alpha")
    after(sites)
    publish_for_one(sites, "beta")
    publish_for_one(sites, "gamma", "n")
    after(sites)
    assert where(sites) == ["gamma", "gamma"]
    assert sites.transfers == 1


# -- peers of an earlier version ---------------------------------------------------------------------


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
        LINE, seed, older=("alpha",), rules={("beta", "alpha"): PeerRules(allow_out=("other",))}
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
    sites = begun(LINE, seed, older=("alpha",))
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


# -- what is said of it -------------------------------------------------------------------------------


def test_who_is_asked_where_it_goes_says_so() -> None:
    sites = begun({*LINE, ("beta", "delta")})
    left(sites, "alpha")
    left(sites, "gamma")
    after(sites)
    unattended = "nobody who wants it there is known to be attached"
    assert ways(sites, "beta") == {
        "alpha": "",
        "delta": "nobody there wants it",
        "gamma": "alpha is as near or nearer",
    }
    assert ways(sites, "alpha") == {"beta": unattended}
    sites.subscribe("gamma")
    after(sites)
    assert ways(sites, "beta") == {"alpha": unattended, "delta": "nobody there wants it", "gamma": ""}
    assert ways(sites, "alpha") == {"beta": ""}
    assert ways(sites, "gamma") == {"beta": unattended}


def test_who_is_asked_where_a_job_of_little_depth_goes_says_so() -> None:
    sites = begun({*LINE, ("gamma", "delta")})
    left(sites, "alpha")
    sites.subscribe("delta")
    after(sites)
    far = "who wants it there is 2 links away, further than its Depth"
    assert ways(sites, "beta", 1) == {"alpha": "", "gamma": far}
    assert ways(sites, "beta", 2) == {
        "alpha": "nobody who wants it there is known to be attached",
        "gamma": "",
    }


def test_who_is_asked_says_of_a_link_that_is_down_that_it_is() -> None:
    sites = begun({*LINE, ("beta", "old")}, old=("old",))
    sites.subscribe("gamma")
    sites.subscribe("old")
    after(sites)
    sites.cut("beta", "old")
    after(sites)
    assert ways(sites, "beta") == {"alpha": "nobody there wants it", "gamma": "", "old": "the link is down"}


def ways(sites: RouterFederation, site: str, depth: int = -1) -> dict[str, str]:
    """Why a message that is published at a site does not go to each peer; "" where it does."""
    return {way.peer: way.why for way in sites.routers[site].federation.outlook.ways("t", "ONE", depth, ())}


# -- any graph ---------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(graphs(8), st.integers(0, 2**32), st.data())
def test_one_comes_to_who_is_there_with_few_handovers(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    """Whoever has come and gone: at the end to somebody who is attached, if anybody is."""
    sites = begun(links, seed)
    at = st.sampled_from(sites.names)
    workers: dict[str, Consumer] = {}
    subscribed = sorted(data.draw(st.sets(at, min_size=1), label="subscribed"))
    for name in subscribed:
        pattern = data.draw(st.sampled_from(["t", "#"]), label=f"of {name}")
        workers[name] = sites.subscribe(name, pattern, "night", credit=0)
        if data.draw(st.booleans(), label=f"{name} leaves"):
            leaves(sites, name, workers.pop(name))
    after(sites)
    publish_for_one(sites, data.draw(at, label="origin"))
    moves = data.draw(st.lists(st.sampled_from(subscribed), max_size=3), label="come or leave")
    for name in moves:
        sites.settle(data.draw(st.integers(0, 60), label="carried"))
        if name in workers:
            leaves(sites, name, workers.pop(name))
        else:
            topic = next(iter(sites.routers[name]._state.subscriptions.values())).target.name
            workers[name] = sites.subscribe(name, topic, "night", credit=0)
    after(sites)
    after(sites)
    assert sites.transfers <= 3 * len(sites.names) * (1 + len(moves))
    rests = where(sites)
    assert len(rests) == 1
    assert rests[0] in (workers or subscribed)
    before = sites.transfers
    for _ in range(3):
        after(sites, 60.0)
    assert sites.transfers == before


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
