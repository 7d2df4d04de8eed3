"""Sites that name no destinations, as they know no news."""

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


def test_nobody_looks_for_ways_that_nothing_goes() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "c")}, old=("a", "b", "c"))
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle()
    assert sites.delivered["c", "m"] == 1
    assert [router.federation.topology._ways for router in sites.routers.values()] == [None] * 3
    sites.commit("c", "m")
    sites.settle()
    assert set(sites.final_records("m").values()) == {1}
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
