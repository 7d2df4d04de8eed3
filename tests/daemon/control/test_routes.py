"""`smqpd routes`: what it shows is where messages go."""

from daemon.control.routes import routes
from daemon.operating.federation import Route
from routing.peering.copies import PeerRules
from routing.peering.news import why_silent
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


def shown(federation: RouterFederation, site: str, name: str) -> list[tuple[str, str, int | None, str]]:
    found = routes(federation.routers[site].federation.outlook, name)
    return [(route.kind, route.peer, route.distance, route.why) for route in found]


def test_a_topic_has_a_way_for_all_and_one_way_for_one() -> None:
    federation = RouterFederation({("a", "b"), ("a", "c"), ("c", "d")})
    federation.subscribe("b")
    federation.subscribe("d")
    federation.settle()
    assert shown(federation, "a", "t") == [
        ("ALL", "b", 1, ""),
        ("ALL", "c", 2, ""),
        ("ONE", "b", 1, ""),
        ("ONE", "c", 2, "b is as near or nearer"),
    ]


def test_a_flooded_link_is_no_way_for_one() -> None:
    federation = RouterFederation({("a", "b")}, flood=True)
    federation.settle()
    assert shown(federation, "a", "t") == [
        ("ALL", "b", None, ""),
        ("ONE", "b", None, "nobody there wants it"),
    ]


def test_a_server_and_an_account_there_have_the_same_way() -> None:
    federation = RouterFederation({("a", "b"), ("b", "c")})
    federation.settle()
    way = ("SERVER", "b", 2, "")
    assert shown(federation, "a", "ada:desk@c") == [way]
    assert shown(federation, "a", "c")[-1] == way
    federation.cut("a", "b")
    assert shown(federation, "a", "ada:desk@c") == [("SERVER", "b", 2, "the link is down")]


def to_all(federation: RouterFederation, site: str) -> dict[str, Route]:
    """Of mode ALL, by peer."""
    found = routes(federation.routers[site].federation.outlook, "t")
    return {route.peer: route for route in found if route.kind == "ALL"}


def destinations(federation: RouterFederation, site: str) -> list[tuple[str, str, int, str]]:
    found = to_all(federation, site)
    return [(peer, one.site, one.hops, one.why) for peer in found for one in found[peer].destinations]


def test_destinations_have_the_peer_that_sees_to_them_and_why_that_one() -> None:
    sites = RouterFederation(
        {("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("c", "e"), ("a", "x"), ("x", "y")}
    )
    sites.subscribe("d")
    know_all(sites)
    assert destinations(sites, "a") == [("b", "d", 2, "as short as from c, and first by name")]
    whys = {peer: route.why for peer, route in to_all(sites, "a").items()}
    assert whys == {
        "b": "",
        "c": "b is as near",
        "x": "no shortest way to who wants it begins there",
    }
    sites.subscribe("e")
    know_all(sites)
    assert destinations(sites, "a") == [
        ("c", "d", 2, "as short as from b, and the way to e, too"),
        ("c", "e", 2, "the shortest way"),
    ]
    sites.publish("a", depth=-1)
    sites.settle()
    assert {site for site, _ in sites.records_of("m", "received")} == {"c", "d", "e"}


def test_a_way_that_is_down_is_said_to_be_and_so_is_the_way_round_it() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c")})
    sites.subscribe("c")
    know_all(sites)
    sites.cut("b", "c")
    sites.pass_time(3.0)
    sites.settle()
    assert destinations(sites, "a") == [("d", "c", 3, "the shortest way")]
    assert to_all(sites, "a")["b"].why == "a link beyond it is down"
    assert to_all(sites, "a")["d"].why == ""
    sites.cut("a", "b")
    assert to_all(sites, "a")["b"].why == "another way is taken while the link is down"
    sites.join("a", "b")
    sites.settle()
    sites.cut("a", "d")
    assert destinations(sites, "a") == [
        ("b", "c", 2, "waits, as no way is up: the shortest way if it was up")
    ]
    sites.cut("a", "b")
    assert to_all(sites, "a")["b"].why == "the link is down"


def test_programs_have_a_word_for_what_keeps_it_from_a_peer() -> None:
    sites = RouterFederation({("a", "b"), ("a", "c"), ("c", "d"), ("d", "e"), ("b", "e")})
    sites.subscribe("e")
    know_all(sites)
    assert words(sites) == {
        ("ALL", "b"): "",
        ("ALL", "c"): "longer-way",
        ("ONE", "b"): "",
        ("ONE", "c"): "nearer",
    }
    sites.cut("a", "b")
    assert words(sites) == {
        ("ALL", "b"): "bypassed",
        ("ALL", "c"): "",
        ("ONE", "b"): "down",
        ("ONE", "c"): "",
    }
    sites.cut("a", "c")
    assert words(sites) == {
        ("ALL", "b"): "down",
        ("ALL", "c"): "longer-way",
        ("ONE", "b"): "down",
        ("ONE", "c"): "down",
    }


def words(sites: RouterFederation) -> dict[tuple[str, str], str]:
    found = routes(sites.routers["a"].federation.outlook, "t")
    return {(route.kind, route.peer): route.obstacle for route in found}


def test_where_two_ways_are_as_near_and_both_are_down_both_are_said_to_be() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "d"), ("d", "c")})
    sites.subscribe("c")
    know_all(sites)
    sites.cut("a", "b")
    sites.cut("a", "d")
    assert {peer: route.why for peer, route in to_all(sites, "a").items()} == {
        "b": "the link is down",
        "d": "the link is down",
    }
    assert [one.up for route in to_all(sites, "a").values() for one in route.destinations] == [False]


def test_where_a_link_floods_it_is_said_which() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, rules={("b", "c"): PeerRules(flood=True)})
    know_all(sites)
    assert {route.why_unnamed for route in to_all(sites, "a").values()} == {"b sends everything to c (flood)"}


def test_where_one_knows_no_destinations_it_is_said_who() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "d")}, old=["d"])
    sites.subscribe("c")
    know_all(sites)
    found = to_all(sites, "a")
    assert {route.destinations for route in found.values()} == {()}
    assert {route.why_unnamed for route in found.values()} == {why_silent("d")}
    assert {peer: route.why for peer, route in found.items()} == {"b": "", "d": "nobody there wants it"}
