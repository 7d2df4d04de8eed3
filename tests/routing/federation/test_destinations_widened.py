"""A copy that has come by a long way comes again by a shorter one: peers that have it may go further, too."""

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.wants import after


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_who_had_it_of_a_peer_by_a_long_way_goes_round_a_link_as_far_as_the_short_one_lets_it(
    receipt: str, seed: int
) -> None:
    """By c it has one hop left at f, which is enough for d; without c it has two, and e is between."""
    links = {("a", "b"), ("a", "c"), ("c", "b"), ("b", "f"), ("f", "d"), ("f", "e"), ("e", "d")}
    sites = RouterFederation(links, seed)
    sites.subscribe("d")
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("a", "b")
    after(sites)
    sites.publish("a", depth=4, receipt=receipt)
    while not sites.bulk["f", "d"]:
        sites.settle(1)
    sites.bulk["f", "d"].clear()  # nobody notices for now
    after(sites)
    sites.join("a", "b")
    after(sites)
    sites.cut("f", "d")
    after(sites)
    assert sites.delivered["d", "m"] == 1

    sites.commit("d", "m")
    sites.join("f", "d")
    after(sites)
    assert sites.delivered["d", "m"] == 1
    assert sites.receipts == (["1/1"] if receipt == "ALL" else [])
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
