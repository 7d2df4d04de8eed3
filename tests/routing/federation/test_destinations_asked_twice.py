"""Receipts where one peer is asked twice at once: for a destination, and for what it tells of itself."""

import pytest

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation


@pytest.mark.parametrize("seed", range(8))
def test_who_is_asked_for_another_and_for_a_late_one_at_once_is_counted(seed: int) -> None:
    """Of p, which has just come to want it, b has heard, and a has not: b itself is nearer to a.

    So b sends p two transfers, one for x and one for whoever is there; each asks for the receipt.
    """
    sites = Federation({("a", "b"), ("b", "p"), ("p", "x")}, seed)
    for name in "bx":
        sites.subscribe(name)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
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
