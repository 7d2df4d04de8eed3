"""While a site's store fails, its decisions are not taken, and links come and go all the same."""

import pytest

from routing.peering.news import DESTINATIONS
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


@pytest.mark.parametrize("features", [(), (DESTINATIONS,)], ids=["off", "on"])
def test_what_cannot_be_done_yet_is_waited_for_at_rest_and_done_then(features: tuple[str, ...]) -> None:
    sites = RouterFederation({("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")})
    sites.subscribe("d")
    know_all(sites, features)
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    a = sites.routers["a"]
    a.federation.link_down("b")
    a.timing.tick(sites.now)
    assert a.wake_at > sites.now
    sites.cut("a", "b")
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}
