"""What is not held does not go to and fro between sites whose news of a broken link is still to come."""

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


@pytest.mark.parametrize("guarantee", [True, False])
def test_a_message_ends_before_the_news_of_a_broken_link_has_come(*, guarantee: bool) -> None:
    links = {("f", "b"), ("b", "e"), ("e", "f"), ("a", "b"), ("a", "e"), ("a", "f"), ("a", "c")}
    sites = RouterFederation(links)
    sites.subscribe("c")
    know_all(sites)
    for peer in "bef":
        sites.cut("a", peer)
    sites.transfers = 0
    sites.publish("f", depth=-1, guarantee=guarantee)
    sites.settle(3000)
    assert sites.transfers < 50
