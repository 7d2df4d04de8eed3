"""More sites want a message than one transfer can name: there are as many as it takes, and few on a link."""

from typing import Final

import pytest

from routing.link.codec import DESTINATIONS_MAX, are_destinations, in_parts
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation

LONG: Final = "x" * 230
NEAR: Final = [f"n{number}" for number in range(10)]
FAR: Final = {near: [f"f{number}.{near}.{LONG}" for number in range(11)] for near in NEAR}


@pytest.fixture(scope="module")
def tree() -> Federation:
    """A is linked with b, b with ten sites, each of these with eleven of long names, which want the topic."""
    links = {("a", "b"), *(("b", near) for near in NEAR)}
    sites = Federation(links | {(far, near) for near in NEAR for far in FAR[near]})
    for near in NEAR:
        for far in FAR[near]:
            sites.subscribe(far)
    sites.subscribe("a", "x:publisher@a", channel="publisher", lock_s=1e9)
    know_all(sites)
    return sites


def test_all_have_it_once_and_are_counted_and_few_links_carry_it_twice(tree: Federation) -> None:
    """Two transfers go to b; from there on one site at most may be on ways to sites that either names."""
    before = tree.transfers
    tree.publish("a", depth=-1, receipt="ALL")
    assert len(tree.bulk["a", "b"]) == 2
    tree.settle()
    assert tree.transfers - before <= 2 + len(NEAR) + 1 + 110
    for near in NEAR:
        for far in FAR[near]:
            assert tree.delivered[far, "m"] == 1
            tree.commit(far, "m")
    tree.settle()
    assert tree.receipts == ["110/110"]


@pytest.mark.parametrize("receipt", ["NONE", "ALL"])
def test_those_that_are_not_answered_are_sent_again_all_of_them(tree: Federation, receipt: str) -> None:
    """The link breaks while both are on their way."""
    receipts = len(tree.receipts)
    tree.publish("a", receipt, depth=-1, receipt=receipt)
    tree.bulk["a", "b"].clear()
    tree.cut("a", "b")
    tree.settle()
    tree.join("a", "b")
    tree.settle()
    for near in NEAR:
        for far in FAR[near]:
            assert tree.delivered[far, receipt] == 1
            tree.commit(far, receipt)
    tree.settle()
    assert tree.receipts[receipts:] == (["110/110"] if receipt == "ALL" else [])


def test_each_part_can_be_named_and_none_is_left_out() -> None:
    for sites in (
        [f"n{number}" for number in range(3 * DESTINATIONS_MAX)],
        [f"n{number}.{'x' * 180}" for number in range(200)],
        ["a"],
    ):
        parts = in_parts(sites)
        assert all(map(are_destinations, parts))
        assert [site for part in parts for site in part] == sites
        assert len(parts) <= 4
