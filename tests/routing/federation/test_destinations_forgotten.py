"""Destinations that there are not, and of which nobody has heard for long."""

import msgspec
import pytest

from routing.peering.copies import Arrival, PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import SETTINGS, RouterFederation

HOUR_S = 3600.0


def opened(sites: RouterFederation, site: str) -> list[str]:
    """What the copies that a site holds are still to be seen to."""
    copies = sites.routers[site].federation.outlook.copies.values()
    return [name for copy in copies for name in copy.destinations]


def test_nothing_is_held_for_sites_of_which_others_say_that_there_are() -> None:
    sites = RouterFederation({("a", "b"), ("b", "m"), ("b", "c")})
    sites.subscribe("c")
    ghosts = [f"ghost-{number}" for number in range(100)]
    liar = sites.routers["m"].federation
    for ghost in ghosts:
        liar.set_peer(ghost, PeerRules())
        liar.forwarding.peers[ghost].up = True
    liar.spreading.note_links()
    know_all(sites)
    sites.cut("b", "c")
    sites.settle()
    sites.publish("m", depth=-1)
    while not sites.bulk["m", "b"]:
        sites.settle(1)
    [(id, sent)] = sites.bulk["m", "b"]
    assert isinstance(sent, Arrival)
    sites.bulk["m", "b"] = [(id, msgspec.structs.replace(sent, destinations=("c", *ghosts)))]
    sites.settle()
    assert opened(sites, "b") == ["c"]


@pytest.mark.parametrize("are_known", [True, False])
def test_what_waits_for_a_site_that_nobody_has_heard_of_for_long_waits_at_its_peers(
    *, are_known: bool
) -> None:
    """Also where destinations cannot be known any more; should it come back in time, it has it."""
    sites = RouterFederation({("a", "b"), ("b", "c")})
    sites.subscribe("c")
    know_all(sites)
    sites.cut("b", "c")
    sites.settle()
    sites.publish("a", depth=-1, timeout_s=1000 * HOUR_S)
    sites.settle()
    assert opened(sites, "a") == ["c"]
    if not are_known:
        origin = sites.routers["a"].federation
        origin.set_peer("old", PeerRules())
        origin.link_up("old", knows_patterns=False, knows_news=False, knows_destinations=False)
    for _ in range(int(SETTINGS.news_kept_s / HOUR_S) + 2):
        sites.pass_time(HOUR_S)
        sites.settle()
    assert not opened(sites, "a")
    assert opened(sites, "b") == ["c"]
    sites.join("b", "c")
    sites.settle()
    assert sites.delivered["c", "m"] == 1
    assert not opened(sites, "b")


def test_nobody_waits_for_a_site_that_is_no_peer_any_more() -> None:
    """It is gone for good, and what it said last is still known; its peer alone knew that."""
    sites = RouterFederation({("a", "b"), ("b", "x"), ("b", "y")})
    for name in "xy":
        sites.subscribe(name)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.cut("b", "x")
    sites.cut("b", "y")
    sites.settle()
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle()
    sites.routers["b"].federation.remove_peer("x", sites.now)
    sites.take("b")
    for _ in range(2):
        sites.settle()
        sites.pass_time(60.0)
    sites.settle()
    assert [opened(sites, name) for name in "ab"] == [["y"], ["y"]]
    sites.join("b", "y")
    sites.settle()
    sites.commit("y", "m")
    sites.settle()
    assert sites.receipts == ["1/1"]


def test_a_site_that_has_no_peers_for_a_while_keeps_what_it_holds() -> None:
    """As one that starts without its keys, or its file of peers."""
    sites = RouterFederation({("a", "b")})
    sites.subscribe("b")
    know_all(sites)
    sites.cut("a", "b")
    sites.settle()
    sites.publish("a", depth=-1)
    federation = sites.routers["a"].federation
    peers = dict(federation.forwarding.peers)
    federation.forwarding.peers.clear()
    federation.topology.links_changed()
    for _ in range(3):
        sites.pass_time(60.0)
    assert opened(sites, "a") == ["b"]
    federation.forwarding.peers.update(peers)
    federation.topology.links_changed()
    sites.join("a", "b")
    sites.settle()
    assert sites.delivered["b", "m"] == 1
