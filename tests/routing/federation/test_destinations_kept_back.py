"""What has not gone to a peer, as its link is down, does not go where others have seen to all of it."""

import pytest

from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.wants import after


def round_about(*, receipts: bool = False) -> RouterFederation:
    """The way from a to t is over p, and down; the one round about, over q and r, comes and goes."""
    sites = RouterFederation({("a", "p"), ("p", "t"), ("a", "q"), ("q", "r"), ("r", "t")})
    sites.subscribe("t", lock_s=1e9)
    if receipts:
        sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("a", "p")
    sites.cut("r", "t")
    after(sites)
    return sites


def held(sites: RouterFederation) -> int:
    return sum(len(router.federation.outlook.copies) for router in sites.routers.values())


@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_nothing_is_held_for_a_peer_that_was_to_have_it_and_is_not_needed(receipt: str) -> None:
    """The copies were given to p, whose link is down, until there was another way: all have ended."""
    sites = round_about(receipts=True)
    for number in range(3):
        sites.publish("a", f"m{number}", depth=-1, receipt=receipt)
    after(sites)
    assert held(sites) == 3
    sites.join("r", "t")
    after(sites)
    for number in range(3):
        sites.commit("t", f"m{number}")
    after(sites)
    assert sites.receipts == (["1/1"] * 3 if receipt == "ALL" else [])
    assert held(sites) == 0
    assert not sites.routers["a"]._state.asked_of
    transfers = sites.transfers
    sites.join("a", "p")
    after(sites)
    assert sites.transfers == transfers


def test_a_peer_is_asked_once_however_often_it_was_the_way_while_its_link_was_down() -> None:
    """Each time that the way round about comes, a gives the copy to q; when that goes, to p again."""
    sites = round_about(receipts=True)
    sites.publish("a", depth=-1, receipt="ALL")
    for _ in range(5):
        sites.join("r", "t")
        while not sites.bulk["a", "q"]:
            sites.settle(1)
            sites.pass_time(3.0)
        sites.bulk["a", "q"].clear()
        sites.cut("r", "t")
        after(sites)
    [copy] = sites.routers["a"].federation.outlook.copies.values()
    assert copy.via("p") == ["t"]
    assert (copy.forwards["p"].unacknowledged, copy.forwards["p"].earlier) == (1, [])
    sites.join("a", "p")
    assert len(sites.bulk["a", "p"]) == 1


def test_a_peer_whose_link_is_down_is_asked_once_for_all_that_it_is_to_see_to() -> None:
    """It is the way to t; and, once q is no peer any more, to u."""
    sites = RouterFederation({("a", "p"), ("p", "t"), ("p", "u"), ("a", "q"), ("q", "u")})
    sites.subscribe("t", lock_s=1e9)
    sites.subscribe("u", lock_s=1e9)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("a", "p")
    after(sites)
    sites.publish("a", depth=2, receipt="ALL")
    sites.cut("a", "q")
    sites.routers["a"].federation.set_peers(sites.now, {"p": PeerRules()})
    sites.take("a")
    after(sites)
    sites.join("a", "p")
    assert [sorted(arrival.destinations) for _, arrival in sites.bulk["a", "p"]] == [["t", "u"]]
    after(sites)
    sites.commit("t", "m")
    sites.commit("u", "m")
    after(sites)
    assert sites.receipts == ["2/2"]


def test_who_goes_round_a_site_ends_what_that_holds_though_its_word_is_lost() -> None:
    """P was asked by a, and has no way since c died; a has gone round it, and said so as its link broke."""
    sites = RouterFederation({("a", "p"), ("p", "c"), ("c", "t"), ("a", "q"), ("q", "r"), ("r", "t")})
    sites.subscribe("t", lock_s=1e9)
    know_all(sites)
    sites.publish("a", depth=-1)
    while not sites.bulk["a", "p"]:
        sites.settle(1)
    sites.cut("p", "c")
    sites.cut("c", "t")
    sites.settle()
    sites.cut("a", "p")
    after(sites)
    sites.commit("t", "m")
    sites.settle()
    sites.join("a", "p")
    after(sites, 60.0)
    assert held(sites) == 0


def waiting_for_an_answer() -> RouterFederation:
    """C has not answered p, and may have it or not; t has it over the way round about."""
    sites = RouterFederation({("a", "p"), ("p", "c"), ("c", "t"), ("a", "q"), ("q", "r"), ("r", "t")})
    sites.subscribe("t", lock_s=1e9)
    know_all(sites)
    sites.publish("a", depth=-1)
    while not sites.bulk["p", "c"]:
        sites.settle(1)
    sites.bulk["p", "c"].clear()
    sites.cut("p", "c")
    sites.cut("c", "t")
    after(sites)
    sites.commit("t", "m")
    after(sites, 60.0)
    assert [copy.destinations for copy in sites.routers["p"]._state.crossing.by_id.values()] == [{}]
    return sites


def test_what_waits_for_an_answer_alone_is_on_nobodys_account() -> None:
    sites = waiting_for_an_answer()
    crossing = sites.routers["p"]._state.crossing
    assert crossing.held_from("a", "t", 10, 10_000) == (0, 0)
    sites.join("p", "c")
    after(sites)
    assert held(sites) == 0
    assert not crossing.besides


def test_an_operator_can_take_away_what_waits_for_an_answer_alone() -> None:
    sites = waiting_for_an_answer()
    sites.routers["p"].topics.purge(sites.now, sites.consumer("p", "operator"), "t", None)
    after(sites)
    assert held(sites) == 0


def test_what_a_bound_held_up_goes_on_when_an_operator_takes_that_back() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")})
    sites.subscribe("d", lock_s=1e9)
    know_all(sites)
    sites.publish("a", depth=-1)
    while not sites.bulk["a", "b"]:
        sites.settle(1)
    for rules in (PeerRules(depth_max=1), PeerRules()):
        sites.routers["b"].federation.set_peers(sites.now, {"a": rules, "c": PeerRules()})
        sites.take("b")
        after(sites)
    for _ in range(5):
        after(sites, 60.0)
    assert sites.delivered == {("d", "m"): 1}


def test_a_receipt_does_not_wait_for_who_is_no_peer_any_more() -> None:
    """B has it, and c has answered that it is due to one there, when c is taken out."""
    sites = RouterFederation({("a", "b"), ("a", "c")})
    sites.subscribe("b", lock_s=1e9)
    sites.subscribe("c", lock_s=1e9)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle()
    sites.commit("b", "m")
    sites.settle()
    assert sites.receipts == []
    sites.routers["a"].federation.set_peers(sites.now, {"b": PeerRules()})
    sites.take("a")
    sites.settle()
    assert sites.receipts == ["1/2"]
    assert not sites.routers["a"]._state.asked_of
