"""What comes over a link for one account: it is taken if the account can read it and there is room."""

import msgspec

from routing.decisions import Refused
from routing.message import Message
from routing.names import make_smuid
from routing.peering.copies import Arrival, PeerRules, UnitId
from routing.peering.decisions import AcknowledgeUnit
from routing.router import Router
from tests.support.sites import SETTINGS, RouterFederation


def arrive(router: Router, number: int, topic: str, account: str = "eve:c@b") -> tuple[str, str]:
    """What the peer is told of a copy, and what the hop log says."""
    message = Message(smuid=make_smuid("b", 1_700_000_000_000, 1, number), account=account)
    arrival = Arrival(
        peer="b",
        unit=UnitId(1, number),
        topic=topic,
        message=message,
        mode="ONE",
        depth=-1,
        hops=("b",),
        timeout_left_s=60.0,
        query=0,
    )
    router.federation.arriving.arrive(0.0, arrival)
    out = router.take()
    (answer,) = (one for one in out if isinstance(one, AcknowledgeUnit))
    (reason,) = [one.reason for one in out if isinstance(one, Refused)] or [""]
    return answer.outcome, reason


def make_router(**settings: int) -> Router:
    router = Router(
        "a",
        1,
        msgspec.structs.replace(SETTINGS, **settings),
        lambda: 1_700_000_000_000,
        has_account=lambda account: account == "ada",
    )
    router.federation.set_peer("b", PeerRules())
    return router


def test_what_no_account_could_read_is_denied() -> None:
    router = make_router()
    assert arrive(router, 1, "ada:c@a") == ("accepted", "")
    assert arrive(router, 2, "nobody:c@a") == ("denied", "no account that can log in could read it")
    assert arrive(router, 3, "smqpd:system@a") == ("denied", "no account that can log in could read it")
    assert arrive(router, 4, "smqpd:system@z") == ("denied", "no account that can log in could read it")
    assert arrive(router, 5, "dead.ada:c@a") == ("denied", "dead letters are the server's own")
    assert arrive(router, 6, "anyone:c@z") == ("accepted", "")


def test_each_publisher_of_a_peer_has_its_own_bound_and_receipts_have_none() -> None:
    router = make_router(system_messages_max=16)
    assert [arrive(router, number, "ada:c@a")[0] for number in (1, 2, 3)] == [
        "accepted",
        "accepted",
        "denied",
    ]
    assert "2 messages of 0 bytes wait on the system topics of ada@a" in arrive(router, 4, "ada:c@a")[1]
    assert arrive(router, 1, "ada:c@a") == ("duplicate", "")
    assert arrive(router, 5, "ada:c@a", "bob:c@b") == ("accepted", "")
    for number in range(100, 200):
        assert arrive(router, number, "ada:c@a", "smqpd:system@b") == ("accepted", "")


def test_what_peers_bring_counts_for_no_account_here_whatever_its_name() -> None:
    router = make_router()
    for number, account in enumerate(["ada:c@b", "ada:c@a", "smqpd:system@b", "smqpd:system@a"], start=1):
        assert arrive(router, number, "ada:c@a", account) == ("accepted", "")
    assert arrive(router, 5, "jobs", "ada:c@a") == ("accepted", "")
    assert (router.view.share("ada").messages, router.view.share("ada").bytes) == (0, 0)


def test_what_a_peer_had_no_room_for_is_offered_again_and_soon_is_all_there() -> None:
    sites = RouterFederation({("a", "b")})
    sites.settle()
    a, b = sites.routers["a"], sites.routers["b"]
    b._state.settings = msgspec.structs.replace(SETTINGS, system_messages_max=80)
    names = [f"m{number}" for number in range(30)]
    for name in names:
        sites.publish("a", name, "x:reader@b")
    sites.settle()
    assert (b._state.guaranteed, a._state.guaranteed) == (10, 20)

    for _ in range(3):
        before = sites.transfers
        a.maintain(sites.now)
        sites.take("a")
        sites.settle()
        assert sites.transfers == before + 1
    assert (b._state.guaranteed, a._state.guaranteed) == (10, 20)

    sites.subscribe("b", "x:reader@b", "reader", credit=100)
    for name in names:
        sites.commit("b", name)
    a.maintain(sites.now)
    sites.take("a")
    sites.settle()
    assert (b._state.guaranteed, a._state.guaranteed) == (10, 10)
    for _ in range(3):
        for name in names:
            sites.commit("b", name)
        a.maintain(sites.now)
        sites.take("a")
        sites.settle()
    assert a._state.guaranteed == 0
    assert not a.federation.custody._denied
    assert sum(sites.delivered.values()) == 30
