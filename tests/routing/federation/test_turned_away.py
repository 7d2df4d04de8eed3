"""Copies that a site does not take: the peer is answered, and the hop log has a record of each."""

from collections.abc import Sequence

import pytest

from routing.decisions import Refused
from routing.message import DeliveryMode, Message, Section
from routing.peering.copies import Arrival, PeerRules, UnitId
from routing.peering.decisions import AcknowledgeUnit
from routing.peering.wants import InterestChange
from routing.router import Router
from tests.support.sites import SETTINGS

NOW = 1_000.0


def arrival(mode: DeliveryMode, hops: tuple[str, ...], topic: str = "t") -> Arrival:
    message = Message(
        smuid="alpha/01a1ee569747-1-1",
        account="ada:desk@alpha",
        delivery=mode,
        sections=(Section("text/plain", b"rain"),),
    )
    return Arrival(
        peer="alpha",
        unit=UnitId(1, 1),
        topic=topic,
        message=message,
        mode=mode,
        depth=-1,
        hops=hops,
        timeout_left_s=None,
        query=0,
    )


@pytest.fixture
def router() -> Router:
    router = Router("beta", 1, SETTINGS, lambda: 1_795_000_000_000)
    router.federation.set_peer("alpha", PeerRules(allow_in=("t",)))
    return router


def arrive(router: Router, copy: Arrival) -> tuple[Sequence[str], list[str]]:
    """What the peer is answered, and what is on record as turned away."""
    router.federation.arriving.arrive(NOW, copy)
    decisions = router.take()
    answers = [one.outcome for one in decisions if isinstance(one, AcknowledgeUnit)]
    return answers, [one.event for one in decisions if isinstance(one, Refused)]


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_a_copy_that_comes_again_is_a_duplicate(router: Router, mode: DeliveryMode) -> None:
    assert arrive(router, arrival(mode, ("alpha",))) == (["accepted"], [])
    assert arrive(router, arrival(mode, ("alpha",))) == (["duplicate"], ["duplicate"])


def test_a_copy_that_has_been_here_by_its_own_word_has_looped(router: Router) -> None:
    assert arrive(router, arrival("ALL", ("alpha", "beta", "alpha"))) == (["loop"], ["loop"])


def test_a_copy_of_a_topic_that_may_not_come_is_denied(router: Router) -> None:
    assert arrive(router, arrival("ALL", ("alpha",), "other")) == (["denied"], ["denied"])


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_a_copy_of_what_was_removed_is_a_duplicate(router: Router, mode: DeliveryMode) -> None:
    router.federation.removing.hear(NOW, "alpha", "alpha/01a1ee569747-1-1", "t")
    router.take()
    assert arrive(router, arrival(mode, ("alpha",))) == (["duplicate"], ["duplicate"])


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_a_copy_in_another_mode_than_the_message_has_here_is_denied(
    router: Router, mode: DeliveryMode
) -> None:
    """A message has one mode at all sites, that of its origin: what has one custodian goes to no other."""
    router.federation.set_peer("gamma", PeerRules())
    router.federation.link_up("gamma")
    router.federation.wanting.hear("gamma", [InterestChange("ALL", "t", 0)], whole=True)
    router.take()
    copy = arrival(mode, ("alpha",))
    copy.depth = 2
    assert arrive(router, copy) == (["accepted"], [])
    other = arrival("ALL" if mode == "ONE" else "ONE", ("delta", "alpha"))
    assert arrive(router, other) == (["denied"], ["denied"])
    assert len(router._state.entries) == 1
