"""What a site holds for others, as one more source of it, is nobody's at that site."""

import pytest

from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation


def away() -> Federation:
    """X wants the topic, and is away from its only peer; w has it at once."""
    sites = Federation({("a", "b"), ("b", "y"), ("x", "y"), ("b", "w")})
    sites.subscribe("x")
    sites.subscribe("w")
    know_all(sites)
    sites.cut("y", "x")
    after(sites, 3.0)
    return sites


def after(sites: Federation, seconds: float) -> None:
    sites.settle()
    sites.pass_time(seconds)
    sites.settle()


def empty(sites: Federation, where: str, *, delete: bool = False) -> None:
    """An operator takes away what the topic holds there."""
    topics = sites.routers[where].topics
    (topics.delete if delete else topics.purge)(sites.now, sites.consumer(where, "operator"), "t", None)
    sites.pass_time(0.0)
    sites.settle()


def come_back(sites: Federation) -> None:
    sites.join("x", "y")
    for _ in range(3):
        after(sites, 3.0)


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("where", ["a", "b"])
def test_to_empty_a_topic_takes_nothing_from_others_that_the_site_has_passed_on(
    where: str, delete: bool
) -> None:
    """Nobody there is due to have it, and those elsewhere have it, or their peers have."""
    sites = away()
    sites.publish("a", depth=-1)
    sites.settle()
    empty(sites, where, delete=delete)
    come_back(sites)
    assert sites.delivered == {("w", "m"): 1, ("x", "m"): 1}


def test_nor_where_a_subscriber_of_the_site_has_had_it_or_leaves() -> None:
    sites = away()
    gone, stays = sites.subscribe("b", channel="gone"), sites.subscribe("b", channel="stays")
    after(sites, 3.0)
    sites.publish("a", depth=-1)
    sites.settle()
    [router, held] = [sites.routers["b"], sites.held["b", "m"]]
    [number] = [number for consumer, number in held if consumer is stays]
    router.acknowledging.commit(sites.now, stays, [number], None)
    router.subscribing.unsubscribe(sites.now, gone, "t", "", None)
    after(sites, 3.0)
    empty(sites, "b")
    come_back(sites)
    assert sites.delivered["x", "m"] == 1


def test_what_a_peer_waits_with_for_want_of_a_way_is_that_peers_too() -> None:
    """It says that there is none, and holds it for when there is one."""
    sites = away()
    sites.publish("a", depth=-1)
    sites.settle()
    for where, peer in (("b", "y"), ("a", "b")):
        sites.routers[peer].federation._words.note(where, "no-way", sites.records[0][1].entry.smuid("a"), "x")
        sites.pass_time(0.0)
        sites.settle()
    empty(sites, "a")
    come_back(sites)
    assert sites.delivered["x", "m"] == 1


@pytest.mark.parametrize("where", ["a", "b", "y"])
def test_what_a_subscriber_of_the_site_has_not_had_yet_is_taken_from_all(where: str) -> None:
    """As whoever removes it would: it is the site's, as what is sent and not acknowledged."""
    sites = away()
    if where != "y":
        sites.subscribe(where)
    after(sites, 3.0)
    sites.publish("a", depth=-1)
    sites.settle()
    empty(sites, where)
    come_back(sites)
    assert not sites.delivered["x", "m"]
    for router in sites.routers.values():
        assert not router._state.entries


def test_what_is_kept_for_whoever_joins_is_taken_from_all() -> None:
    sites = away()
    sites.publish("a", depth=-1, timeout_s=3600.0)
    sites.settle()
    empty(sites, "a")
    come_back(sites)
    assert not sites.delivered["x", "m"]


def test_what_no_peer_would_have_is_the_sites_own() -> None:
    sites = Federation({("a", "b")})
    sites.subscribe("b")
    know_all(sites)
    sites.routers["b"].federation.forwarding.peers["a"].rules = PeerRules(allow_in=("other",))
    sites.publish("a", depth=-1)
    sites.settle()
    assert len(sites.routers["a"]._state.entries) == 1
    empty(sites, "a")
    assert not sites.routers["a"]._state.entries
