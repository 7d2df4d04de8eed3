"""More sites want a message than one transfer can name: there are as many as it takes, and few on a link."""

from typing import Final

import pytest

from routing.link import codec
from routing.link.codec import DESTINATIONS_MAX, are_destinations, in_parts
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation

LONG: Final = "x" * 230
NEAR: Final = [f"n{number}" for number in range(10)]
FAR: Final = {near: [f"f{number}.{near}.{LONG}" for number in range(11)] for near in NEAR}


@pytest.fixture(scope="module")
def tree() -> RouterFederation:
    """A is linked with b, b with ten sites, each of these with eleven of long names, which want the topic."""
    links = {("a", "b"), *(("b", near) for near in NEAR)}
    sites = RouterFederation(links | {(far, near) for near in NEAR for far in FAR[near]})
    for near in NEAR:
        for far in FAR[near]:
            sites.subscribe(far)
    sites.subscribe("a", "x:publisher@a", channel="publisher", lock_s=1e9)
    know_all(sites)
    return sites


def test_all_have_it_once_and_are_counted_and_few_links_carry_it_twice(tree: RouterFederation) -> None:
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
def test_those_that_are_not_answered_are_sent_again_all_of_them(tree: RouterFederation, receipt: str) -> None:
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


def few_at_once(monkeypatch: pytest.MonkeyPatch, links: set[tuple[str, str]]) -> RouterFederation:
    """One transfer names two sites at most; s0 to s6, which hub is linked with, want the topic."""
    monkeypatch.setattr(codec, "DESTINATIONS_MAX", 2)
    wanting = [f"s{number}" for number in range(7)]
    sites = RouterFederation(links | {("hub", site) for site in wanting})
    for site in wanting:
        sites.subscribe(site, lock_s=1e9)
    sites.subscribe("a", "x:publisher@a", channel="publisher", lock_s=1e9)
    know_all(sites)
    return sites


def finish(sites: RouterFederation) -> None:
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    for number in range(7):
        assert sites.delivered[f"s{number}", "m"] == 1
        sites.commit(f"s{number}", "m")
    sites.settle()


@pytest.mark.parametrize("is_down", [False, True])
def test_each_of_many_questions_is_repeated_for_what_it_was_for(
    monkeypatch: pytest.MonkeyPatch, is_down: bool
) -> None:
    """There are four, which are lost with the link, or wait for it."""
    sites = few_at_once(monkeypatch, {("a", "hub")})
    if is_down:
        sites.cut("a", "hub")
    sites.publish("a", depth=-1, receipt="ALL")
    if not is_down:
        sites.bulk["a", "hub"].clear()
        sites.cut("a", "hub")
    sites.settle()
    sites.join("a", "hub")
    finish(sites)
    assert sites.receipts == ["7/7"]


def test_all_that_has_not_gone_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four transfers wait for a link that is down when there is another way."""
    sites = few_at_once(monkeypatch, {("a", "p"), ("a", "q"), ("p", "hub"), ("q", "hub")})
    sites.cut("a", "p")
    sites.cut("a", "q")
    sites.settle()
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle()
    [copy] = sites.routers["a"].federation.outlook.copies.values()
    [(waits_for, kept_back)] = copy.kept_back.items()
    assert len(kept_back) == 4
    sites.join("a", "q" if waits_for == "p" else "p")
    finish(sites)
    assert sites.receipts == ["7/7"]
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
    assert not sites.routers["a"]._state.asked_of
