"""What a site keeps that has one owner: where it may rest, and where it has a way."""

from collections.abc import Collection

import msgspec
import pytest

from routing.peering.news import DESTINATIONS
from tests.routing.federation.test_destinations import know_all
from tests.sim.drawing import draw
from tests.sim.ledger import Ledger
from tests.sim.resting import Resting
from tests.sim.scenario import Link, PlannedReader
from tests.support.sites import IN_NEWS, RouterFederation
from tests.support.wants import after

SQUARE = {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}
ACCOUNT = "x:reader@c"


def square(*, older: Collection[str] = (), features: tuple[str, ...] = IN_NEWS) -> RouterFederation:
    sites = RouterFederation(SQUARE, older=older)
    know_all(sites, features)
    return sites


def overdue(
    sites: RouterFederation, *lost: str | tuple[str, str], topic: str = "t", left: str = "", silent: str = ""
) -> list[str]:
    """What is said of the one message of these sites, which somebody takes at c, as the judge knows.

    And subscriptions at the sites that are `left`; those that are `silent` do not say who is attached.
    """
    links = [Link(*pair, 0.01, 0.0, 0.0, flood=False) for pair in sorted(SQUARE)]
    reader = PlannedReader("c", "r", "t", "ONE", 1, 1.0, 0.0, None, 0.0, 0.0, acknowledges_all=False)
    others = [msgspec.structs.replace(reader, site=site, leaves_at=0.0) for site in left]
    drawn = draw(1)
    message = msgspec.structs.replace(drawn.publications[0], topic="t", mode="ONE")
    scenario = msgspec.structs.replace(
        drawn,
        sites=list("abcd"),
        links=links,
        readers=[reader, *others],
        publications=[message],
        tell_attached=frozenset("abcd").difference(silent),
    )
    ledger = Ledger(scenario, lambda: 0.0)
    if topic == "t":
        (smuid,) = {message.smuid for message in sites.messages.values()}
        ledger.accepted(message, smuid)
    there = {name: router for name, router in sites.routers.items() if name not in lost}
    return list(Resting(ledger, lost).overdue(there))


def waiting(depth: int) -> RouterFederation:
    """One waits at a, as no site has said that somebody takes it."""
    sites = square()
    sites.publish("a", depth=depth, delivery="ONE")
    after(sites)
    return sites


def test_what_could_come_to_somebody_is_overdue() -> None:
    assert overdue(waiting(-1))
    assert overdue(waiting(2), "d")
    assert overdue(waiting(2), ("b", "c"))


def test_what_has_no_way_within_its_depth_may_wait() -> None:
    assert not overdue(waiting(-1), "b", "d")
    assert not overdue(waiting(-1), "b", ("c", "d"))
    assert not overdue(waiting(-1), "c")
    assert not overdue(waiting(-1), "a")
    assert not overdue(waiting(1))
    assert not overdue(waiting(0))


def test_what_rests_with_a_subscription_that_is_left_may_do_so_only_while_nobody_can_be_reached() -> None:
    assert overdue(waiting(-1), left="a")
    assert overdue(waiting(-1), left="d")
    assert not overdue(waiting(-1), "c", left="a")
    assert not overdue(waiting(-1), "c", left="ad")
    assert overdue(waiting(-1), "c", left="d")
    assert not overdue(waiting(1), left="a")
    assert overdue(waiting(1), left="d"), "who is attached is beyond its depth"
    assert not overdue(waiting(-1), left="a", silent="a")
    assert overdue(waiting(-1), left="a", silent="c")


def test_what_somebody_has_in_hand_is_not_overdue_and_what_nobody_has_there_is() -> None:
    sites = square()
    sites.subscribe("c", accepts="ONE")
    after(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    after(sites)
    assert not overdue(sites)
    at_c = square()
    at_c.publish("c", depth=0, delivery="ONE")
    assert overdue(at_c)


def test_what_was_handed_over_waits_for_a_peer_that_is_lost_and_for_no_other() -> None:
    sites = square()
    sites.subscribe("c", accepts="ONE")
    after(sites)
    sites.publish("b", depth=-1, delivery="ONE")
    assert overdue(sites)
    assert not overdue(sites, "c")
    assert not overdue(sites, ("b", "c"))
    assert overdue(sites, ("c", "d"))


def test_what_is_for_an_account_may_go_as_far_as_that_is() -> None:
    sites = square()
    sites.cut("a", "b")
    sites.cut("a", "d")
    sites.publish("a", topic=ACCOUNT)
    assert overdue(sites, ("a", "b"), topic=ACCOUNT)
    assert not overdue(sites, ("a", "b"), ("a", "d"), topic=ACCOUNT)


@pytest.mark.parametrize(("older", "silent"), [("", ""), ("abcd", ""), ("abcd", "abcd")])
def test_a_way_back_is_none_where_a_peer_that_is_lost_has_told_that_it_is_nearer(
    older: str, silent: str
) -> None:
    """But to who is attached, for sites that tell so themselves."""
    sites = square(older=older, features=(DESTINATIONS,) if silent else IN_NEWS)
    sites.subscribe("c", accepts="ONE")
    after(sites)
    sites.cut("c", "d")
    after(sites)
    sites.publish("a", depth=-1, delivery="ONE")
    sites.join("c", "d")
    sites.cut("b", "c")
    after(sites)
    assert bool(sites.delivered) == (not silent)
    assert not overdue(sites, ("b", "c"), silent=silent)
    assert bool(overdue(sites, silent=silent)) == bool(silent)
