"""Which copies are looked at when a link changes: a site may hold one of each of very many topics."""

import pytest

from routing.peering.copies import PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


@pytest.fixture
def sites() -> RouterFederation:
    """All have what a holds of t.1 to t.9; of t.0 it is still for x, which is away."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("a", "x"), ("c", "d")})
    for name in "bdx":
        sites.subscribe(name, "#")
    know_all(sites)
    for number in range(1, 10):
        sites.publish("a", f"m{number}", f"t.{number}", depth=-1, timeout_s=float("inf"))
    sites.settle()
    sites.cut("a", "x")
    sites.publish("a", "m0", "t.0", depth=-1, timeout_s=float("inf"))
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    return sites


def looked_at(sites: RouterFederation, site: str) -> list[str]:
    turns, found = sites.routers[site].federation._turns, []
    if turns:
        while (copy := turns.next()) is not None:
            found.append(copy.entry.topic.name)
        turns.end()
    return found


def heard_until(sites: RouterFederation, site: str, of: str) -> None:
    """Carry what is under way until there is other news of one, and it is to be seen what that means."""
    known = sites.routers[site].federation.spreading.known
    before = known[of].statement.version
    while known[of].statement.version == before:
        sites.take(site)
        sites.settle(1)


def test_a_link_that_only_goes_down(sites: RouterFederation) -> None:
    topology = sites.routers["a"].federation.topology
    version, graph = topology.version, topology.graph
    sites.cut("c", "d")
    sites.pass_time(3.0)
    heard_until(sites, "a", "c")
    assert topology.version != version
    assert topology.graph == graph
    topology.up_changed()
    assert looked_at(sites, "a") == ["t.0"]


def test_a_link_that_has_other_rules(sites: RouterFederation) -> None:
    topology = sites.routers["a"].federation.topology
    graph = topology.graph
    peers = {"d": PeerRules(depth_max=1), "b": PeerRules()}
    sites.routers["c"].federation.set_peers(sites.now, peers)
    sites.take("c")
    sites.pass_time(3.0)
    heard_until(sites, "a", "c")
    assert topology.graph != graph
    topology.links_changed()
    assert looked_at(sites, "a") == [f"t.{number}" for number in range(10)]


def test_a_minute_that_is_over(sites: RouterFederation) -> None:
    sites.routers["a"].federation.rerouting.minute()
    assert sorted(looked_at(sites, "a")) == [f"t.{number}" for number in range(10)]
