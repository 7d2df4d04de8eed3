"""Subscriptions to patterns: what finding them costs, and a start with many of them and what waits for them.

    python -m tests.bench.patterns [--json]                          many patterns, in this process
    python -m tests.bench.patterns --restart [--messages 1000000]    a daemon with 10,000 of them

First, for 10 to 1,000,000 patterns of which one takes the topic: to find that one; and, in the core alone, a
message to a topic that it takes, and to one that no pattern takes, each published, delivered and committed.

Then guaranteed messages of 100 bytes and mode ALL are published to 10,000 topics, each for one durable
subscription to a pattern that nobody consumes from; the daemon is killed, and its start timed to the first
connection that is accepted.
"""

import argparse
import gc
import json
import signal
import time

from daemon.broker.router_settings import router_settings
from daemon.settings import Settings, SiteSettings
from daemon.site.run import YOUNG_OBJECTS_MAX
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.patterns import PatternTree
from routing.router import Router
from routing.subscription import Consumer
from tests.bench.daemon import Measured, measured
from tests.bench.smqp import CREATED, OK_PUBLISH, Line

COUNTS = (10, 1_000, 100_000, 1_000_000)
SUBSCRIBED_MAX = 100_000
"""Above that only the tree is measured: a million subscriptions take some GB, whatever they are to."""

RUNS = 20_000
PATTERNS = 10_000
PER_SESSION = 1_000
OUTSTANDING = 1_000
BODY = b"x" * 100


def pattern(number: int) -> str:
    """One of many: no two take the same topic."""
    return f"sensor.{number}.#" if number % 2 else f"sensor.*.kind{number}"


def tree_us(count: int) -> float:
    """CPU of finding the one pattern that takes a topic, microseconds."""
    tree: PatternTree[int] = PatternTree()
    for number in range(count):
        tree.put(pattern(number), number)
    assert tree.match("sensor.7.now") == [7]
    began = time.process_time()
    for _ in range(RUNS):
        tree.match("sensor.7.now")
    return (time.process_time() - began) / RUNS * 1e6


def core_us(count: int, topic: str, *, is_named: bool) -> float:
    """CPU of the core for one message to a topic with one subscription, microseconds.

    `is_named`: the subscription is to the topic itself, and no pattern takes that.
    """
    settings = router_settings(Settings(site=SiteSettings(server_name="bench.example")))
    router = Router("bench.example", 1, settings, lambda: 0)
    publisher, subscriber, others = (Consumer(None, "a", channel) for channel in "pso")
    options = SubscribeOptions(credit=RUNS)
    for number in range(count):
        consumer = subscriber if pattern(number) == "sensor.7.#" else others
        router.subscribing.subscribe(0.0, consumer, pattern(number), options, None)
    if is_named:
        router.subscribing.subscribe(0.0, subscriber, topic, options, None)
    router.take()
    message = Message(created=CREATED, sections=(Section("text/plain", BODY),))
    gc.freeze()  # as a daemon does
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    began = time.process_time()
    for number in range(1, RUNS + 1):
        router.publishing.publish(0.0, publisher, topic, message, "a:p@bench.example", None)
        router.acknowledging.commit(0.0, subscriber, (number,), None)
        router.take()
    return (time.process_time() - began) / RUNS * 1e6


def frame(number: int) -> bytes:
    """One PUBLISH."""
    return (
        b"PUBLISH sensor.%d.now\r\nCreated: %s\r\nCmuid: c%d\r\nSections: 1\r\n\r\n"
        % (
            number % PATTERNS,
            CREATED.encode(),
            number,
        )
        + b"Content-Type: text/plain\r\nContent-Length: 100\r\n\r\n%s" % BODY
    )


def fill(daemon: Measured, messages: int) -> None:
    """Subscribe, leave, and publish."""
    for first in range(0, PATTERNS, PER_SESSION):
        line = Line(daemon, f"reader{first}")
        for number in range(first, first + PER_SESSION):
            line.send(f"SUBSCRIBE sensor.{number}.#")
        answered = 0
        while answered < PER_SESSION:
            answered += line.count(b"OK SUBSCRIBE")[0]
        line.socket.close()
    publisher = Line(daemon, "publisher")
    sent = answered = 0
    while answered < messages:
        room = min(OUTSTANDING - (sent - answered), messages - sent)
        if room > 0:
            publisher.socket.sendall(b"".join(map(frame, range(sent, sent + room))))
            sent += room
        answered += publisher.count(OK_PUBLISH)[0]
    publisher.socket.close()


def restart(messages: int) -> dict[str, float]:
    """A start with all of it."""
    with measured() as daemon:
        began = time.perf_counter()
        fill(daemon, messages)
        result = {"messages": float(messages), "publishing_s": time.perf_counter() - began}
        result["resident_mb"] = daemon.resident_mb()
        daemon.stop(signal.SIGKILL)
        began = time.perf_counter()
        daemon.start()
        result["start_s"] = time.perf_counter() - began
        result["start_cpu_s"] = daemon.cpu_s()
        result["resident_after_start_mb"] = daemon.resident_mb()
    return result


def many() -> dict[str, float]:
    """All that is measured in this process."""
    result = {f"tree_us_{count}": tree_us(count) for count in COUNTS}
    for count in (0, *COUNTS):
        if count <= SUBSCRIBED_MAX:
            result[f"named_us_{count}"] = core_us(count, "bench", is_named=True)
            if count:
                result[f"followed_us_{count}"] = core_us(count, "sensor.7.now", is_named=False)
    return result


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = restart(given.messages) if given.restart else many()
    if given.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:30} {value:12,.1f}")


if __name__ == "__main__":
    main()
