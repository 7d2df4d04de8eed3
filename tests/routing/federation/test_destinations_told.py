"""What peers ask for and say of destinations, be it late, wrong or made up."""

import msgspec
import pytest

from routing.errors import Refusal
from routing.federation.words import SEEN_TO_MAX
from routing.peering.copies import Arrival, Copy, PeerRules
from routing.peering.decisions import TellDestinations
from routing.router import Router
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import SETTINGS, RouterFederation

SMUID = "a.example/018bcfe56800-1-1"


@pytest.fixture
def line() -> RouterFederation:
    """A message of site a is under way to b, for c, with which b has no link."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "e")})
    sites.subscribe("c")
    know_all(sites)
    sites.cut("b", "c")
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    return sites


def brought(sites: RouterFederation, *destinations: str, peer: str = "a", depth: int = -1) -> Arrival:
    """The copy that is under way to b, for others."""
    [(_, arrival)] = sites.bulk["a", "b"]
    hops = ("a",) if peer == "a" else ("a", peer)
    assert isinstance(arrival, Arrival)
    return msgspec.structs.replace(arrival, peer=peer, hops=hops, destinations=destinations, depth=depth)


def told(sites: RouterFederation, peer: str = "a") -> list[tuple[str, dict[str, list[str]]]]:
    """What b tells of destinations."""
    sites.take("b")
    return [
        (control.word, control.sites)
        for control in sites.control["b", peer]
        if isinstance(control, TellDestinations)
    ]


def held(sites: RouterFederation, site: str = "b") -> Copy:
    [copy] = sites.routers[site].federation.outlook.copies.values()
    return copy


def test_more_depth_for_a_destination_that_is_known_is_a_way_to_it() -> None:
    sites = RouterFederation({("o", "a"), ("a", "b"), ("o", "b"), ("b", "d"), ("b", "e"), ("d", "e")})
    sites.subscribe("d")
    know_all(sites)
    sites.cut("o", "b")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("o", depth=3)
    while not any(site == "b" for site, _ in sites.records_of("m", "received")):
        sites.settle(1)
    sites.cut("b", "d")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    assert not sites.delivered
    sites.join("o", "b")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    assert sites.delivered == {("d", "m"): 1}


def test_who_asks_for_what_has_no_way_hears_so_at_once(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "x"))
    federation.arriving.arrive(line.now, brought(line, "x", peer="e"))
    smuid = held(line).smuid
    assert ("no-way", {smuid: ["x"]}) in told(line, "e")


def test_who_is_asked_for_again_after_it_was_said_to_have_it_is_named_once() -> None:
    """A, which alone had asked for c, says that c has it, and is not believed by e, which asks then."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "e")})
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL", timeout_s=1_000.0)
    federation, asks = sites.routers["b"].federation, brought(sites, "c")
    federation.arriving.arrive(sites.now, msgspec.structs.replace(asks, query=7))
    sites.take("b")
    sites.cut("b", "c")
    federation.destinations_heard.hear(sites.now, "a", "arrived", {held(sites).smuid: ["c"]})
    federation.arriving.arrive(sites.now, msgspec.structs.replace(asks, peer="e", hops=("a", "e"), query=8))
    sites.take("b")
    sites.join("b", "c")
    assert {arrival.destinations for _, arrival in sites.bulk["b", "c"]} == {("c",)}


def test_a_copy_is_for_no_more_sites_than_it_may_ever_be(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    names = [f"n{number}" for number in range(SEEN_TO_MAX + 10)]
    for name in names:
        federation.set_peer(name, PeerRules())
    for start in range(0, len(names), 200):
        federation.arriving.arrive(line.now, brought(line, *names[start : start + 200]))
    assert SEEN_TO_MAX - 200 < len(held(line).destinations) <= SEEN_TO_MAX
    assert any(
        set(names[-10:]) <= set(sites[held(line).smuid]) for word, sites in told(line) if word == "no-way"
    )


def test_who_knows_less_of_wants_does_not_say_that_it_has_arrived(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "e"))
    line.cut("b", "e")
    line.pass_time(60.0)
    assert "arrived" not in dict(told(line))
    assert "e" in dict(told(line))["no-way"][held(line).smuid]
    federation.arriving.arrive(line.now, brought(line, "e"))
    assert "arrived" not in dict(told(line))


def test_what_one_asker_says_does_not_hold_for_another(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "c"))
    federation.arriving.arrive(line.now, brought(line, "c", peer="e"))
    smuid = held(line).smuid
    federation.destinations_heard.hear(line.now, "e", "arrived", {smuid: ["c"]})
    assert list(held(line).destinations) == ["c"]
    federation.destinations_heard.hear(line.now, "a", "arrived", {smuid: ["c"]})
    assert not held(line).destinations


