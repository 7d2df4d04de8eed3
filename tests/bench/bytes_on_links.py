"""Bytes on each link of six real daemons in a ring, and of five in a full mesh, for one subscriber and all.

    python -m tests.bench.bytes_on_links [--messages 200] [--seconds 5] [--json]

Daemons on loopback, linked by mutual TLS, each link through a relay of this process that counts what passes,
both ways together. Guaranteed messages of 1 KB with Depth -1 are published at `a`, one after another; of one
subscriber, that is at `d` in the ring and at `c` in the mesh. What passes while nothing is published (probes)
is counted first, and taken off.
"""

import argparse
import contextlib
import itertools
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import trio

from plugins.smqp.client import Client
from routing.message import Message, Section
from tests.support.networks import Proxies, SitePair
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import RealSites

RING: Final = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")]
MESH: Final = list(itertools.combinations("abcde", 2))
GRAPHS: Final[dict[str, tuple[list[SitePair], str]]] = {
    "ring of six": (RING, "d"),
    "mesh of five": (MESH, "c"),
}
"""And where the one subscriber is."""

PUBLISHED_AT: Final = "a"
BODY: Final = b"x" * 1_024
DEPTH: Final = -1
CREATED: Final = "2026-01-01T00:00:00Z"
LOOKS_S: Final = 0.5
STILL_LOOKS: Final = 4
"""In which no link carries more than when nothing is published."""


class Counting(Proxies):
    """Counts what its relays pass on.

    Attributes:
        passed: bytes, by link.
    """

    def __init__(self, sites: str, pairs: list[SitePair]) -> None:
        super().__init__(sites, pairs)
        self.passed: Counter[SitePair] = Counter()

    async def _pump(self, pair: SitePair, source: trio.SocketStream, target: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some():
                self.passed[pair] += len(data)
                await target.send_all(data)
            await target.send_eof()

    async def in_time(self, seconds: float) -> Counter[SitePair]:
        """What passes within so many seconds."""
        before = self.passed.copy()
        await trio.sleep(seconds)
        return self.passed - before


async def read(client: Client, came: Counter[str], site: str) -> None:
    """Take all that comes."""
    async for delivery in client:
        await client.received([delivery])
        await client.commit([delivery])
        came[site] += 1


def message(topic: str, number: int) -> Message:
    """One of those published to a topic; the first is also for who is known to want it only later."""
    return Message(
        cmuid=f"{topic}-{number}",
        created=CREATED,
        depth=DEPTH,
        timeout_s=None if number else PATIENCE_S,
        sections=(Section("text/plain", BODY),),
    )


async def measured(
    sites: RealSites, network: Counting, given: argparse.Namespace, topic: str, subscribed: str
) -> dict[str, float]:
    """Bytes by link for each message, without what passes anyway."""
    came: Counter[str] = Counter()

    async def all_have(count: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while any(came[site] < count for site in subscribed):
                await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        for site in subscribed:
            client = await nursery.start(logged_in, sites, site, topic)
            nursery.start_soon(read, client, came, site)
        publisher = await nursery.start(logged_in, sites, PUBLISHED_AT, "")
        await publisher.publish(topic, message(topic, 0))  # where it is not wanted yet it comes when it is
        await all_have(1)
        await still(network)
        idle = await network.in_time(given.seconds)
        before, began = network.passed.copy(), trio.current_time()
        for number in range(1, given.messages + 1):
            await publisher.publish(topic, message(topic, number))
        await all_have(given.messages + 1)
        await still(network)
        passed, took = network.passed - before, trio.current_time() - began
        nursery.cancel_scope.cancel()
    return {
        "".join(pair): (passed[pair] - idle[pair] / given.seconds * took) / given.messages for pair in passed
    }


async def logged_in(sites: RealSites, site: str, topic: str, task_status: trio.TaskStatus[Client]) -> None:
    """A login at a site, subscribed if there is a topic, until it is cancelled."""
    async with sites[site].client(f"{topic or 'publisher'}-{site}") as client:
        if topic:
            await client.subscribe(topic)
        task_status.started(client)
        await trio.sleep_forever()


async def still(network: Counting) -> None:
    """Wait until nothing but probes passes."""
    least, looks = await network.in_time(LOOKS_S), 0
    with trio.fail_after(PATIENCE_S):
        while looks < STILL_LOOKS:
            passed = await network.in_time(LOOKS_S)
            looks = looks + 1 if passed.total() < 1.5 * least.total() + 1_000 else 0
            least = min(least, passed, key=Counter.total)


async def run(directory: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows."""
    rows = []
    for name, (pairs, alone) in GRAPHS.items():
        names = "".join(sorted({site for pair in pairs for site in pair}))
        network = Counting(names, pairs)
        async with trio.open_nursery() as relays:
            await network.serve(relays)
            sites = RealSites(directory / name.replace(" ", "-"), pairs, network)
            async with sites.running():
                for wanting, subscribed in (("one", alone), ("all", names)):
                    found = await measured(sites, network, given, f"to.{wanting}", subscribed)
                    row = {"graph": name, "wanting": wanting, "total": sum(found.values()), "links": found}
                    rows.append(row)
            relays.cancel_scope.cancel()
    return rows


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0, help="in which nothing is published")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smqpd-bench-") as directory:
        rows = trio.run(run, Path(directory), given)
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['graph']}, {row['wanting']} subscribed: {row['total']:,.0f} bytes a message")
        print("  ".join(f"{link} {count:,.0f}" for link, count in sorted(row["links"].items())))


if __name__ == "__main__":
    main()
