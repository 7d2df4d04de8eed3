"""How far sites are, by what they say themselves of their links."""

from routing.federation.reach import distances
from routing.peering.news import KnownNews, read_statement
from tests.support.notary import said


def news(**links: str) -> dict[str, KnownNews]:
    """What sites say: the peers to which each has a link that is up."""
    signed = {site: said(site, 1, *peers.split()) for site, peers in links.items()}
    return {site: KnownNews(read_statement(one.statement), one, 0.0, "") for site, one in signed.items()}


def test_the_shortest_way_counts() -> None:
    ring = news(b="a c", c="b d", d="c e", e="d a")
    assert distances("a", ["b", "e"], ring) == {"a": 0, "b": 1, "e": 1, "c": 2, "d": 2}


def test_a_link_is_one_that_both_ends_have() -> None:
    assert distances("a", ["b"], news(b="a c", c="d", d="c")) == {"a": 0, "b": 1}
    assert distances("a", ["b"], news(b="a", c="b")) == {"a": 0, "b": 1}


def test_of_its_own_links_a_site_knows_better_than_what_it_said_last() -> None:
    assert distances("a", [], news(a="b", b="a c", c="b")) == {"a": 0}
    assert distances("a", ["b"], news(b="c", c="b")) == {"a": 0}


def test_a_site_that_says_nothing_is_there_by_the_word_of_its_peers_and_a_way() -> None:
    assert distances("a", ["b"], news(b="a old", c="old")) == {"a": 0, "b": 1, "old": 2, "c": 3}


def test_a_site_without_links_is_alone() -> None:
    assert distances("a", [], {}) == {"a": 0}
