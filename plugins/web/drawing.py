"""The sites that are known, drawn: this one on top, below it the others by how far away they are."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from daemon.frontend import KnownSite, LinkStatus, Route, links_between

COLUMNS: Final = 6
"""Of sites that are as far away; more of them stand in further rows."""

WIDTH: Final = 170
HEIGHT: Final = 100
MARGIN: Final = 30


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A site, by its middle.

    Attributes:
        kind: `own`, `up` where there is a way to it, else `down`.
    """

    site: str
    x: int
    y: int
    kind: str
    hops: int | None
    round_trip_s: float | None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A link.

    Attributes:
        path: as an SVG path.
        goes: a message for the topic that was asked for goes over it from this site.
        why: it does not; "" where it does, or none was asked for, or it is not of this site.
    """

    ends: tuple[str, str]
    path: str
    up: bool
    goes: bool
    why: str


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """In the coordinates of an SVG."""

    width: int
    height: int
    nodes: list[Node]
    lines: list[Line]


def draw(sites: Sequence[KnownSite], links: Sequence[LinkStatus], routes: Sequence[Route]) -> Drawing:
    """`sites`: this one first, then by `hops`, those to which there is no way last."""
    rows: list[Sequence[KnownSite]] = []
    for _, same in groupby(sites, key=lambda site: site.hops):
        far = list(same)
        rows += [far[at : at + COLUMNS] for at in range(0, len(far), COLUMNS)]
    width = max((len(row) for row in rows), default=1) * WIDTH
    round_trips = {link.peer: link.round_trip_s for link in links if link.state == "up"}
    nodes = {
        site.site: Node(
            site=site.site,
            x=(width * (2 * column + 1)) // (2 * len(row)),
            y=MARGIN + HEIGHT * number + 22,
            kind="own" if site.hops == 0 else "down" if site.hops is None else "up",
            hops=site.hops,
            round_trip_s=round_trips.get(site.site),
        )
        for number, row in enumerate(rows)
        for column, site in enumerate(row)
    }
    own = sites[0].site if sites else ""
    lines = [
        _line(nodes[one], nodes[other], up, own, routes)
        for one, other, up in links_between(sites)
        if one in nodes and other in nodes
    ]
    height = 2 * MARGIN + HEIGHT * len(rows)
    return Drawing(width=width, height=height, nodes=[*nodes.values()], lines=lines)


def _line(one: Node, other: Node, up: bool, own: str, routes: Sequence[Route]) -> Line:
    far = other.site if one.site == own else one.site
    ours = [route for route in routes if own in (one.site, other.site) and route.peer == far]
    goes = any(not route.why for route in ours)
    return Line(
        ends=(one.site, other.site),
        path=_path(one, other),
        up=up,
        goes=goes,
        why="" if goes or not ours else ours[0].why,
    )


def _path(one: Node, other: Node) -> str:
    """A bow below the row of both, where others may stand between; else straight."""
    if one.y == other.y:
        return f"M{one.x} {one.y} Q{(one.x + other.x) // 2} {one.y + HEIGHT - 10} {other.x} {other.y}"
    return f"M{one.x} {one.y} L{other.x} {other.y}"
