"""The site where a message began can be reached, and has it no more: its disk is another, or was damaged."""

import math

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation

LINE = {("o", "b"), ("b", "x"), ("x", "z")}
TRIANGLE = {("o", "b"), ("b", "m"), ("m", "x"), ("x", "z"), ("m", "z")}


@pytest.mark.parametrize("links", [LINE, TRIANGLE])
def test_two_late_subscribers_next_to_each_other_have_it_of_who_holds_it(
    links: set[tuple[str, str]],
) -> None:
    sites = RouterFederation(links)
    sites.subscribe("b")
    know_all(sites)
    sites.publish("o", depth=-1, timeout_s=math.inf)
    sites.settle()
    [copy] = sites.routers["o"].federation.outlook.copies.values()
    sites.routers["o"].deliveries.drop(copy.entry, sites.now, "damaged in the store")
    sites.take("o")
    for name in "xz":
        sites.subscribe(name)
    for _ in range(5):
        sites.settle()
        sites.pass_time(60.0)
    sites.settle()
    assert {site for site, _ in sites.delivered} == set("bxz")


def test_who_comes_late_has_it_of_who_holds_it_though_one_beyond_its_depth_is_nearer() -> None:
    """B has it, and a way within depth; o has only one that is too long; a, beyond the depth, has nothing."""
    links = {("o", "b"), ("o", "y"), ("y", "z"), ("b", "z"), ("b", "x"), ("a", "x")}
    sites = RouterFederation(links)
    for name in "ab":
        sites.subscribe(name)
    know_all(sites)
    sites.publish("o", depth=2, timeout_s=math.inf)
    sites.settle()
    sites.cut("o", "b")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    sites.subscribe("x")
    for _ in range(8):
        sites.settle()
        sites.pass_time(60.0)
    sites.settle()
    assert {site for site, _ in sites.delivered} == set("bx")
