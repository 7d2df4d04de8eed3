"""Who is late: a copy that was overtaken, and news of who wants it."""

import pytest

from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import RING, know_all
from tests.support.sites import RouterFederation

LATE = {("o", "b"), ("o", "f"), ("b", "e"), ("e", "f"), ("d", "e")}


@pytest.fixture(params=[1, 12])
def overtaken(request: pytest.FixtureRequest) -> RouterFederation:
    """What b sent to e, for d and others, is still under way; another copy went over f and e to them."""
    wanting = ["d", *(f"d{number}" for number in range(1, request.param))]
    sites = RouterFederation(LATE | {("e", name) for name in wanting}, 0)
    for name in wanting:
        sites.subscribe(name)
    know_all(sites)
    sites.publish("o", depth=-1, receipt="ALL")
    while not sites.bulk["b", "e"]:
        sites.settle(1)
    late = list(sites.bulk["b", "e"])
    sites.bulk["b", "e"].clear()
    sites.cut("o", "b")
    sites.settle()
    assert sites.delivered == {(name, "m"): 1 for name in wanting}
    assert not sites.routers["e"].federation.outlook.copies
    sites.bulk["b", "e"] += late
    return sites


def test_a_copy_that_has_ended_is_not_taken_up_again_for_who_has_it(overtaken: RouterFederation) -> None:
    sites = overtaken
    sites.transfers = 0
    sites.settle()
    assert sites.transfers == 0
    at_e = [record for site, record in sites.records_of("m", "received", "depth", "forwarded") if site == "e"]
    assert [record.event for record in at_e if record.event != "forwarded"] == ["received"]
    assert [record.final for record in at_e].count(True) == 1


def test_who_sent_it_late_hears_that_it_is_there(overtaken: RouterFederation) -> None:
    sites = overtaken
    sites.settle()
    assert not sites.routers["b"].federation.outlook.copies
    for name, _ in list(sites.delivered):
        sites.commit(name, "m")
    sites.join("o", "b")
    sites.settle()
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
    assert set(sites.final_records("m").values()) == {1}


def test_where_it_began_and_has_ended_who_has_no_other_way_hears_that_it_is_there() -> None:
    """What q sent to p comes when all is over, and all that p has is a link to where it began."""
    links = {("o", "q"), ("p", "q"), ("d", "p"), ("o", "x"), ("x", "y"), ("y", "z"), ("d", "z"), ("o", "p")}
    sites = RouterFederation(links, 0)
    sites.cut("o", "p")
    sites.subscribe("d")
    know_all(sites)
    sites.publish("o", depth=-1, receipt="ALL")
    while not sites.bulk["q", "p"]:
        sites.settle(1)
    late = sites.bulk["q", "p"].pop()
    sites.cut("d", "p")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    sites.join("o", "p")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}
    assert not sites.routers["o"].federation.outlook.copies
    sites.commit("d", "m")
    sites.bulk["q", "p"].append(late)
    while not sites.routers["p"].federation.outlook.copies:
        sites.settle(1)
    sites.cut("p", "q")
    sites.settle()
    assert not sites.routers["p"].federation.outlook.copies
    sites.join("p", "q")
    sites.settle()
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
    assert sites.delivered == {("d", "m"): 1}
    assert set(sites.final_records("m").values()) == {1}


@pytest.mark.parametrize("depth", [2, -1])
@pytest.mark.parametrize("known", ["b", "c"])
def test_who_comes_to_want_it_behind_another_on_the_same_link_has_it(known: str, depth: int) -> None:
    """Only the peers next to a new subscriber have heard of it: to others, one that is nearer hides it."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d")}, 0)
    sites.subscribe(known)
    know_all(sites)
    sites.subscribe("d", "another")  # so that news of the next want has to wait
    sites.settle()
    sites.subscribe("d")
    sites.settle()
    sites.publish("a", depth=depth, receipt="ALL")
    sites.settle()
    assert sites.delivered == {(known, "m"): 1, ("d", "m"): 1}
    for name in (known, "d"):
        sites.commit(name, "m")
        sites.settle()
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


def test_who_wants_it_round_a_circle_has_it_before_there_is_news_of_that() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "f"), ("c", "f"), ("d", "f")}, 0)
    sites.subscribe("c")
    know_all(sites)
    sites.subscribe("d")
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}


def test_who_wants_it_later_is_seen_to_where_it_began() -> None:
    sites = RouterFederation(RING, 0)
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    sites.settle()
    sites.transfers = 0
    sites.subscribe("e")
    sites.pass_time(1.0)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("e", "m"): 1}
    assert sites.transfers == 2


def test_who_comes_nearer_later_is_no_late_subscriber() -> None:
    """It wanted the message all along: who holds one is not to see to it for that."""
    sites = RouterFederation({("a", "b"), ("a", "c"), ("c", "d")}, 0)
    for name in "bd":
        sites.subscribe(name)
    know_all(sites)
    sites.publish("a", depth=2, timeout_s=1_000.0)
    sites.settle()
    sites.transfers = 0
    sites.cut("a", "b")
    sites.cut("a", "c")
    sites.pass_time(3.0)
    sites.settle()
    for one, other in (("b", "d"), ("d", "b")):
        sites.routers[one].federation.set_peer(other, PeerRules())
    sites.join("b", "d")
    for _ in range(2):
        sites.settle()
        sites.pass_time(3.0)
    assert sites.delivered == {("b", "m"): 1, ("d", "m"): 1}
    assert not sites.transfers


def test_who_wants_it_later_has_it_of_whoever_holds_it() -> None:
    """Where the site at which it began cannot be reached."""
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    sites.subscribe("b")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    sites.settle()
    sites.cut("a", "b")
    sites.pass_time(3.0)
    sites.settle()
    sites.subscribe("c")
    sites.pass_time(1.0)
    sites.settle()
    assert sites.delivered == {("b", "m"): 1, ("c", "m"): 1}


def test_who_wants_it_before_the_site_where_it_began_is_missed_has_it_of_whoever_holds_it() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    sites.subscribe("b")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    sites.settle()
    sites.subscribe("c")
    sites.pass_time(1.0)
    wants = {name: sites.routers[name].federation.known_wants for name in "ab"}
    while "c" not in wants["b"].wanting("ALL", "t"):
        sites.settle(1)
    assert "c" not in wants["a"].wanting("ALL", "t")
    sites.cut("a", "b")
    sites.settle()
    assert sites.delivered == {("b", "m"): 1, ("c", "m"): 1}


def test_who_wants_it_later_has_it_though_a_site_has_gone_back_to_an_earlier_version() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "e")}, 0)
    sites.subscribe("b")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    sites.settle()
    sites.cut("a", "e")
    sites.old = ("e",)
    sites.join("a", "e")
    sites.settle()
    sites.pass_time(30.0)
    sites.settle()
    sites.subscribe("c")
    for _ in range(3):
        sites.pass_time(1.0)
        sites.settle()
    assert sites.delivered == {("b", "m"): 1, ("c", "m"): 1}


def test_who_wants_a_state_later_has_it_though_the_site_where_it_began_has_lost_it() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")}, 0)
    sites.subscribe("b")
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=float("inf"))
    sites.settle()
    state = sites.routers["a"]._state
    for entry in [copy.entry for copy in state.crossing.by_id.values()]:
        state.crossing.forget(entry)
    sites.subscribe("d")
    for _ in range(3):
        sites.pass_time(60.0)
        sites.settle()
    assert sites.delivered["d", "m"]
