"""What sites say that they want, and where copies go for that."""

import msgspec
import pytest

from routing.federation import own_leaves
from routing.peering.copies import PeerRules
from routing.peering.leaves import HASH_BYTES, bucket_of, write_digest
from routing.peering.news import SignedNews, read_statement, write_statement
from tests.routing.federation.test_destinations import RING, know_all
from tests.support.notary import NamedNotary
from tests.support.sites import RouterFederation
from tests.support.wants import after


def test_a_site_that_wants_it_no_more_is_waited_for_no_more() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    consumer = sites.subscribe("c")
    know_all(sites)
    sites.cut("b", "c")
    sites.publish("a", depth=-1)
    sites.settle()
    assert [len(sites.routers[name].federation.outlook.copies) for name in "ab"] == [1, 1]
    sites.routers["c"].subscribing.unsubscribe(sites.now, consumer, "t", "", None)
    sites.take("c")
    sites.join("b", "c")
    sites.pass_time(3.0)
    sites.settle()
    sites.pass_time(3.0)
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


def test_a_want_of_which_only_a_peer_has_told_counts() -> None:
    """Its site has just said something else in news; another that wants it is as near, and hides nobody."""
    sites = RouterFederation({("a", "e"), ("a", "d")}, 0)
    sites.subscribe("e")
    know_all(sites)
    sites.subscribe("d", "weather")
    sites.subscribe("d")
    sites.settle()
    assert "d" not in sites.routers["a"].federation.known_wants.wanting("ALL", "t")
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("e", "m"): 1, ("d", "m"): 1}


def test_a_want_of_which_only_peers_have_told_counts_beyond_them_too() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    know_all(sites)
    sites.subscribe("c", "weather")
    sites.subscribe("c")
    sites.settle()
    assert "c" not in sites.routers["a"].federation.known_wants.wanting("ALL", "t")
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}


def test_who_keeps_a_bucket_of_wants_back_has_what_it_may_want_and_changes_no_other_way() -> None:
    sites = RouterFederation(RING, 0)
    sites.subscribe("d")
    know_all(sites)
    federation = sites.routers["a"].federation
    statement = federation.spreading.known["c"].statement
    digest = write_digest({bucket_of("t"): bytes(HASH_BYTES)})
    federation.known_wants.say(msgspec.structs.replace(statement, wants=digest))
    federation.topology.wants_changed()
    sites.transfers = 0
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}
    assert sites.transfers == 3
    assert {record.peer for _, record in sites.records_of("m", "received")} <= {"a", "b", "c"}


def test_a_want_changes_the_plans_of_its_own_bucket_alone() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    for number in range(200):
        sites.subscribe("c", f"t{number}")
    know_all(sites)
    find = sites.routers["a"].federation.destinations._itineraries.find
    before = {number: find(f"t{number}", -1) for number in range(200)}
    sites.subscribe("b", "t0")
    sites.pass_time(1.0)
    sites.settle()
    changed = [number for number in range(200) if find(f"t{number}", -1) is not before[number]]
    assert 0 in changed
    assert {bucket_of(f"t{number}") for number in changed} == {bucket_of("t0")}


def test_who_does_not_say_what_it_wants_is_waited_for_though_no_way_is_known_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The peer on the way is none, and is one again."""
    sites = RouterFederation({("a", "b"), ("b", "x"), ("a", "y")})
    sites.subscribe("x")
    monkeypatch.setattr(own_leaves, "SITE_LEAVES_MAX", 0)  # it wants too much
    know_all(sites)
    federation = sites.routers["a"].federation
    sites.cut("a", "b")
    sites.publish("a", depth=-1)
    sites.settle()
    [copy] = federation.outlook.copies.values()
    assert "x" in copy.destinations
    federation.remove_peer("b", sites.now)
    sites.take("a")
    sites.pass_time(3.0)
    sites.settle()
    federation.set_peer("b", PeerRules())
    sites.join("a", "b")
    for _ in range(3):
        sites.settle()
        sites.pass_time(3.0)
    assert sites.delivered["x", "m"] == 1


class SilentNotary(NamedNotary):
    """Of a site that says which links it has, and not what it wants."""

    def sign(self, statement: bytes) -> SignedNews | None:
        silent = msgspec.structs.replace(read_statement(statement), wants=None)
        return super().sign(write_statement(silent))


def test_who_says_nothing_of_what_it_wants_is_waited_for_though_no_way_is_known_for_a_while() -> None:
    sites = RouterFederation({("a", "b"), ("b", "x"), ("a", "y")})
    sites.notaries["x"] = SilentNotary("x")
    know_all(sites)
    federation = sites.routers["a"].federation
    assert federation.outlook.wants_of("x") is None
    sites.cut("a", "b")
    sites.publish("a", depth=-1)
    sites.settle()
    federation.remove_peer("b", sites.now)
    sites.take("a")
    after(sites)
    [copy] = federation.outlook.copies.values()
    assert list(copy.destinations) == ["x"]
    federation.set_peer("b", PeerRules())
    sites.join("a", "b")
    after(sites)
    assert [site for site, _ in sites.records_of("m", "received")] == ["b", "x"]
