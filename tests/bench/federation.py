"""What routing costs a whole federation, by counting: routers alone, without network, disk or clock.

    python -m tests.bench.federation [--servers 3,10,30,100] [--graphs tree,ring,mesh,random] [--json]
    python -m tests.bench.federation --learn 1000x1000 [--json]

`copies`: messages of each depth from random sites to a topic that one site, a tenth or all subscribe to, in
trees, rings, full meshes and random graphs with three links a site. `sent` are copies carried over links,
`needed` those on the shortest ways to the subscribers within depth, merged. Every copy is delayed at random,
so that it may come first by a long way.

`controls`: what is told when one site of a settled federation subscribes to one more topic, and when it
leaves it again: of interest, as peers tell it each other, and of news, with wants.

`learn`: memory and CPU of one site that hears from a peer what so many sites, each with so many wants, say of
themselves, signed with keys of their own; and what it costs to look up who wants a topic.

With `--json` it is a list of rows.
"""

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from routing.federation import spreading
from routing.peering import news
from routing.peering.decisions import TellInterest, TellNews, TellWants
from routing.peering.wants import DISTANCE_MAX
from tests.bench.learning import learning
from tests.support.sites import RouterFederation

SERVERS: Final = (3, 10, 30, 100, 300)
GRAPHS: Final = ("tree", "ring", "mesh", "random")
WANTING: Final = ("one", "a tenth", "all")
DEPTHS: Final = (1, 2, 3, 4, 5, 6, -1)
LINKS_PER_SERVER = 3
MESSAGES = 5
MESH_MAX: Final = 30
"""Sites of a full mesh: it has as many links as their square."""

RING_MAX: Final = 2 * DISTANCE_MAX
"""Sites of a ring: interest is told over no longer chains."""

SETTLES_S: Final = 3.0

Row = dict[str, Any]


def graph(kind: str, servers: int, source: random.Random) -> set[tuple[str, str]]:
    """A connected graph."""
    names = [f"s{number:04}" for number in range(servers)]
    if kind == "mesh":
        return set(itertools.combinations(names, 2))
    if kind == "ring":
        return {tuple(sorted(pair)) for pair in zip(names, [*names[1:], names[0]], strict=True)}  # type: ignore[misc] # two
    links = {tuple(sorted((name, source.choice(names[:at])))) for at, name in enumerate(names) if at}
    while kind == "random" and len(links) < min(
        servers * LINKS_PER_SERVER // 2, servers * (servers - 1) // 2
    ):
        links.add(tuple(sorted(source.sample(names, 2))))
    return {(a, b) for a, b in links}


def parents(neighbours: dict[str, list[str]], centre: str, radius: int) -> dict[str, str]:
    """The servers within so many links, each with the one before it on a shortest way."""
    found, edge = {centre: ""}, deque([(centre, 0)])
    while edge:
        name, distance = edge.popleft()
        for other in neighbours[name] if distance < radius or radius < 0 else ():
            if other not in found:
                found[other] = name
                edge.append((other, distance + 1))
    return found


def on_the_way(ways: dict[str, str], ends: Iterable[str]) -> int:
    """How many servers are passed to reach these, they included and the first not."""
    passed: set[str] = set()
    for end in ends:
        while ways[end] and end not in passed:
            passed.add(end)
            end = ways[end]
    return len(passed)


