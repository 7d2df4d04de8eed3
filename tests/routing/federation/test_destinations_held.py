"""What a site holds for others, as one more source of it, is nobody's at that site."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from routing.errors import Refusal
from routing.peering.copies import PeerRules
from routing.peering.crossing import DESTINATION_BYTES
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation
from tests.support.stored_sites import StoredFederation
from tests.support.wants import after


def away() -> RouterFederation:
    """X wants the topic, and is away from its only peer; w has it at once."""
    sites = RouterFederation({("a", "b"), ("b", "y"), ("x", "y"), ("b", "w")})
    sites.subscribe("x")
    sites.subscribe("w")
    know_all(sites)
    sites.cut("y", "x")
    after(sites, 3.0)
    return sites


def empty(sites: RouterFederation, where: str, *, delete: bool = False) -> None:
    """An operator takes away what the topic holds there."""
    topics = sites.routers[where].topics
    (topics.delete if delete else topics.purge)(sites.now, sites.consumer(where, "operator"), "t", None)
    sites.pass_time(0.0)
    sites.settle()


def come_back(sites: RouterFederation) -> None:
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
    sites = RouterFederation({("a", "b")})
    sites.subscribe("b")
    know_all(sites)
    sites.routers["b"].federation.forwarding.peers["a"].rules = PeerRules(allow_in=("other",))
    sites.publish("a", depth=-1)
    sites.settle()
    assert len(sites.routers["a"]._state.entries) == 1
    empty(sites, "a")
    assert not sites.routers["a"]._state.entries


def bound(sites: RouterFederation, where: str, account_messages: int = 10**9, **most: Any) -> None:
    state = sites.routers[where]._state
    state.settings = msgspec.structs.replace(state.settings, **most)
    state.shares._bounds = lambda account: (account_messages, 10**9)
    state.shares.reconfigure()


def held_of(sites: RouterFederation) -> tuple[int, int]:
    """What the site holds, and what of that counts for whoever published it."""
    state = sites.routers["a"]._state
    share = state.shares.of("x")
    assert bool(share.bytes) == bool(share.messages)
    return len(state.entries), share.messages


def test_what_others_have_taken_over_uses_up_no_quota_of_who_published_it() -> None:
    sites = away()
    bound(sites, "a", account_messages=10)
    for number in range(15):
        sites.publish("a", f"m{number}", depth=-1)
        assert held_of(sites) == (number + 1, 1)
        sites.settle()
    assert held_of(sites) == (15, 0)
    come_back(sites)
    assert held_of(sites) == (0, 0)
    assert sum(sites.delivered.values()) == 30


def test_nor_after_a_start(tmp_path: Path) -> None:
    sites = StoredFederation(tmp_path, {("a", "b"), ("b", "x")})
    sites.subscribe("x")
    sites.begin_news()
    for _ in range(2):
        after(sites, 3.0)
    sites.cut("b", "x")
    after(sites, 3.0)
    sites.publish("a", depth=-1)
    for _ in range(2):  # so that it is stored who has answered
        after(sites, 61.0)
    sites.kill("a")
    sites.start("a", "b")
    try:
        assert held_of(sites) == (1, 0)
        sites.join("b", "x")
        after(sites, 3.0)
        assert held_of(sites) == (0, 0)
        assert sites.delivered["x", "m"] == 1
    finally:
        sites.close()


def test_it_counts_until_a_subscriber_of_the_site_has_had_it() -> None:
    sites = away()
    sites.subscribe("a")
    after(sites, 3.0)
    sites.publish("a", depth=-1)
    sites.settle()
    assert held_of(sites) == (1, 1)
    sites.commit("a", "m")
    assert held_of(sites) == (1, 0)


def test_it_counts_until_the_last_subscription_that_has_not_had_it_ends() -> None:
    sites = away()
    gone = sites.subscribe("a")
    after(sites, 3.0)
    sites.publish("a", depth=-1)
    sites.settle()
    sites.routers["a"].subscribing.unsubscribe(sites.now, gone, "t", "", None)
    assert held_of(sites) == (1, 0)


def test_it_counts_again_once_the_peer_has_it_no_more() -> None:
    sites = away()
    sites.publish("a", depth=-1)
    sites.settle()
    sites.cut("a", "b")
    sites.join("a", "b")
    [entry] = sites.routers["a"]._state.entries.values()
    sites.routers["a"].federation.destinations_heard.hear(sites.now, "b", "again", {entry.smuid("a"): ["x"]})
    sites.take("a")
    assert held_of(sites) == (1, 1)
    after(sites, 3.0)
    assert held_of(sites) == (1, 0)


def test_a_full_topic_may_have_as_much_again_that_others_have_taken_over() -> None:
    sites = away()
    bound(sites, "a", queue_messages_max=10)
    for number in range(20):
        sites.publish("a", f"m{number}", depth=-1)
        sites.settle()
    with pytest.raises(Refusal, match="holds as much as it may"):
        sites.publish("a", "more", depth=-1)
    come_back(sites)
    assert sum(sites.delivered.values()) == 40
    sites.publish("a", "more", depth=-1)


def test_so_may_what_has_come_from_one_peer() -> None:
    sites = away()
    bound(sites, "b", queue_messages_max=10)
    has_room = sites.routers["b"].federation.forwarding.has_room
    for number in range(20):
        assert has_room("a", "t", 1)
        sites.publish("a", f"m{number}", depth=-1)
        sites.settle()
    assert not has_room("a", "t", 1)
    come_back(sites)
    assert has_room("a", "t", 1)


def test_what_is_remembered_of_destinations_counts_as_bytes_of_the_topic_and_of_the_peer() -> None:
    """Nothing of it is left over in the end."""
    sites = RouterFederation({("a", "b"), ("b", "x"), ("b", "y"), ("b", "z")})
    for name in ("x", "y", "z"):
        sites.subscribe(name)
    know_all(sites)
    for name in ("x", "y", "z"):
        sites.cut("b", name)
    after(sites, 3.0)
    for where in ("a", "b"):
        bound(sites, where, queue_bytes_max=5 * DESTINATION_BYTES)
    has_room = sites.routers["b"].federation.forwarding.has_room
    sites.publish("a", "m0", depth=-1)
    sites.settle()
    assert has_room("a", "t", 1)
    sites.cut("a", "b")
    sites.publish("a", "m1", depth=-1)
    sites.publish("a", "m2", depth=-1)
    with pytest.raises(Refusal, match="holds as much as it may"):
        sites.publish("a", "m3", depth=-1)
    sites.join("a", "b")
    sites.settle()
    assert not has_room("a", "t", 1)
    for name in ("x", "y", "z"):
        sites.join("b", name)
    for _ in range(3):
        after(sites, 3.0)
    assert sum(sites.delivered.values()) == 9
    for where in ("a", "b"):
        crossing = sites.routers[where]._state.crossing
        assert not crossing.besides
        assert not crossing._held_from
