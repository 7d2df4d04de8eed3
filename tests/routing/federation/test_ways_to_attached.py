"""Where a message of mode ONE goes by who is attached: to somebody who is there, before who may come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.subscription import Consumer
from tests.routing.federation.test_radius import graphs
from tests.support.attached import LINE, RING, begun, leaves, left, publish_for_one, where
from tests.support.examples import examples
from tests.support.sites import RouterFederation
from tests.support.wants import after, unsubscribe

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
