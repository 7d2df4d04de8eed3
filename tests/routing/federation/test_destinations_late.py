"""A copy with destinations comes late, by another way, where it has been seen to by then."""

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation

LATE = {("o", "b"), ("o", "f"), ("b", "e"), ("e", "f"), ("d", "e")}


@pytest.fixture
def overtaken() -> Federation:
    """What b sent to e, for d, is still under way; another copy went over f and e, and is at d."""
    sites = Federation(LATE, 0)
    sites.subscribe("d")
    know_all(sites)
    sites.publish("o", depth=-1, receipt="ALL")
    while not sites.bulk["b", "e"]:
        sites.settle(1)
    late = list(sites.bulk["b", "e"])
    sites.bulk["b", "e"].clear()
    sites.cut("o", "b")
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}
    assert not sites.routers["e"].federation.outlook.copies
    sites.bulk["b", "e"] += late
    return sites


def test_a_copy_that_has_ended_is_not_taken_up_again_for_who_has_it(overtaken: Federation) -> None:
    sites = overtaken
    sites.transfers = 0
    sites.settle()
    assert sites.transfers == 0
    at_e = [record for site, record in sites.records_of("m", "received", "depth", "forwarded") if site == "e"]
    assert [(record.event, record.final) for record in at_e] == [("received", False), ("forwarded", True)]


def test_who_sent_it_late_hears_that_it_is_there(overtaken: Federation) -> None:
    sites = overtaken
    sites.settle()
    assert not sites.routers["b"].federation.outlook.copies
    sites.commit("d", "m")
    sites.join("o", "b")
    sites.settle()
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
    assert set(sites.final_records("m").values()) == {1}
