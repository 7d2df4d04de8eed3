"""What questions of operators cost messages, at a site with many topics that holds many messages.

    python -m tests.bench.operations [--topics 100000] [--held 1000000]

A router is filled without a store; what is asked of it runs beside a task that notes how long it is kept
waiting. The longest wait is what a message that comes meanwhile waits at most; the CPU is what each question
takes of the site's, with that of the task beside it.
"""

import argparse
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from daemon.operations.census import LOOK_S, Census
from daemon.operations.topics import TopicQueries
from daemon.system.clock import SystemClock
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.router import Router
from routing.subscription import Consumer
from tests.support.sites import SETTINGS

MANY = msgspec.structs.replace(SETTINGS, queue_messages_max=10_000_000)


def filled(topics: int, held: int) -> Router:
    """A router with so much in it; every hundredth topic has a subscription that takes nothing yet."""
    router = Router("a.example", 1, MANY, lambda: time.time_ns() // 1_000_000)
    ada = Consumer(None, "ada", "desk")
    message = Message(delivery="ONE", created="2026-11-21T10:00:00Z", sections=(Section("text/plain", b"x"),))
    for number in range(topics):
        if number % 100 == 0:
            options = SubscribeOptions(credit=0)
            router.subscribing.subscribe(1.0, ada, f"bench.t{number:06}", options, None)
    for number in range(held):
        name = f"bench.t{number % topics:06}"
        router.publishing.publish(1.0, ada, name, message, "ada:desk@a.example", None)
        if number % 1_000 == 0:
            router.take()
    router.take()
    return router


async def asked(what: str, question: Callable[[], Awaitable[Any]], repeats: int = 5) -> None:
    """Print what a question takes, the best of some, and how long it has kept another task waiting."""
    best_ms, best_cpu_ms, best_wait_ms = math.inf, math.inf, math.inf
    for _ in range(repeats):
        waited = 0.0

        async def watch() -> None:
            nonlocal waited
            while True:
                began = time.thread_time()
                await trio.lowlevel.checkpoint()
                waited = max(waited, time.thread_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            began, cpu = time.perf_counter(), time.thread_time()
            await question()
            best_ms = min(best_ms, (time.perf_counter() - began) * 1e3)
            best_cpu_ms = min(best_cpu_ms, (time.thread_time() - cpu) * 1e3)
            nursery.cancel_scope.cancel()
        best_wait_ms = min(best_wait_ms, waited * 1e3)
    print(f"{what:<34} {best_ms:8.1f} ms  {best_cpu_ms:8.1f} ms CPU  held the loop {best_wait_ms:6.2f} ms")


async def main(topics: int, held: int) -> None:
    """Ask all."""
    router = filled(topics, held)

    census = Census(router.view, lambda: (10_000, 2**30))

    def fresh() -> TopicQueries:
        """One that has found nothing yet."""
        return TopicQueries(router.view, SystemClock(), census.topic_rates)

    queries = fresh()
    print(f"topics {topics:,}, held {router.view.held:,}")
    await asked("topics, first page by name", lambda: fresh().page("", "name", 0, 50))
    await asked("topics, last page by name", lambda: fresh().page("", "name", topics - 50, 50))
    await asked("the same, found a moment ago", lambda: queries.page("", "name", topics - 50, 50))
    await asked("topics, most held", lambda: fresh().page("", "held", 0, 50))
    await asked("topics, oldest", lambda: fresh().page("", "oldest", 0, 50))
    await asked("topics, search", lambda: fresh().page("t0123", "name", 0, 50))
    await asked("one topic", lambda: queries.one("bench.t000100", 10, 10, lambda handle: 0))
    await asked(f"all counted, each {LOOK_S * topics:g} s", census.counted, repeats=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--held", type=int, default=1_000_000)
    arguments = parser.parse_args()
    trio.run(main, arguments.topics, arguments.held)
