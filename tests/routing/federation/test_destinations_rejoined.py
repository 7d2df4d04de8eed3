"""Ways break and come back: what waited, and what came after it, go by one path in order.

In a ring of six, c and f want what is published at a.
"""

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_destinations_order import InOrder

RING = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")}


@pytest.fixture
def ring() -> InOrder:
    sites = InOrder(RING)
    sites.subscribe("c")
    know_all(sites)
    return sites


def _pass(sites: InOrder) -> None:
    for _ in range(3):
        sites.pass_time(3.0)
        sites.settle()


def _names(sites: InOrder, site: str) -> list[str]:
    return [name for where, name in sites.delivered if where == site]


def test_what_waits_where_no_way_is_up_goes_before_what_comes_then(ring: InOrder) -> None:
    ring.cut("b", "c")
    _pass(ring)
    ring.cut("d", "e")
    ring.publish("a", "m0", depth=-1)  # goes to f, which cannot pass it on
    _pass(ring)
    ring.publish("a", "m1", depth=-1)
    _pass(ring)
    ring.join("b", "c")
    _pass(ring)
    assert _names(ring, "c") == ["m0", "m1"]


def test_what_waits_for_a_neighbour_goes_before_what_comes_then() -> None:
    sites = InOrder(RING)
    sites.subscribe("f")
    know_all(sites)
    sites.cut("a", "f")
    _pass(sites)
    sites.cut("d", "e")
    sites.publish("a", "m0", depth=-1)  # goes to b, c and d, which cannot pass it on
    _pass(sites)
    sites.publish("a", "m1", depth=-1)
    _pass(sites)
    sites.join("a", "f")
    _pass(sites)
    assert _names(sites, "f") == ["m0", "m1"]


def test_what_had_ended_and_came_again_is_repeated_before_what_came_later() -> None:
    """b is given m0 a second time, for e, while it holds m1 for c."""
    sites = InOrder(RING)
    for name in "bce":
        sites.subscribe(name)
    know_all(sites)
    sites.cut("e", "f")
    sites.publish("a", "m0", depth=-1)
    sites.settle()
    for name in "bc":
        sites.commit(name, "m0")
    sites.settle()
    sites.cut("b", "c")
    sites.publish("a", "m1", depth=-1)
    sites.settle()
    sites.now += 3.0
    sites.routers["f"].timing.tick(sites.now)  # so a hears of e, and not of c
    sites.take("f")
    sites.settle()
    sites.join("b", "c")
    _pass(sites)
    assert _names(sites, "e") == ["m0", "m1"]
