"""News of sites: who hears what, and how often."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import Refusal
from routing.federation.saying import EVERY_S, SPACING_S
from routing.peering.copies import PeerRules
from routing.peering.decisions import (
    TellKnownNews,
    TellNews,
)
from routing.peering.leaves import NumberedBucket
from routing.peering.news import (
    NewsVersion,
    Version,
)
from tests.routing.federation.test_radius import graphs
from tests.support.examples import examples
from tests.support.news_site import NewsSite
from tests.support.notary import said, wanted
from tests.support.sites import RouterFederation


def test_a_site_says_which_of_its_links_are_up_and_says_it_again_once_that_changes() -> None:
    site = NewsSite("b", "c")
    first, *_ = site.said()
    assert {link.peer: link.up for link in first.links} == {"b": True, "c": False}
    site.tick(SPACING_S)
    (second,) = site.said()
    assert {link.peer: link.up for link in second.links} == {"b": True, "c": True}
    assert second.version > first.version
    site.tick(SPACING_S)
    site.router.federation.link_down("c")
    site.tick()
    (third,) = site.said()
    assert {link.peer: link.up for link in third.links} == {"b": True, "c": False}


def test_a_link_that_comes_and_goes_is_told_of_only_so_often() -> None:
    site = NewsSite("b", "c")
    site.tick(SPACING_S)
    site.said()
    for _ in range(100):
        site.router.federation.link_down("c")
        site.tick(SPACING_S / 100)
        site.link_up("c")
        site.tick(SPACING_S / 100)
    assert 1 <= len(site.said()) <= 3


def test_a_site_that_has_many_links_says_less_often_that_they_have_changed() -> None:
    peers = [f"p{number}" for number in range(500)]
    site = NewsSite(*peers)
    site.tick(60.0)
    site.said()
    for _ in range(10):
        site.router.federation.link_down("p1")
        site.tick(SPACING_S)
        site.link_up("p1")
        site.tick(SPACING_S)
    assert 2 <= len(site.said()) <= 10 * 2 * SPACING_S / (3 * SPACING_S) + 1


def test_a_link_that_comes_back_before_it_was_told_of_is_no_news() -> None:
    site = NewsSite("b", "c")
    site.tick(SPACING_S)
    site.tick(SPACING_S / 2)
    site.said()
    site.router.federation.link_down("c")
    site.link_up("c")
    site.tick(SPACING_S)
    assert site.said() == []


def test_a_site_of_which_nothing_changes_says_so_each_hour() -> None:
    site = NewsSite("b")
    site.tick(SPACING_S)
    site.said()
    site.tick(EVERY_S / 2)
    assert site.said() == []
    assert site.router.wake_at <= site.now + EVERY_S
    site.tick(EVERY_S / 2)
    assert len(site.said()) == 1


def test_a_site_that_has_no_link_says_nothing() -> None:
    site = NewsSite("b")
    site.tick(SPACING_S)
    site.said()
    site.router.federation.link_down("b")
    site.tick(EVERY_S)
    assert site.said() == []


def test_news_goes_to_all_peers_but_the_one_it_comes_from_and_once() -> None:
    site = NewsSite("b", "c", "d")
    site.told()
    assert site.hear("b", said("x", 1, "b")) == ""
    assert site.told() == [("c", "x"), ("d", "x")]
    assert site.hear("c", said("x", 1, "b")) == ""
    assert site.told() == []


def test_who_has_older_news_is_told_the_newer() -> None:
    site = NewsSite("b", "c")
    site.hear("b", said("x", 2, "b"))
    site.told()
    site.hear("c", said("x", 1, "b"))
    assert site.told() == []  # it was told when the newer came
    assert site.knows("x") == (1, 2)
    site.router.federation.link_down("c")
    site.link_up("c", NewsVersion("x", 1, 1))
    assert ("c", "x") in site.told()


def test_a_later_boot_is_later_news_whatever_the_number() -> None:
    site = NewsSite("b")
    site.hear("b", said("x", 900, "b", boot=1))
    site.hear("b", said("x", 1, "b", boot=2))
    site.hear("b", said("x", 901, "b", boot=1))
    assert site.knows("x") == (2, 1)


def test_a_peer_hears_nothing_before_it_has_said_what_it_has() -> None:
    site = NewsSite("b", "c")
    site.hear("b", said("x", 1, "b"))
    site.router.federation.link_down("c")
    site.router.take()
    site.router.federation.link_up("c")
    decisions = site.router.take()
    (has,) = [d.has for d in decisions if isinstance(d, TellKnownNews)]
    assert {one.site for one in has} == {"a", "x"}
    assert not any(isinstance(d, TellNews) for d in decisions)
    site.spreading.hear_known(site.now, "c", [NewsVersion("x", 1, 1)], more=True)
    assert site.told() == []
    site.spreading.hear_known(site.now, "c", [NewsVersion("y", 1, 1)], more=False)
    assert site.told() == [("c", "a")]


def test_a_peer_that_knows_no_news_is_told_none() -> None:
    site = NewsSite("b")
    site.router.federation.set_peer("old", PeerRules())
    site.router.federation.link_up("old", knows_news=False)
    site.tick(SPACING_S)
    site.hear("b", said("x", 1, "b"))
    told = [d.peer for d in site.router.take() if isinstance(d, TellNews | TellKnownNews)]
    assert "b" in told
    assert "old" not in told
    assert site.hear("old", said("y", 1, "b")) == ""
    assert site.knows("y") is None


def knowledge(sites: RouterFederation, name: str) -> dict[str, Version]:
    known = sites.routers[name].federation.spreading.known
    return {site: one.statement.version for site, one in known.items()}


def what_is_known_of(sites: RouterFederation, name: str) -> dict[str, bool]:
    known = sites.routers[name].federation.spreading.known[name]
    return {link.peer: link.up for link in known.statement.links}


def assert_agreed(sites: RouterFederation, within: set[str]) -> None:
    """All of these know the latest of each other, and that is so."""
    for site in within:
        assert what_is_known_of(sites, site) == {
            peer: (site, peer) in sites.links for peer in sites.routers[site].federation.outlook.peers
        }
        for other in within:
            assert knowledge(sites, other)[site] == knowledge(sites, site)[site]


@settings(max_examples=examples(60), deadline=None)
@given(graph=graphs(12), seed=st.integers(0, 2**32))
def test_in_any_graph_all_hear_of_all_and_each_piece_crosses_a_link_once_in_each_direction(
    graph: set[tuple[str, str]], seed: int
) -> None:
    sites = RouterFederation(graph, seed)
    sites.begin_news()
    sites.settle()
    for _ in range(3):
        sites.pass_time(SPACING_S)
        sites.settle()
    for site in sites.names:
        assert_agreed(sites, sites.ball(site, -1))
    assert len(sites.news_carried) == len(set(sites.news_carried))


@settings(max_examples=examples(60), deadline=None)
@given(graph=graphs(12), seed=st.integers(0, 2**32))
def test_after_links_were_cut_in_the_middle_of_it_all_agree(graph: set[tuple[str, str]], seed: int) -> None:
    chance = random.Random(seed)
    sites = RouterFederation(graph, seed)
    sites.begin_news()
    down: set[tuple[str, str]] = set()
    for _ in range(20):
        sites.settle(at_most=chance.randrange(30))
        a, b = chance.choice(sorted(graph))
        if (a, b) in down:
            sites.join(a, b)
            down.discard((a, b))
        else:
            sites.cut(a, b)
            down.add((a, b))
        sites.pass_time(chance.choice((0.0, 0.5, SPACING_S)))
    for _ in range(3):
        sites.settle()
        sites.pass_time(SPACING_S)
    for site in sites.names:
        if len(sites.ball(site, -1)) > 1:
            assert_agreed(sites, sites.ball(site, -1))
    for a, b in sorted(down):
        sites.join(a, b)
    for _ in range(3):
        sites.settle()
        sites.pass_time(SPACING_S)
    sites.settle()
    for site in sites.names:
        assert_agreed(sites, sites.ball(site, -1))


def test_news_that_comes_with_wants_that_cannot_be_read_is_passed_on() -> None:
    """Who added them is refused, and could else keep from others what it can only pass on."""
    site = NewsSite("m", "b")
    wants = wanted("t")
    site.spreading.hear(site.now, "b", said("x", 1, "b", "m", wants=wants), 0.0, wants)
    assert ("m", "x") in site.told()
    spoiled = NumberedBucket(wants[0].index, b"\xc1")
    with pytest.raises(Refusal, match="cannot be read"):
        site.spreading.hear(site.now, "m", said("x", 2, "b", wants=wants), 0.0, [spoiled])
    assert site.knows("x") == (1, 2)
    assert ("b", "x") in site.told()