def test_where_it_began_nobody_asks() -> None:
    sites = RouterFederation({("a", "b"), ("a", "e")})
    sites.subscribe("b")
    know_all(sites)
    sites.cut("a", "b")
    sites.publish("a", depth=-1)
    copy, federation = held(sites, "a"), sites.routers["a"].federation
    federation.destinations_heard.hear(sites.now, "e", "still", {copy.smuid: ["b"]})
    federation.destinations_heard.hear(sites.now, "e", "arrived", {copy.smuid: ["b"]})
    assert list(copy.destinations) == ["b"]


def test_who_was_never_asked_does_not_say_that_it_has_arrived(line: RouterFederation) -> None:
    """Its store may be that of a backup."""
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "c"))
    smuid = held(line).smuid
    line.control["b", "a"].clear()
    federation.destinations_heard.hear(line.now, "a", "still", {smuid: ["c", "e"]})
    assert told(line) == [("again", {smuid: ["e"]})]


def test_a_peer_that_has_not_heard_what_it_was_asked_to_see_to_hears_it_again() -> None:
    sites = RouterFederation({("a", "b"), ("a", "c"), ("b", "c")})
    sites.subscribe("b")
    sites.subscribe("c")
    know_all(sites)
    sites.cut("a", "c")
    sites.publish("a", depth=-1, timeout_s=1_000.0)
    assert {asked.destinations for _, asked in sites.bulk["a", "b"]} == {("b", "c")}
    sites.join("a", "c")
    sites.cut("a", "b")
    sites.join("a", "b")
    assert {asked.destinations for _, asked in sites.bulk["a", "b"]} == {("b",)}
    sites.bulk["a", "c"].clear()
    sites.settle()
    assert (sites.delivered["b", "m"], sites.delivered["c", "m"]) == (1, 0)
    sites.cut("a", "c")
    sites.settle()
    assert sites.delivered["c", "m"] == 1


def test_a_site_that_comes_back_as_an_earlier_version_is_sent_it_again(line: RouterFederation) -> None:
    line.publish("a", "n", depth=-1)
    line.settle()
    line.cut("a", "b")
    line.old = ("b",)
    earlier = line.routers["b"] = Router("b", 2, SETTINGS, lambda: 1_700_000_000_000)
    for peer in "ca":
        earlier.federation.set_peer(peer, PeerRules())
        line.join(peer, "b")
        line.settle()
    for _ in range(2):
        line.settle()
        line.pass_time(3.0)
    assert line.delivered["c", "n"] == 1


def test_nothing_is_held_for_a_site_that_there_is_not(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "c", "made.up"))
    assert list(held(line).destinations) == ["c"]
    assert ("no-way", {held(line).smuid: ["made.up"]}) in told(line)


def test_what_is_told_of_many_messages_is_told_in_parts(line: RouterFederation) -> None:
    for number in range(8):
        line.publish("a", f"n{number}", depth=-1)
    line.settle()
    smuids = {copy.smuid for copy in line.routers["b"].federation.outlook.copies.values()}
    for smuid in smuids:
        for number in range(100):
            name = f"n{number}.{'x' * 180}"
            line.routers["b"].federation._words.note("a", "arrived", smuid, name)
    controls = told(line)
    assert {smuid for word, sites in controls if word == "arrived" for smuid in sites} == smuids
    assert len(controls) > 1
    assert all(
        sum(len(name) for names in sites.values() for name in names) < 100_000 for _, sites in controls
    )


def test_who_names_a_site_twice_or_too_many_is_refused(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    for sites in (["a"] * 2, [f"n{number}" for number in range(SEEN_TO_MAX + 1)]):
        with pytest.raises(Refusal):
            federation.destinations_heard.hear(line.now, "a", "still", {SMUID: sites})


def test_who_holds_no_copy_any_more_has_it_once_for_each_time_that_it_is_asked(
    line: RouterFederation,
) -> None:
    """Each transfer that is not answered is held, and stored."""
    line.settle()
    copy = held(line, "a")
    assert list(copy.destinations) == ["c"]

    def sent_again() -> int:
        before = line.transfers
        for _ in range(5):
            line.routers["a"].federation.destinations_heard.hear(line.now, "b", "again", {copy.smuid: ["c"]})
            line.take("a")
        return line.transfers - before

    assert sent_again() == 0
    for _ in range(2):
        line.cut("a", "b")
        line.join("a", "b")
        assert sent_again() == 1
        line.settle()
    assert copy.forwards["b"].unacknowledged == 0


def test_who_has_not_asked_for_a_destination_is_no_asker(line: RouterFederation) -> None:
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "c"))
    smuid = held(line).smuid
    federation.destinations_heard.hear(line.now, "e", "still", {smuid: ["c"]})
    assert ("again", {smuid: ["c"]}) in told(line, "e")
    assert held(line).destinations["c"].asked_by == ("a",)


