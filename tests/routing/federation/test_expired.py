"""A copy whose timeout has ended, and that is left to a subscriber who had received it."""

from routing.decisions import Deliver
from routing.message import Message
from routing.options import SubscribeOptions
from routing.peering.copies import Arrival, PeerRules, UnitId
from routing.peering.decisions import AcknowledgeUnit, Send
from routing.peering.wants import InterestChange
from routing.router import Router
from routing.subscription import Consumer
from tests.support.sites import SETTINGS


def arrival(peer: str, depth: int, timeout_left_s: float) -> Arrival:
    return Arrival(
        peer=peer,
        unit=UnitId(1, 1),
        topic="t",
        message=Message(smuid="alpha/01a1ee569747-1-1", account="ada:desk@alpha"),
        mode="ALL",
        depth=depth,
        hops=(peer,),
        timeout_left_s=timeout_left_s,
        query=0,
    )


def test_it_does_not_go_to_a_peer_whose_link_comes_back_after_its_timeout() -> None:
    router = Router("beta", 1, SETTINGS, lambda: 1_795_000_000_000)
    for peer in ("alpha", "delta"):
        router.federation.set_peer(peer, PeerRules())
        router.federation.link_up(peer)
    router.federation.wanting.hear("delta", [InterestChange("ALL", "t", 0)], whole=True)
    bob = Consumer(None, "bob", "desk")
    router.subscribing.subscribe(1_000.0, bob, "t", SubscribeOptions(), 1)
    router.federation.link_down("delta")
    router.federation.arriving.arrive(1_000.0, arrival("alpha", 5, 3.0))
    [delivered] = [one for one in router.take() if isinstance(one, Deliver)]
    router.acknowledging.received(bob, [delivered.number], 2)
    router.timing.tick(1_004.0)
    router.take()

    router.federation.link_up("delta")
    assert not [one for one in router.take() if isinstance(one, Send)]
    router.acknowledging.commit(1_006.0, bob, [delivered.number], 3)
    assert not router._state.entries


def test_it_goes_no_further_by_a_way_that_is_shorter_and_ends_with_its_reader() -> None:
    router = Router("beta", 1, SETTINGS, lambda: 1_795_000_000_000)
    for peer in ("alpha", "gamma", "delta"):
        router.federation.set_peer(peer, PeerRules())
        router.federation.link_up(peer)
    router.federation.wanting.hear("delta", [InterestChange("ALL", "t", 0)], whole=True)
    bob = Consumer(None, "bob", "desk")
    router.subscribing.subscribe(1_000.0, bob, "t", SubscribeOptions(), 1)
    router.federation.arriving.arrive(1_000.0, arrival("alpha", 0, 3.0))
    [delivered] = [one for one in router.take() if isinstance(one, Deliver)]
    router.acknowledging.received(bob, [delivered.number], 2)
    router.timing.tick(1_004.0)
    router.take()

    router.federation.arriving.arrive(1_005.0, arrival("gamma", 5, 0.0))
    told = router.take()
    assert [one.outcome for one in told if isinstance(one, AcknowledgeUnit)] == ["depth"]
    assert not any(isinstance(one, Send) for one in told)
    router.acknowledging.commit(1_006.0, bob, [delivered.number], 3)
    assert not router._state.entries
