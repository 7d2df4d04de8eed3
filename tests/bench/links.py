"""Guaranteed 1 KB messages from site A over B to C: a rate, what it costs each daemon, and the latency.

    python -m tests.bench.links [--messages 20000] [--rounds 3] [--outstanding 1000] [--rate 500] [--json]

Three daemons on loopback, linked by mutual TLS; a message is on disk at each before the one before it
forgets it. One publisher at A keeps so many messages outstanding; one subscriber at C acknowledges in two
phases. Latency is from the scheduled time of sending, at `--rate` messages a second, to the arrival at the
subscriber. The load generator writes and counts bytes, in this process. Medians of rounds; CPU from /proc.
"""

import argparse
import json
import selectors
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from tests.bench.daemon import cpu_s
from tests.bench.smqp import BODY, CREATED, MESSAGE, OK_COMMIT, OK_PUBLISH, OK_RECEIVED, Line
from tests.support.networks import Loopback
from tests.support.real_sites import RealSite, RealSites
from tests.support.trial import way_for

PAIRS = [("a", "b"), ("b", "c")]


class Port:
    """What `Line` wants of a daemon."""

    def __init__(self, site: RealSite) -> None:
        self.port = site.port
        self.account = "admin"
        self.password = site.password


def frame(number: int) -> bytes:
    """One PUBLISH."""
    return (
        b"PUBLISH bench\r\nCreated: %s\r\nCmuid: c%d\r\nDepth: 2\r\nSections: 1\r\n\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n%s" % (CREATED.encode(), number, BODY)
    )


class Reading:
    """The subscriber: RECEIVED, then COMMIT, of whatever came with one read.

    Attributes:
        came: messages.
        committed: of them, finished.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        self.came = self.committed = 0
        self._waiting: list[tuple[int, int]] = []
        self._under_way: list[tuple[int, int]] = []

    def read(self) -> int:
        """Read once; how many messages have come."""
        came, received, done = self.line.count(MESSAGE, OK_RECEIVED, OK_COMMIT)
        for _ in range(received):
            low, high = self._waiting.pop(0)
            self.line.send(f"COMMIT {low}-{high}")
            self._under_way.append((low, high))
        for _ in range(done):
            low, high = self._under_way.pop(0)
            self.committed += high - low + 1
        if came:
            self.line.send(f"RECEIVED {self.came + 1}-{self.came + came}")
            self._waiting.append((self.came + 1, self.came + came))
            self.came += came
        return came


def lines(sites: RealSites, round_: int) -> tuple[Line, Line, selectors.DefaultSelector]:
    """A publisher at A, a subscriber at C, and what waits for both."""
    publisher = Line(Port(sites["a"]), f"publisher{round_}")
    subscriber = Line(Port(sites["c"]), "subscriber")
    subscriber.send("SUBSCRIBE bench", "Credit: 1000")
    subscriber.wait_for(b"OK SUBSCRIBE")
    reading = selectors.DefaultSelector()
    reading.register(publisher.socket, selectors.EVENT_READ, publisher)
    reading.register(subscriber.socket, selectors.EVENT_READ, subscriber)
    return publisher, subscriber, reading


def rate(sites: RealSites, pids: dict[str, int], given: argparse.Namespace, round_: int) -> dict[str, float]:
    """As many as go through."""
    publisher, subscriber, selector = lines(sites, round_)
    reading = Reading(subscriber)
    frames = [frame(number) for number in range(given.messages)]
    sent = answered = 0
    used = {name: cpu_s(pid) for name, pid in pids.items()}
    began = time.perf_counter()
    while reading.committed < given.messages or answered < given.messages:
        # C may be far behind A: what is under way in all is bounded, as a queue of work would be
        room = min(given.outstanding - (sent - reading.committed), given.messages - sent)
        if room > 0:
            publisher.socket.sendall(b"".join(frames[sent : sent + room]))
            sent += room
        for key, _ in selector.select():
            if key.data is publisher:
                answered += publisher.count(OK_PUBLISH)[0]
            else:
                reading.read()
    took = time.perf_counter() - began
    result = {"messages_per_s": given.messages / took}
    for name, pid in pids.items():
        result[f"cpu_us_{name}"] = (cpu_s(pid) - used[name]) / given.messages * 1e6
    for line in (publisher, subscriber):
        line.socket.close()
    return result


def latency(
    sites: RealSites, pids: dict[str, int], given: argparse.Namespace, round_: int
) -> dict[str, float]:
    """At a steady rate, milliseconds from the scheduled time of sending to the arrival."""
    publisher, subscriber, selector = lines(sites, round_)
    reading = Reading(subscriber)
    count = int(given.rate * given.seconds)
    arrived: list[float] = []
    used = {name: cpu_s(pid) for name, pid in pids.items()}
    sent, began = 0, time.perf_counter()
    while reading.committed < count:
        now = time.perf_counter()
        while sent < count and began + sent / given.rate <= now:
            publisher.socket.sendall(frame(sent))
            sent += 1
        wait_s = max(began + sent / given.rate - time.perf_counter(), 0) if sent < count else None
        for key, _ in selector.select(wait_s):
            if key.data is publisher:
                publisher.count(OK_PUBLISH)
            else:
                # one publisher, one topic, one priority: they arrive in the order of their numbers
                arrived += [time.perf_counter()] * reading.read()
    cpu_us = {f"cpu_us_{name}_rated": (cpu_s(pid) - used[name]) / count * 1e6 for name, pid in pids.items()}
    times = sorted((at - began - number / given.rate) * 1000 for number, at in enumerate(arrived))
    for line in (publisher, subscriber):
        line.socket.close()
    return {f"p{part}_ms": times[min(int(count * part / 100), count - 1)] for part in (50, 99)} | cpu_us


async def run(directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All rounds."""
    # not through this process: what relays would cost it is none of the daemons' time
    sites = RealSites(directory, PAIRS, Loopback("abc"))
    async with sites.running():
        async with sites["c"].client("subscriber") as client:
            await client.subscribe("bench")
            await way_for(sites["a"], "bench", "ALL", {"b": 2})
        pids = {name: (await site.ready()).process.pid for name, site in sites.by_name.items()}
        rounds = []
        for number in range(given.rounds + 1):
            found = await trio.to_thread.run_sync(rate, sites, pids, given, 2 * number)
            found |= await trio.to_thread.run_sync(latency, sites, pids, given, 2 * number + 1)
            rounds.append(found)
    medians = {name: statistics.median(one[name] for one in rounds[1:]) for name in rounds[0]}
    return {"messages": given.messages, "rounds": given.rounds, **medians}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outstanding", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=5.0, help="of the measurement of latency")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smqpd-bench-") as directory:
        result = trio.run(run, Path(directory), given)
    if given.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:16}  {value:10,.1f}" if isinstance(value, float) else f"{name:16}  {value:10,}")


if __name__ == "__main__":
    main()
