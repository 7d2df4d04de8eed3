"""Guaranteed 1 KB messages through SMQP on loopback: messages a second, and what one costs the daemon.

    python -m tests.bench.smqp [--messages 50000] [--rounds 5] [--outstanding 1000] [--json]

One publisher keeps so many messages outstanding, one subscriber acknowledges in two phases, whatever came
with one read by one frame. The load generator writes and counts bytes and reads no header, so that it costs
less than what it measures; it runs in a process of its own. Medians of rounds, the daemon's CPU from /proc,
and the core's own cost: the same messages through the router alone, without disk or network.
"""

import argparse
import json
import selectors
import socket
import statistics
import time
from typing import Protocol

from daemon.broker.router_settings import router_settings
from daemon.settings import Settings, SiteSettings
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.router import Router
from routing.subscription import Consumer
from tests.bench.daemon import Measured, measured

BODY = b"x" * 1024
CREATED = "2026-01-01T00:00:00.000Z"
OK_PUBLISH = b"OK PUBLISH"
OK_COMMIT = b"OK COMMIT"
OK_RECEIVED = b"OK RECEIVED"
MESSAGE = b"MESSAGE bench"


class Listening(Protocol):
    """Where an SMQP front end listens on 127.0.0.1, and who may log in."""

    port: int
    account: str
    password: str


class Line:
    """One logged-in connection that writes whole frames and counts words in what comes."""

    def __init__(self, daemon: Listening, channel: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", daemon.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.send(f"PASS {daemon.account}/{channel} {daemon.password}")
        self.wait_for(b"OK PASS")

    def send(self, *lines: str) -> None:
        """One frame without sections."""
        self.socket.sendall("\r\n".join((*lines, "", "")).encode())

    def wait_for(self, word: bytes) -> None:
        """Read until a word has come, and forget what came with it."""
        got = b""
        while word not in got:
            got += self.socket.recv(65536)

    def count(self, *words: bytes) -> list[int]:
        """Read once; how often each word has come, also where reads cut one in two."""
        data = self.rest + self.socket.recv(1 << 20)
        keep = max(map(len, words)) - 1
        tail = data[-keep:]
        counts = [data.count(word) - self.rest.count(word) for word in words]
        self.rest = tail if not any(word in tail for word in words) else b""
        return counts


def frame(number: int) -> bytes:
    """One PUBLISH."""
    return (
        b"PUBLISH bench\r\nCreated: %s\r\nCmuid: c%d\r\nSections: 1\r\n\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n%s" % (CREATED.encode(), number, BODY)
    )


def run(daemon: Measured, messages: int, outstanding: int, round_: int) -> dict[str, float]:
    """One round on fresh connections."""
    publisher, subscriber = Line(daemon, f"publisher{round_}"), Line(daemon, "subscriber")
    subscriber.send("SUBSCRIBE bench", f"Credit: {outstanding}")
    subscriber.wait_for(b"OK SUBSCRIBE")
    frames = [frame(number) for number in range(messages)]
    reading = selectors.DefaultSelector()
    reading.register(publisher.socket, selectors.EVENT_READ, publisher)
    reading.register(subscriber.socket, selectors.EVENT_READ, subscriber)
    sent = answered = committed = 0
    first = 1
    waiting: list[tuple[int, int]] = []
    under_way: list[tuple[int, int]] = []
    cpu, began = daemon.cpu_s(), time.perf_counter()
    while committed < messages or answered < messages:
        room = min(outstanding - (sent - answered), messages - sent)
        if room > 0:
            publisher.socket.sendall(b"".join(frames[sent : sent + room]))
            sent += room
        for key, _ in reading.select():
            if key.data is publisher:
                answered += publisher.count(OK_PUBLISH)[0]
                continue
            came, received, done = subscriber.count(MESSAGE, OK_RECEIVED, OK_COMMIT)
            for _ in range(received):
                low, high = waiting.pop(0)
                subscriber.send(f"COMMIT {low}-{high}")
                under_way.append((low, high))
            for _ in range(done):
                low, high = under_way.pop(0)
                committed += high - low + 1
            if came:
                subscriber.send(f"RECEIVED {first}-{first + came - 1}")
                waiting.append((first, first + came - 1))
                first += came
    took = time.perf_counter() - began
    used = daemon.cpu_s() - cpu
    for line in (publisher, subscriber):
        line.socket.close()
    return {"messages_per_s": messages / took, "cpu_us": used / messages * 1e6}


def core_us(messages: int) -> float:
    """CPU of the routing core alone, microseconds a message: publish, deliver, received, commit."""
    settings = router_settings(Settings(site=SiteSettings(server_name="bench.example")))
    router = Router("bench.example", 1, settings, lambda: 0)
    publisher, subscriber = Consumer(None, "a", "p"), Consumer(None, "a", "s")
    router.subscribing.subscribe(0.0, subscriber, "bench", SubscribeOptions(credit=messages), None)
    message = Message(created=CREATED, sections=(Section("text/plain", BODY),))
    began = time.process_time()
    for number in range(1, messages + 1):
        router.publishing.publish(0.0, publisher, "bench", message, "a:p@bench.example", None)
        router.acknowledging.received(subscriber, (number,), None)
        router.acknowledging.commit(0.0, subscriber, (number,), None)
        router.take()
    return (time.process_time() - began) / messages * 1e6


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--outstanding", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with measured() as daemon:
        idle_mb = daemon.resident_mb()
        rounds = [run(daemon, given.messages, given.outstanding, n) for n in range(given.rounds + 1)][1:]
        resident_mb = daemon.resident_mb()
    result = {
        "messages_per_s": statistics.median(r["messages_per_s"] for r in rounds),
        "cpu_us_per_message": statistics.median(r["cpu_us"] for r in rounds),
        "core_cpu_us_per_message": statistics.median(core_us(20_000) for _ in range(3)),
        "idle_resident_mb": idle_mb,
        "resident_mb": resident_mb,
        "rounds": given.rounds,
        "messages": given.messages,
    }
    if given.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:26}  {value:12,.1f}" if isinstance(value, float) else f"{name:26}  {value:12,}")


if __name__ == "__main__":
    main()
