"""By which hop each server had a message first: from the origin on, and never in a ring.

The Hops of records tell the order. Where the record of a coming is missing, those of a later one may tell it
(a hop that is `passed`); and nobody has a message first from who had it only from there.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

Hop = dict[str, Any]

FROM_HOPS: Final = "only the Hops of a later record tell"
NOT_ALONE: Final = "or another way before that: its record is missing"

_LAST: Final = 1 << 62


@dataclass(frozen=True)
class FirstComing:
    """The hop by which a server had a message first.

    Attributes:
        doubt: why that is not certain, in words; "" where it is.
    """

    hop: Hop
    doubt: str = ""


@dataclass(frozen=True)
class _Way:
    """A hop by which its receiver may have had the message first; `level`: hops from the origin, if known."""

    hop: Hop
    level: int | None

    @property
    def sender(self) -> str:
        return str(self.hop["from"])

    @property
    def order(self) -> tuple[int, int, int]:
        sent = self.hop["sent_at_us"] if self.hop["sent_at_us"] is not None else self.hop["sent_us"]
        level = _LAST if self.level is None else self.level
        return (level, _LAST if sent is None else sent, self.hop["attempt"])


def arrivals(route: dict[str, Any]) -> dict[str, FirstComing]:
    """By server the hop by which it had the message first, as far as that can be told.

    Never of the origin, to which it may be handed back. They end in no ring, but at servers that have none:
    the origin, and those of which it is not known how the message came there.
    """
    ways = _ways(route)
    onward: dict[str, list[tuple[int, tuple[int, int, int], str]]] = defaultdict(list)
    for server, found in ways.items():
        for rank, way in enumerate(found):
            onward[way.sender].append((rank, way.order, server))
    first: dict[str, _Way] = {}
    reached: set[str] = set()

    def reach(*starts: str) -> None:
        """All that is had from there, each by its likeliest way; by others only where that leads nowhere."""
        nearest = [one for start in starts for one in onward[start]]
        heapq.heapify(nearest)
        reached.update(starts)
        while nearest:
            rank, _, server = heapq.heappop(nearest)
            if server in reached:
                continue
            first[server] = ways[server][rank]
            reached.add(server)
            for one in onward[server]:
                heapq.heappush(nearest, one)

    reach(route["origin"], *(onward.keys() - ways.keys() - {route["origin"]}))
    # A ring: how the message came to the first of them that sent it on is told nowhere.
    for server in sorted(ways, key=lambda server: (ways[server][0].order, server)):
        if server not in reached:
            reach(ways[server][0].sender)
    return {
        server: FirstComing(way.hop, _doubt(server, way, ways[server], first))
        for server, way in first.items()
    }


def _ways(route: dict[str, Any]) -> dict[str, list[_Way]]:
    """By server the hops by which it may have had the message first, the likeliest in front."""
    hops = [hop for hop in route["hops"] if hop["to"] != route["origin"]]
    passed = {(hop["from"], hop["to"]): hop for hop in hops if hop["kind"] == "passed"}
    ways: dict[str, list[_Way]] = defaultdict(list)
    told: dict[str, list[_Way]] = defaultdict(list)
    answered = set()
    for hop in hops:
        link = hop["from"], hop["to"]
        if hop["kind"] == "accepted":
            level = hop["level"]
            if link in passed and (hop["crossing"] or 1) == 1:
                answered.add(link)
                level = passed[link]["level"] if level is None else level
            ways[hop["to"]].append(_Way(hop, level))
    for link, hop in passed.items():
        if link not in answered:
            told[hop["to"]].append(_Way(hop, hop["level"]))
    is_one = route["mode"] == "ONE"
    for server, found in told.items():
        # a message of mode ONE has one way, of which the Hops tell the order; of others there may be several
        if len(found) == 1 or (is_one and len({way.level for way in found}) == len(found)):
            ways[server] += found
    return {
        server: sorted(found, key=lambda way: (way.hop["kind"] == "passed" and not is_one, way.order))
        for server, found in ways.items()
    }


def _doubt(server: str, way: _Way, ways: list[_Way], first: dict[str, _Way]) -> str:
    if way.hop["kind"] == "passed":
        return FROM_HOPS
    others = [one for one in ways if one.sender != way.sender and one.hop["kind"] != "passed"]
    unordered = [one for one in others if one.level is None or way.level is None]
    return NOT_ALONE if any(not _is_below(server, one.sender, first) for one in unordered) else ""


def _is_below(server: str, sender: str, first: dict[str, _Way]) -> bool:
    while sender in first and sender != server:
        sender = first[sender].sender
    return sender == server