def test_what_comes_back_to_a_site_that_has_it_no_more_goes_on_from_there() -> None:
    """Its Hops name no site twice: nobody would take it."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d")})
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=-1)
    while not sites.bulk["b", "c"]:
        sites.settle(1)
    [(_, sent)] = sites.bulk["b", "c"]
    sites.settle()
    sites.commit("c", "m")
    sites.subscribe("d")
    sites.settle()
    assert not sites.routers["b"].federation.outlook.copies
    back = msgspec.structs.replace(sent, peer="c", hops=("a", "b", "c"), destinations=("d",), query=0)
    sites.routers["b"].federation.arriving.arrive(sites.now, back)
    sites.take("b")
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}
    assert not sites.routers["b"].federation.outlook.copies


def test_what_comes_back_by_a_shorter_way_goes_on_from_there() -> None:
    """G's was longer round than c's; what goes on names no site twice, also what has waited."""
    links = {("a", "b"), ("b", "c"), ("c", "g"), ("b", "g"), ("b", "e"), ("b", "f")}
    sites = RouterFederation(links)
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=5)
    while not sites.bulk["b", "c"]:
        sites.settle(1)
    [(_, sent)] = sites.bulk["b", "c"]
    sites.settle()
    sites.commit("c", "m")
    assert not sites.routers["b"].federation.outlook.copies
    for name in ("e", "f"):
        sites.cut("b", name)
    for site, *way in (("e", "c", "g"), ("f", "c")):
        back = msgspec.structs.replace(
            sent,
            peer=way[-1],
            hops=("a", "b", *way),
            depth=sent.depth - len(way),
            destinations=(site,),
            query=0,
        )
        sites.routers["b"].federation.arriving.arrive(sites.now, back)
        sites.take("b")
    assert held(sites).hops == ("a",)
    for name in ("e", "f"):
        sites.subscribe(name)
        sites.join("b", name)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("e", "m"): 1, ("f", "m"): 1}


def test_who_says_that_a_copy_came_back_further_than_it_went_does_not_stop_it() -> None:
    sites = RouterFederation({("a", "b"), ("b", "m"), ("b", "d"), ("b", "e")})
    for name in ("m", "d"):
        sites.subscribe(name)
    know_all(sites)
    sites.cut("b", "d")
    sites.settle()
    sites.publish("a", depth=4, timeout_s=1e6)
    while not sites.bulk["b", "m"]:
        sites.settle(1)
    [(_, sent)] = sites.bulk["b", "m"]
    sites.settle()
    way = ("a", "b", "m")
    back = msgspec.structs.replace(sent, peer="m", hops=way, depth=9, destinations=("e",), query=0)
    sites.routers["b"].federation.arriving.arrive(sites.now, back)
    sites.take("b")
    sites.settle()
    assert held(sites).hops == ("a",)
    sites.join("b", "d")
    sites.settle()
    assert sites.delivered["d", "m"] == 1


def test_who_asked_and_has_forgotten_ends_nothing(line: RouterFederation) -> None:
    """Where the message began there may be another disk since."""
    federation = line.routers["b"].federation
    federation.arriving.arrive(line.now, brought(line, "c"))
    smuid = held(line).smuid
    line.routers["a"]._state.crossing.destined.clear()
    line.routers["a"].federation.destinations_heard.hear(line.now, "b", "no-way", {smuid: ["c"]})
    line.take("a")
    line.bulk["a", "b"].clear()
    line.settle()
    assert list(held(line).destinations) == ["c"]
    line.join("b", "c")
    line.pass_time(3.0)
    line.settle()
    assert line.delivered["c", "m"] == 1


def test_a_copy_that_a_site_has_dropped_comes_again() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "x"), ("c", "x")})
    sites.subscribe("c")
    know_all(sites)
    for other in "bx":
        sites.cut(other, "c")
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    [via] = [name for name in "bx" if sites.routers[name].federation.outlook.copies]
    sites.cut("a", via)
    sites.routers[via].deliveries.drop(held(sites, via).entry, sites.now, "damaged in the store")
    sites.take(via)
    sites.join("a", via)
    sites.settle()
    for other in "bx":
        sites.join(other, "c")
    sites.settle()
    assert sites.delivered["c", "m"] == 1


def test_what_all_have_is_not_sent_again_where_destinations_cannot_be_known_any_more() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "c")})
    for name in sites.names:
        sites.subscribe(name)
    know_all(sites)
    sites.publish("a", depth=-1, timeout_s=float("inf"))
    sites.settle()
    sites.transfers = 0
    sites.routers["b"].federation.set_peer("planned.example", PeerRules())
    sites.routers["c"].federation.set_peer("flooded.example", PeerRules(flood=True))
    for _ in range(4):
        sites.pass_time(60.0)
        sites.settle()
    assert not sites.transfers