class Large(RouterFederation):
    """Settles in rounds, in which a link carries one copy, or what was told, or nothing.

    What a site has to tell after a round goes together, as after one commit.

    Attributes:
        controls: what was told, by kind: from, to, for each.
    """

    def __init__(self, links: set[tuple[str, str]], seed: int) -> None:
        self.controls: dict[str, list[tuple[str, str]]] = {"interest": [], "news": []}
        super().__init__(links, seed)

    def settle(self, at_most: float = math.inf) -> None:
        """Carry all that is under way."""
        while True:
            busy: list[tuple[dict[tuple[str, str], Any], tuple[str, str]]] = [
                (self.bulk, pair) for pair, units in self.bulk.items() if units
            ]
            busy += [(self.control, pair) for pair, units in self.control.items() if units]
            if not busy:
                return
            self.random.shuffle(busy)
            reached: dict[str, Any] = {}
            for queues, (one, other) in busy[: len(busy) // 2 + 1]:
                units = queues[one, other]
                if queues is self.control:
                    carried: Any = units
                    queues[one, other] = deque()
                else:
                    at = self.random.randrange(len(units))
                    carried = [units.pop(at)]
                for unit in carried:
                    self._arrive(one, other, unit)
                reached[other] = None
            for name in reached:
                self.take(name)

    def _arrive(self, one: str, other: str, unit: Any) -> None:
        if isinstance(unit, TellInterest):
            self.controls["interest"].append((one, other))
        elif isinstance(unit, TellNews | TellWants):
            self.controls["news"].append((one, other))
        super()._arrive(one, other, unit)

    def calm(self) -> None:
        """Let all say and hear what they have to."""
        for _ in range(2):
            self.settle()
            self.pass_time(SETTLES_S)
        self.settle()

    @property
    def neighbours(self) -> dict[str, list[str]]:
        """Peers of each site, in order."""
        found: dict[str, list[str]] = {}
        for one, other in sorted(self.links):
            found.setdefault(one, []).append(other)
        return found


def copies(federation: Large, source: random.Random, topic: str, subscribed: list[str], depth: int) -> Row:
    """Copies sent over links, and how many would do."""
    federation.transfers = needed = delivered = 0
    federation.delivered.clear()
    neighbours = federation.neighbours
    began = time.process_time()
    for number in range(MESSAGES):
        origin = source.choice(federation.names)
        ways = parents(neighbours, origin, depth)
        inside = [name for name in subscribed if name in ways]
        delivered += len(inside)
        needed += on_the_way(ways, inside)
        federation.publish(origin, f"m{number}", topic, depth=depth)
        federation.settle()
    assert sum(federation.delivered.values()) == delivered
    return {
        "sent": federation.transfers,
        "needed": needed,
        "delivered": delivered,
        "sent_per_needed": federation.transfers / needed if needed else float(federation.transfers > 0),
        "cpu_us_per_copy": (time.process_time() - began) / max(federation.transfers, 1) * 1e6,
    }


def controls(federation: Large, server: str) -> Row:
    """What it costs that one server begins to want a topic, and wants it no more."""
    out: Row = {}
    for what in ("come", "gone"):
        for told in federation.controls.values():
            told.clear()
        began = time.process_time()
        if what == "come":
            consumer = federation.subscribe(server, "new", "new")
        else:
            federation.routers[server].subscribing.unsubscribe(federation.now, consumer, "new", "", None)
            federation.take(server)
        federation.calm()
        for kind, told in federation.controls.items():
            each = Counter(told)
            out[f"{what}_{kind}"] = len(told)
            out[f"{what}_{kind}_most_on_a_link"] = max(each.values(), default=0)
        out[f"{what}_cpu_ms"] = (time.process_time() - began) * 1e3
    return out


def rows(graphs: list[str], sizes: list[int], seed: int) -> Iterator[Row]:
    """Copies and controls."""
    for kind, servers in itertools.product(graphs, sizes):
        if servers > {"mesh": MESH_MAX, "ring": RING_MAX}.get(kind, servers):
            continue
        source = random.Random(seed)
        federation = Large(graph(kind, servers, source), seed)
        federation.settle()
        subscribed: dict[str, list[str]] = {}
        for wanting, count in zip(WANTING, (1, max(servers // 10, 1), servers), strict=True):
            subscribed[wanting] = source.sample(federation.names, count)
            for name in subscribed[wanting]:
                federation.subscribe(name, wanting.replace(" ", "."), wanting)
        federation.settle()
        federation.begin_news()
        federation.calm()
        what = {"graph": kind, "servers": servers}
        for wanting, depth in itertools.product(WANTING, DEPTHS):
            topic = wanting.replace(" ", ".")
            found = copies(federation, source, topic, subscribed[wanting], depth)
            yield {"what": "copies", **what, "wanting": wanting, "depth": depth, **found}
        directions = len(federation.links)
        yield {
            "what": "controls",
            **what,
            "directions": directions,
            **controls(federation, source.choice(federation.names)),
        }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--servers", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--graphs", type=lambda text: text.split(","))
    parser.add_argument("--learn", metavar="SITESxWANTS", type=lambda text: list(map(int, text.split("x"))))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(servers=list(SERVERS), graphs=list(GRAPHS))
    given = parser.parse_args()
    # each site reads all that is said: in one process once is enough
    spreading.read_statement = lru_cache(100_000)(news.read_statement)  # type: ignore[attr-defined] # for this
    measured = [learning(*given.learn)] if given.learn else rows(given.graphs, given.servers, given.seed)
    head: list[str] = []
    found = []
    for row in measured:
        found.append(row)
        if given.json:
            continue
        if list(row) != head:
            head = list(row)
            print("\n" + "  ".join(f"{name:>{max(len(name), 8)}}" for name in head))
        values = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
        line = (f"{value:>{max(len(name), 8)}}" for name, value in zip(head, values, strict=True))
        print("  ".join(line), flush=True)
    if given.json:
        json.dump(found, sys.stdout, indent=0)
        print()


if __name__ == "__main__":
    main()
