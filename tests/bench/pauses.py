"""Pauses of the event loop, for hours of mixed load: each turn of more than 20 ms, as the daemon counts them.

    python -m tests.bench.pauses [--minutes 60] [--rate 1000] [--directory DIR] [--real-time]

One daemon; of each ten messages six are guaranteed ones of 1 KB, one of 20 KB, and three unguaranteed
ones of 100 bytes to ten subscribers. The site reads its files again each minute. Each minute one line: the
rate, CPU for each message, the turns so far that were long because they worked (`work`) or stood still
(`wait`), the longest pause of the minute, and how long commits took. `--real-time`: the daemon goes before
all that has no such priority, so that what others do on these cores does not count for its own.
"""

import argparse
import os
import re
import signal
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from daemon.frontend import SubscribeOptions
from plugins.smqp.client import Client
from plugins.smqp.connecting import connect
from routing.message import Message, Section
from tests.bench.daemon import Measured
from tests.support.ports import free_port

LOOK_EVERY_S = 10.0
BURST_EVERY_S = 0.01
READERS = 10
MESSAGES = (
    ("orders", Message(sections=(Section("text/plain", b"o" * 1_000),)), 6),
    ("pictures", Message(sections=(Section("text/plain", b"p" * 20_000),)), 1),
    ("prices", Message(guarantee=False, sections=(Section("text/plain", b"q" * 100),)), 3),
)


@asynccontextmanager
async def client(daemon: Measured, channel: str) -> AsyncIterator[Client]:
    """A login of the administrator."""
    login = connect("127.0.0.1", daemon.port, daemon.account, daemon.password, channel=channel)
    async with login as connected:
        yield connected


async def read(daemon: Measured, topic: str, number: int, *, task_status: trio.TaskStatus[None]) -> None:
    """Take whatever comes."""
    async with client(daemon, f"{topic}.{number}") as reader:
        await reader.subscribe(topic, SubscribeOptions(credit=1_000))
        task_status.started()
        while True:
            deliveries = await reader.take()
            if guaranteed := [one for one in deliveries if one.message.guarantee]:
                await reader.commit(guaranteed)


async def publish(daemon: Measured, rate: float, published: list[int]) -> None:
    """A little each hundredth of a second; what could not go in time goes later."""
    mixed = [(topic, message) for topic, message, parts in MESSAGES for _ in range(parts)]
    async with client(daemon, "publisher") as publisher:
        began_at = trio.current_time()
        while True:
            due = int((trio.current_time() - began_at) * rate)
            for number in range(published[0], due):
                await publisher.publish_soon(*mixed[number % len(mixed)])
            published[0] = due
            await trio.sleep(BURST_EVERY_S)


class Pages:
    """The metrics of the site."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"

    def read(self) -> dict[str, float]:
        """By name, with its labels."""
        with urllib.request.urlopen(self._url) as answer:
            text = answer.read().decode()
        return {
            name: float(value) for name, value in re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
        }


def longest_bucket(now: dict[str, float], before: dict[str, float], name: str) -> str:
    """The bound of the highest bucket in which anything has fallen since."""
    bounds = []
    for bucket in (each for each in now if each.startswith(f"{name}_bucket")):
        found = re.search(r'le="([^"]+)"', bucket)
        assert found is not None
        bounds.append((float(found[1]), now[bucket] - before.get(bucket, 0.0)))
    bounds.sort()
    return next((f"{bound * 1000:g}" for bound, count in bounds if count == bounds[-1][1]), "-")


async def watch(daemon: Measured, pages: Pages, minutes: int, published: list[int]) -> None:
    """Print what each minute brought."""
    first = before = pages.read()
    cpu_s, sent, began_at = daemon.cpu_s(), published[0], time.monotonic()
    for minute in range(1, minutes + 1):
        longest_s, now = 0.0, before
        while time.monotonic() < began_at + 60 * minute:
            await trio.sleep(LOOK_EVERY_S)
            now = await trio.to_thread.run_sync(pages.read)
            longest_s = max(longest_s, now["smqpd_loop_longest_pause_seconds"])
        long = {
            cause: int(now[name] - first[name])
            for cause in ("work", "wait")
            for name in [f'smqpd_loop_long_pauses_total{{cause="{cause}"}}']
        }
        many, used_s = published[0] - sent, daemon.cpu_s() - cpu_s
        print(
            f"minute {minute:3}  {many / 60:6.0f} messages/s  {used_s / many * 1e6:5.0f} us  "
            f"long turns: work {long['work']} wait {long['wait']}  longest pause {longest_s * 1000:.0f} ms  "
            f"commits up to {longest_bucket(now, before, 'smqpd_commit_seconds')} ms",
            flush=True,
        )
        before, cpu_s, sent = now, cpu_s + used_s, sent + many
        os.kill(daemon.pid, signal.SIGHUP)


async def run(daemon: Measured, pages: Pages, minutes: int, rate: float) -> None:
    published = [0]
    async with trio.open_nursery() as nursery:
        for topic, readers in (("orders", 1), ("pictures", 1), ("prices", READERS)):
            for number in range(readers):
                await nursery.start(read, daemon, topic, number)
        nursery.start_soon(publish, daemon, rate, published)
        await watch(daemon, pages, minutes, published)
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1_000.0, help="messages a second")
    parser.add_argument("--directory", type=Path, help="where the site lies meanwhile, as on a certain disk")
    parser.add_argument("--real-time", action="store_true", help="needs the right to ask for it")
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="smqpd-bench-", dir=chosen.directory) as directory:
        daemon = Measured(Path(directory) / "site")
        port = free_port()
        config = daemon.directory / "smqpd.toml"
        config.write_text(
            f'{config.read_text()}\n[plugins.web]\nlisten = ["127.0.0.1:{port}"]\nmetrics_login = false\n'
        )
        daemon.start()
        try:
            if chosen.real_time:
                for thread in Path(f"/proc/{daemon.pid}/task").iterdir():  # each may have the interpreter
                    os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
            trio.run(run, daemon, Pages(port), chosen.minutes, chosen.rate)
        finally:
            daemon.stop()


if __name__ == "__main__":
    main()
