"""A copy whose timeout has ended, and that is left to a subscriber who had received it."""

from routing.decisions import Deliver
from routing.federation.copies import Arrival, PeerRules, UnitId
from routing.federation.decisions import Acknowledge, Send
from routing.federation.interest import InterestChange
from routing.message import Message
from routing.router import Router
from routing.subscription import SubscribeOptions
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


def test_it_goes_no_further_by_a_way_that_is_shorter_and_ends_with_its_reader() -> None:
    router = Router("beta", 1, SETTINGS, lambda: 1_795_000_000_000)
    for peer in ("alpha", "gamma", "delta"):
        router.federation.set_peer(peer, PeerRules())
        router.federation.link_up(peer, 1_000.0)
    router.federation.hear_interest("delta", [InterestChange("ALL", "t", 0)], 1_000.0, whole=True)
    bob = router.open(None, "bob", "desk")
    router.subscribe(bob, "t", SubscribeOptions(), 1, 1_000.0)
    router.federation.arrive(arrival("alpha", 0, 3.0), 1_000.0)
    [delivered] = [one for one in router.take() if isinstance(one, Deliver)]
    router.received(bob, [delivered.number], 2)
    router.tick(1_004.0)
    router.take()

    router.federation.arrive(arrival("gamma", 5, 0.0), 1_005.0)
    told = router.take()
    assert [one.outcome for one in told if isinstance(one, Acknowledge)] == ["depth"]
    assert not any(isinstance(one, Send) for one in told)
    router.commit(bob, [delivered.number], 3, 1_006.0)
    assert not router.state.entries
