"""Tombstones: how long they are kept, and to whom they are told."""

import pytest

from routing.message import INFINITE, Message
from routing.peering.copies import PeerRules
from routing.peering.decisions import DiscardRemoval, TellRemoved
from routing.peering.removals import KEPT_S, Removals
from routing.router import Router
from routing.subscription import Consumer
from tests.support.sites import SETTINGS


def smuids(removals: Removals, after: int = 0) -> list[str]:
    return [removal.smuid for removal in removals.after(after)]


def test_what_is_too_old_is_forgotten() -> None:
    removals = Removals()
    removals.note("a/1", "t", at=0.0)
    removals.note("a/2", "t", at=100.0)
    removals.forget(KEPT_S + 50.0)
    assert "a/1" not in removals
    assert smuids(removals) == ["a/2"]


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.peering.removals.REMOVALS_MAX", 2)
    removals = Removals()
    for number in range(4):
        removals.note(f"a/{number}", "t", at=0.0)
        removals.make_room()
    assert smuids(removals) == ["a/2", "a/3"]


def test_those_after_a_number_come_in_their_order() -> None:
    removals = Removals()
    numbers = [removals.note(f"a/{number}", "t", at=0.0).number for number in range(4)]
    assert smuids(removals, after=numbers[1]) == ["a/2", "a/3"]


@pytest.fixture
def router() -> Router:
    """With a peer `b` and two removals, of which the peer has the first on disk."""
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
    router.federation.set_peer("b", PeerRules())
    router.federation.link_up("b")
    publisher = Consumer(None, "x", "p")
    for _ in range(2):
        router.publishing.publish(0.0, publisher, "t", Message(timeout_s=INFINITE, depth=1), "x:p@a", None)
    for entry in list(router._state.entries.values()):
        router.topics.remove(0.0, publisher, "t", entry.smuid("a"), None)
    first, _ = told(router)
    router.federation.removing.arrived("b", first)
    router.federation.link_down("b")
    return router


def told(router: Router) -> list[int]:
    return [decision.number for decision in router.take() if isinstance(decision, TellRemoved)]


def test_a_peer_that_was_cut_off_is_told_only_what_it_has_not(router: Router) -> None:
    router.federation.link_up("b", restarted=False)
    assert told(router) == [2]


def test_a_peer_that_has_restarted_is_told_everything(router: Router) -> None:
    router.federation.link_up("b", restarted=True)
    assert told(router) == [1, 2]


@pytest.mark.parametrize(("depth", "tombstones"), [(0, 0), (1, 2)])
def test_what_never_left_the_site_leaves_no_tombstone(depth: int, tombstones: int) -> None:
    router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
    router.federation.set_peer("b", PeerRules())
    router.federation.link_up("b")
    publisher = Consumer(None, "x", "p")
    for _ in range(2):
        router.publishing.publish(
            0.0, publisher, "t", Message(timeout_s=INFINITE, depth=depth), "x:p@a", None
        )
    first, _ = list(router._state.entries.values())
    router.topics.remove(0.0, publisher, "t", first.smuid("a"), None)
    router.topics.purge(0.0, publisher, "t", None)
    assert not router._state.entries
    assert len(told(router)) == len(router._state.removed) == tombstones


def test_who_tells_of_removals_without_end_drives_out_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.peering.removals.REMOVALS_MAX", 4)
    removals = Removals()
    for number in range(2):
        removals.note(f"a/{number}", "t", at=0.0)
    dropped = []
    for number in range(10):
        removals.note(f"b/{number}", "t", at=1.0, source="b")
        dropped.append(removals.make_room())
    assert smuids(removals) == ["a/0", "a/1", "b/8", "b/9"]
    assert dropped == [None, None, *(f"b/{number}" for number in range(8))]


def test_what_is_driven_out_is_taken_from_the_store(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.peering.removals.REMOVALS_MAX", 2)
    router.take()
    for number in range(3):
        assert router.federation.removing.hear(1.0, "b", f"b/018bcfe56800-1-{number}", "t")
    discarded = [decision.smuid for decision in router.take() if isinstance(decision, DiscardRemoval)]
    assert discarded[1:] == ["b/018bcfe56800-1-0", "b/018bcfe56800-1-1"]
