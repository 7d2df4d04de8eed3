"""A copy that is held for peers alone: the message was here before, and came again to go further."""

import pytest

from routing.decisions import Record
from routing.message import Message
from routing.peering.copies import Answered, Arrival, PeerRules, UnitId
from routing.peering.decisions import Send
from routing.peering.wants import InterestChange
from routing.queue import COMMITTED_STATES, Entry
from routing.router import Router
from tests.support.sites import SETTINGS

NOW = 1_000.0
SMUID = "alpha/01a1ee569747-1-1"


def site(boot: int) -> Router:
    router = Router("beta", boot, SETTINGS, lambda: 1_795_000_000_000)
    for peer in ("alpha", "gamma", "delta"):
        router.federation.set_peer(peer, PeerRules())
    return router


def arrive(router: Router, now: float, peer: str, depth: int, timeout_left_s: float | None) -> None:
    message = Message(smuid=SMUID, account="ada:desk@alpha")
    router.federation.arriving.arrive(
        now,
        Arrival(
            peer=peer,
            unit=UnitId(1, 1),
            topic="t",
            message=message,
            mode="ALL",
            depth=depth,
            hops=(peer,),
            timeout_left_s=timeout_left_s,
            query=0,
        ),
    )


def restarted(router: Router, now: float) -> Router:
    """The site after a start, with the copies that it held on disk."""
    again = site(2)
    restore = again.restore(now)
    copies = router.federation.outlook.copies.values()
    for copy in copies:
        restore.copy(copy.entry.id, copy.depth, copy.hops, copy.forwards)
    for copy in copies:
        held = copy.entry
        topic, flags = restore.topic_of(held.topic.name), held.flags & COMMITTED_STATES
        entry = Entry(held.id, topic, SMUID, held.priority, held.size, flags, 0, held.deadline)
        restore.message(
            entry,
            [],
            publisher="ada:desk@alpha",
            cmuid="",
            sequence=0,
            receipt_due=0,
            receipt_mode="ALL",
        )
    restore.end()
    again.timing.tick(now)
    return again


def wanted_by_delta(router: Router, now: float) -> None:
    router.federation.link_up("delta")
    router.federation.wanting.hear("delta", [InterestChange("ALL", "t", 0)], whole=True)


def sends(router: Router) -> list[tuple[str, int]]:
    """To whom, and with which depth."""
    return [(one.peer, one.depth) for one in router.take() if isinstance(one, Send)]


@pytest.fixture
def beta() -> Router:
    """Here the message has expired before a longer way brings more of its time, and more depth."""
    router = site(1)
    arrive(router, NOW, "alpha", 0, 3.0)
    router.timing.tick(NOW + 4)
    assert not router._state.entries
    return router


@pytest.mark.parametrize("restarts", [False, True])
def test_who_wants_it_later_gets_it_until_its_timeout_ends(beta: Router, *, restarts: bool) -> None:
    arrive(beta, NOW + 5, "gamma", 5, 100.0)
    if restarts:
        beta = restarted(beta, NOW + 6)
    beta.take()
    wanted_by_delta(beta, NOW + 7)
    assert sends(beta) == [("delta", 4)]
    [copy] = beta.federation.outlook.copies.values()
    beta.federation.acknowledged(NOW + 8, "delta", copy.entry.id, Answered("accepted"))
    assert beta._state.entries
    beta.timing.tick(NOW + 110)
    ends = [(one.event, one.final) for one in beta.take() if isinstance(one, Record)]
    assert ends == [("forwarded", False), ("expired", True)]
    assert not beta._state.entries


@pytest.mark.parametrize("restarts", [False, True])
def test_without_a_stated_timeout_it_ends_once_its_peers_have_it(beta: Router, *, restarts: bool) -> None:
    wanted_by_delta(beta, NOW + 4)
    beta.take()
    arrive(beta, NOW + 5, "gamma", 5, None)
    if restarts:
        beta = restarted(beta, NOW + 6)
        beta.federation.link_up("delta")
    assert sends(beta) == [("delta", 4)]
    [copy] = beta.federation.outlook.copies.values()
    beta.federation.acknowledged(NOW + 8, "delta", copy.entry.id, Answered("accepted"))
    ends = [(one.event, one.final) for one in beta.take() if isinstance(one, Record)]
    assert ends == [("forwarded", True)]
    assert not beta._state.entries
