"""What routing costs a whole federation, by counting: routers alone, without network, disk or clock.

    python -m tests.bench.federation [--servers 10,100,1000] [--seed 1] [--json]

Transmissions: random connected graphs with three links a server; messages from random servers with a random
depth from 1 to 6, to a topic that one server in ten subscribes to. Beside them the ideal: each server of the
ball but the first is sent one copy (`flood`), or each server on the shortest ways to the subscribers in it
(`pruned`). Every copy is delayed at random, so that it may come first by a long way.

Interest: what is told when one server of a settled federation subscribes to one more topic, and when it
leaves it again, and what the topics that were there before add to that.
"""

import argparse
import json
import math
import random
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from routing.federation.copies import PeerRules
from routing.federation.decisions import TellInterest
from tests.support.sites import Federation

LINKS_PER_SERVER = 3
MESSAGES = 20
DEPTH_MAX = 6
TOPICS = (1, 100, 1000)


def graph(servers: int, source: random.Random) -> set[tuple[str, str]]:
    """A random connected graph."""
    names = [f"s{number:04}" for number in range(servers)]
    links = {tuple(sorted((name, source.choice(names[:at])))) for at, name in enumerate(names) if at}
    while len(links) < min(servers * LINKS_PER_SERVER // 2, servers * (servers - 1) // 2):
        links.add(tuple(sorted(source.sample(names, 2))))
    return {(a, b) for a, b in links}


def parents(federation: Federation, centre: str, radius: int) -> dict[str, str]:
    """The servers within so many links, each with the one before it on a shortest way."""
    neighbours: dict[str, list[str]] = {}
    for a, b in sorted(federation.links):
        neighbours.setdefault(a, []).append(b)
    found, edge = {centre: ""}, deque([(centre, 0)])
    while edge:
        name, distance = edge.popleft()
        for other in neighbours[name] if distance < radius else ():
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


class Large(Federation):
    """Settles in rounds, in which a link carries one copy, or what was told of interest, or nothing.

    What a site has to tell after a round goes together, as after one commit.

    Attributes:
        controls, changes: what was told of interest.
    """

    controls = changes = 0
    flood = False

    def set_flood(self, flood: bool) -> None:
        """Whether everything within depth goes everywhere, wanted or not."""
        self.flood = flood
        for one, other in self.links:
            self.routers[one].federation.set_peer(other, PeerRules(flood=flood))

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
            self.controls += 1
            self.changes += len(unit.changes)
        super()._arrive(one, other, unit)


def transmissions(federation: Large, source: random.Random, subscribed: list[str]) -> dict[str, float]:
    """Copies sent over links, and how many would do."""
    flood = federation.flood
    federation.transfers = ideal = delivered = 0
    federation.delivered.clear()
    began = time.process_time()
    for number in range(MESSAGES):
        origin, depth = source.choice(federation.names), source.randint(1, DEPTH_MAX)
        ways = parents(federation, origin, depth)
        inside = [name for name in subscribed if name in ways]
        delivered += len(inside)
        ideal += len(ways) - 1 if flood else on_the_way(ways, inside)
        federation.publish(origin, f"m{number}", depth=depth)
        federation.settle()
    assert sum(federation.delivered.values()) == delivered
    return {
        "sent": federation.transfers,
        "ideal": ideal,
        "delivered": delivered,
        "sent_per_ideal": federation.transfers / max(ideal, 1),
        "sent_per_delivered": federation.transfers / max(delivered, 1),
        "cpu_us_per_copy": (time.process_time() - began) / max(federation.transfers, 1) * 1e6,
    }


def interest(federation: Large, server: str) -> dict[str, float]:
    """What it costs that one server begins to want a topic, and wants it no more."""
    out: dict[str, float] = {}
    for what in ("come", "gone"):
        federation.controls = federation.changes = 0
        began = time.process_time()
        if what == "come":
            consumer = federation.subscribe(server, "new", "new")
        else:
            federation.routers[server].subscribing.unsubscribe(federation.now, consumer, "new", "", None)
            federation.take(server)
        federation.settle()
        out |= {
            f"{what}_controls": federation.controls,
            f"{what}_per_link": federation.changes / len(federation.links),
            f"{what}_cpu_ms": (time.process_time() - began) * 1e3,
        }
    return out


def rows(sizes: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """All measurements."""
    changes: list[dict[str, Any]] = []
    for servers in sizes:
        source = random.Random(seed)
        federation = Large(graph(servers, source), seed)
        federation.settle()
        subscribed = source.sample(federation.names, max(servers // 10, 1))
        for name in subscribed:
            federation.subscribe(name)
        federation.settle()
        for way in ("pruned", "flood"):
            federation.set_flood(way == "flood")
            yield {"servers": servers, "what": way, **transmissions(federation, source, subscribed)}
        there = 0
        for topics in TOPICS:
            for number in range(there, topics):
                federation.subscribe(source.choice(federation.names), f"t{number}", "others")
            there = topics
            federation.settle()
            change = interest(federation, source.choice(federation.names))
            changes.append({"servers": servers, "topics": topics, **change})
    yield from changes


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--servers", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(servers=[10, 100, 1000])
    given = parser.parse_args()
    head: list[str] = []
    for row in rows(given.servers, given.seed):
        if given.json:
            print(json.dumps(row), flush=True)
            continue
        if list(row) != head:
            head = list(row)
            print("\n" + "  ".join(f"{name:>{max(len(name), 10)}}" for name in head))
        values = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
        line = (f"{value:>{max(len(name), 10)}}" for name, value in zip(head, values, strict=True))
        print("  ".join(line), flush=True)


if __name__ == "__main__":
    main()
