"""Where one peer is asked twice: at once for itself and for another, or again after that was over."""

import pytest

from routing.peering.decisions import DestinationsWord
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.wants import after


@pytest.mark.parametrize("seed", range(8))
def test_who_is_asked_for_another_and_for_a_late_one_at_once_is_counted(seed: int) -> None:
    """Of p, which has just come to want it, b has heard, and a has not: b itself is nearer to a.

    So b sends p two transfers, one for x and one for whoever is there; each asks for the receipt.
    """
    sites = RouterFederation({("a", "b"), ("b", "p"), ("p", "x")}, seed)
    for name in "bx":
        sites.subscribe(name)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.subscribe("p", "another")  # so that news of the next want has to wait
    sites.subscribe("p")
    sites.settle()
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle()
    assert sites.delivered == {("b", "m"): 1, ("p", "m"): 1, ("x", "m"): 1}
    for name in "bpx":
        assert sites.receipts == []
        sites.commit(name, "m")
        sites.settle()
    assert sites.receipts == ["3/3"]


@pytest.mark.parametrize("word", ["arrived", "unwanted"])
def test_that_a_peer_asks_no_more_may_be_older_than_the_last_time_that_it_has_asked(
    word: DestinationsWord,
) -> None:
    """P has started anew and asks again; what it had said before comes after that, by the other lane."""
    sites = RouterFederation({("a", "p"), ("p", "c"), ("c", "t")})
    sites.subscribe("t", lock_s=1e9)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("c", "t")
    sites.publish("a", depth=-1, receipt="ALL")
    while not sites.bulk["p", "c"]:
        sites.settle(1)
    [asked] = sites.bulk["p", "c"]
    sites.settle()
    sites.bulk["p", "c"].append(asked)
    sites.settle()
    [copy] = sites.routers["c"].federation.outlook.copies.values()
    sites.routers["c"].federation.destinations_heard.hear(sites.now, "p", word, {copy.smuid: ["t"]})
    sites.take("c")
    sites.join("c", "t")
    sites.settle()
    sites.commit("t", "m")
    sites.settle()
    assert sites.receipts == ["1/1"]
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_who_had_to_ask_again_on_another_link_is_believed_that_it_asks_no_more(receipt: str) -> None:
    """C has it, and its link with p breaks before p knows; t gets it round the other way."""
    sites = RouterFederation({("a", "p"), ("p", "c"), ("c", "t"), ("p", "d"), ("d", "e"), ("e", "t")})
    sites.subscribe("t", lock_s=1e9)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("d", "e")
    after(sites)
    sites.publish("a", depth=-1, receipt=receipt)
    while not sites.bulk["p", "c"]:
        sites.settle(1)
    sites.cut("c", "t")
    while sites.bulk["p", "c"]:
        sites.settle(1)
    sites.cut("p", "c")
    sites.join("p", "c")
    after(sites)
    sites.join("d", "e")
    after(sites)
    sites.commit("t", "m")
    after(sites)
    assert sites.receipts == (["1/1"] if receipt == "ALL" else [])
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
