"""Destinations that there are not, and of which nobody has heard for long."""

import msgspec
import pytest

from routing.peering.copies import Arrival, PeerRules
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import SETTINGS, Federation

HOUR_S = 3600.0


def opened(sites: Federation, site: str) -> list[str]:
    """What the copies that a site holds are still to be seen to."""
    copies = sites.routers[site].federation.outlook.copies.values()
    return [name for copy in copies for name in copy.destinations]


def test_nothing_is_held_for_sites_of_which_others_say_that_there_are() -> None:
    sites = Federation({("a", "b"), ("b", "m"), ("b", "c")})
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
    sites = Federation({("a", "b"), ("b", "c")})
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
        origin.link_up(sites.now, "old", knows_patterns=False, knows_news=False, knows_destinations=False)
    for _ in range(int(SETTINGS.news_kept_s / HOUR_S) + 2):
        sites.pass_time(HOUR_S)
        sites.settle()
    assert not opened(sites, "a")
    assert opened(sites, "b") == ["c"]
    sites.join("b", "c")
    sites.settle()
    assert sites.delivered["c", "m"] == 1
    assert not opened(sites, "b")
