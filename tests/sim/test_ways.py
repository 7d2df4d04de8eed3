"""The profile with many ways: what its seeds are, and what is due over ways that stayed up."""

import msgspec

from tests.sim.drawing import LAST, LOSSES_MAX, SPREADS_S, WHILE_LOST, draw
from tests.sim.ledger import Ledger
from tests.sim.promises import due_by_ways
from tests.sim.scenario import WHEN_LOST, WHEN_QUIET, Link, PlannedReader, Scenario

RING = ("a", "b", "c", "d", "e")


def ring(depth: int) -> Scenario:
    """Five sites in a ring; one message, published at `a`, and a reader at `c`, two links away."""
    drawn = draw(1)
    pairs = zip(RING, RING[1:] + RING[:1], strict=True)
    links = [Link(min(pair), max(pair), 0.01, 0.0, 0.0, flood=False) for pair in pairs]
    reader = PlannedReader("c", "r", "t", "BOTH", 1, 1.0, 0.0, None, 0.0, 0.0, acknowledges_all=False)
    message = next(one for one in drawn.publications if one.guarantee)
    message = msgspec.structs.replace(
        message, site="a", topic="t", mode="ALL", depth=depth, timeout_s=None, removed_at=None
    )
    return msgspec.structs.replace(
        drawn, sites=list(RING), links=links, readers=[reader], publications=[message], faults=[]
    )


def is_due(depth: int, *lost: str | tuple[str, str]) -> bool:
    ledger = Ledger(ring(depth), lambda: 0.0)
    (publication,) = ledger.scenario.publications
    ledger.accepted(publication, "a/01a1ee569747-1-1")
    return bool(due_by_ways(ledger, lost))


def test_most_seeds_have_many_sites_and_circles_and_some_lose_something_for_good() -> None:
    scenarios = [draw(seed, profile="ways") for seed in range(100)]
    circles = [one for one in scenarios if 8 <= len(one.sites) <= 20 and len(one.links) >= len(one.sites)]
    assert len(circles) >= 50
    assert {len(one.losses) for one in scenarios} == set(range(LOSSES_MAX + 1))
    assert {loss.kind for one in scenarios for loss in one.losses} == {"dies", "blackhole"}


def test_seeds_of_the_other_profile_lose_nothing_for_good() -> None:
    assert not any(draw(seed).losses for seed in range(100))


def test_each_seed_has_messages_that_meet_no_fault() -> None:
    for seed in range(20):
        last = [one for one in draw(seed, profile="ways").publications if one.at == WHEN_QUIET]
        assert len(last) == LAST
        assert {one.mode for one in last} == {"ALL"}


def test_messages_are_published_as_something_is_lost_and_while_it_is() -> None:
    for drawn in (draw(seed, profile="ways") for seed in range(20)):
        added = [one for one in drawn.publications if one.key.startswith("lost")]
        assert len([one for one in added if one.at == WHEN_LOST]) == (WHILE_LOST if drawn.losses else 0)
        for loss in drawn.losses:
            assert len([one for one in added if loss.at <= one.at <= loss.at + SPREADS_S]) >= WHILE_LOST


def test_what_another_way_within_depth_can_bring_is_due() -> None:
    assert is_due(2)
    assert is_due(3, "b")
    assert is_due(-1, ("b", "c"))
    assert is_due(2, "d", ("d", "e"))


def test_what_no_way_within_depth_can_bring_is_not() -> None:
    assert not is_due(2, "b")
    assert not is_due(2, ("a", "b"))
    assert not is_due(-1, "b", "d")
    assert not is_due(-1, "a")
    assert not is_due(-1, "c")


def test_what_nobody_was_promised_is_not_due() -> None:
    ledger = Ledger(ring(-1), lambda: 0.0)
    assert due_by_ways(ledger, ()) == []
