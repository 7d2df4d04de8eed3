"""The drawing of the sites that are known, and of the ways of a topic; and what it says in words."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from daemon.frontend import KnownSite, Route
from daemon.operating.federation import RouteDestination
from plugins.web.drawing import COLUMNS, draw
from routing.peering.news import LinkNews
from tests.support.site import SERVER
from tests.support.web import WebBrowser


def known(site: str, hops: int | None, *peers: str, down: tuple[str, ...] = ()) -> KnownSite:
    links = tuple(LinkNews(peer, up=peer not in down) for peer in (*peers, *down))
    return KnownSite(site=site, hops=hops, source="", age_s=61.0, boot=1, number=1, links=links)


def known_sites() -> list[KnownSite]:
    """This one, five peers of which one is down, and one behind them."""
    name = "{}.a-long-name.example.org".format
    peers = [*map(name, ("beta", "delta", "epsilon", "zeta"))]
    return [
        known(SERVER, 0, *peers, down=(name("gamma"),)),
        *(known(peer, 1, SERVER, name("eta")) for peer in peers),
        known(name("eta"), 2, *peers),
        known(name("gamma"), None),
    ]


def test_each_row_is_farther_away_and_what_has_no_way_is_last() -> None:
    drawing = draw(known_sites(), [], [])
    rows = [node.y for node in drawing.nodes]
    assert rows == sorted(rows)
    assert [node.kind for node in drawing.nodes] == ["own", *["up"] * 5, "down"]
    assert len(drawing.lines) == 9
    assert [line.up for line in drawing.lines if "gamma" in line.ends[0]] == [False]


def test_nothing_stands_on_another_and_all_of_it_is_inside() -> None:
    sites = [known("a", 0), *(known(f"b{number}", 1, "a", "b1") for number in range(3 * COLUMNS + 1))]
    drawing = draw(sites, [], [])
    for one, other in pairwise(drawing.nodes):
        assert one.y < other.y or one.x + 150 < other.x
    assert all(75 <= node.x <= drawing.width - 75 for node in drawing.nodes)
    assert all(22 <= node.y <= drawing.height - 22 for node in drawing.nodes)


def test_the_ways_of_a_topic_are_those_of_this_site() -> None:
    sites = known_sites()
    beta, gamma = sites[1].site, sites[-1].site
    routes = [
        Route(peer=beta, kind="ALL", distance=1, why=""),
        Route(peer=gamma, kind="ALL", distance=None, why="the link is down"),
    ]
    lines = {line.ends: line for line in draw(sites, [], routes).lines}
    assert [ends for ends, line in lines.items() if line.goes] == [(beta, SERVER)]
    assert [(ends, line.why) for ends, line in lines.items() if line.why] == [
        ((gamma, SERVER), "the link is down")
    ]


def test_a_site_that_is_alone_is_drawn_too() -> None:
    assert len(draw([known("a", 0)], [], []).nodes) == 1
    assert draw([], [], []).nodes == []


@pytest.fixture
def linked(site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A site with a peer."""

    async def sites() -> list[KnownSite]:
        return [known(SERVER, 0, "<b>"), known("<b>", 1, SERVER, "x'\"")]

    async def routes(name: str) -> list[Route]:
        return [Route(peer="<b>", kind="ALL", distance=3, why="")]

    monkeypatch.setattr(site.operations, "sites", sites)
    monkeypatch.setattr(site.operations, "routes", routes)
    return site


async def test_the_page_draws_and_says_it_in_tables(linked: Any, ada: WebBrowser) -> None:
    page = (await ada.get("/links?topic=orders.%3Ci%3E")).text
    assert page.count("<path") == 1
    assert "orders.&lt;i&gt; goes there" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "<td>3</td>" in page
    assert (await ada.get("/api/routes?name=orders")).json[0]["peer"] == "<b>"
    assert len((await ada.get("/api/sites")).json) == 2


async def test_the_page_says_what_sites_want_and_to_which_a_message_goes(
    site: Any, ada: WebBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sites() -> list[KnownSite]:
        b = known("b", 1, SERVER)
        told = msgspec.structs.replace(
            b, wants=1234, wants_missing=True, links=(LinkNews(SERVER, up=True, flood=True),)
        )
        return [known(SERVER, 0, "b"), told]

    async def routes(name: str) -> list[Route]:
        destination = RouteDestination(site="c", hops=2, why="the shortest way", up=True)
        return [
            Route(
                peer="b",
                kind="ALL",
                distance=2,
                why="",
                destinations=(destination,),
                why_unnamed="<b> is old",
            )
        ]

    monkeypatch.setattr(site.operations, "sites", sites)
    monkeypatch.setattr(site.operations, "routes", routes)
    page = (await ada.get("/links?topic=orders")).text
    assert ", and more that is not known yet</td>" in page
    assert f"{SERVER} (floods)" in page
    assert '<th scope="row">c</th><td>2</td><td>b</td><td>the shortest way</td>' in page
    assert "without destinations: &lt;b&gt; is old" in page


async def test_what_is_no_topic_is_said_to_be_none(ada: WebBrowser) -> None:
    assert 'role="alert"' in (await ada.get("/links?topic=a%20b")).text
    assert (await ada.get("/api/routes?name=a%20b")).status == 400
    assert "a message goes no further" in (await ada.get("/links?topic=orders")).text
