"""The pages of a site with 100,000 topics, 1,000 sessions and 1,000,000 messages: how long each takes.

    python -m tests.bench.web [--topics 100000] [--sessions 1000] [--messages 1000000]

The site is in this process, without sockets of clients; pages are asked for over HTTP on loopback by a
thread, and CPU is that of this process, so that what it costs messages can be told.
"""

import argparse
import http.client
import socket
import statistics
import time
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from daemon.frontend import Identity, SubscribeOptions
from daemon.operations.site import SiteOperations
from daemon.settings import Limits
from plugins.web.serving import serve
from plugins.web.settings import WebSettings
from routing.message import Message, Section
from tests.support.site import PASSWORD, ListeningSite, running_site

AT_ONCE = 2_000
PAGES = (
    "/",
    "/topics",
    "/topics?order=held",
    "/topics?search=topic9",
    "/topics?order=oldest&offset=99950",
    "/topic?name=topic1",
    "/topic/messages?name=topic1",
    "/topic/dead-letters?name=topic1",
    "/sessions",
    "/sessions?offset=900",
    "/accounts",
    "/links",
    "/metrics",
    "/health/ready",
    "/api/overview",
    "/api/topics?count=1000",
    "/api/sessions",
)


async def fill(site: Any, topics: int, sessions: int, messages: int) -> list[Any]:
    """Messages on topics, one to each in turn; the sessions."""
    opened = [
        site.open_session(Identity("ada"), f"c{number}", protocol="bench", remote=f"192.0.2.1:{number}")
        for number in range(sessions)
    ]
    for number, session in enumerate(opened):
        session.subscribe(f"topic{number}.reader", SubscribeOptions(), number)
        await session.events()
    publisher = opened[0]
    body = (Section("text/plain", b"x" * 100),)
    for begin in range(0, messages, AT_ONCE):
        count = min(AT_ONCE, messages - begin)
        for number in range(begin, begin + count):
            publisher.publish(f"topic{number % topics}", Message(delivery="ONE", sections=body), number)
        while count:
            count -= len(await publisher.events())
    return opened


def ask(port: int, path: str) -> tuple[float, int]:
    """Seconds and bytes of one page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    basic = "Basic " + b64encode(f"ada:{PASSWORD}".encode()).decode()
    began = time.perf_counter()
    connection.request("GET", path, headers={"Authorization": basic})
    answer = connection.getresponse()
    data = answer.read()
    took = time.perf_counter() - began
    assert answer.status == 200, (path, answer.status, data[:200])
    connection.close()
    return took, len(data)


def measure(port: int, rounds: int) -> None:
    """Print what each page takes: the median, the longest, and CPU."""
    ask(port, "/")
    print(f"{'page':36} {'median ms':>10} {'longest ms':>10} {'CPU ms':>8} {'bytes':>8}")
    for path in PAGES:
        cpu = time.process_time()
        took = [ask(port, path) for _ in range(rounds)]
        cpu = (time.process_time() - cpu) / rounds
        times = [each * 1000 for each, _ in took]
        print(
            f"{path:36} {statistics.median(times):10.1f} {max(times):10.1f} {cpu * 1000:8.1f} {took[0][1]:8}"
        )


async def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="smqpd-bench-") as directory:
        limits = Limits(unanswered_per_session_max=2 * AT_ONCE)
        async with running_site(Path(directory), limits) as site, trio.open_nursery() as nursery:
            listening = socket.create_server(("127.0.0.1", 0))
            running = ListeningSite(site.broker, {"http": [listening]}, None)
            running.operations = SiteOperations(site.broker)
            nursery.start_soon(running.operations.run)
            await fill(site, given.topics, given.sessions, given.messages)
            await nursery.start(serve, running, WebSettings(listen=()))
            await trio.to_thread.run_sync(measure, listening.getsockname()[1], given.rounds)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
