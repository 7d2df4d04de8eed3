"""What quotas cost a message that is published, in turns with none.

    python -m tests.bench.quotas [--turns 60] [--messages 1500]

Two sites in this process, one with every quota set to what nobody reaches; messages of 1 KB are published
until each is on disk. CPU is that of the process.
"""

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from daemon.frontend import Identity, Session
from daemon.settings import Limits
from routing.message import Message, Section
from routing.quotas import Quotas
from tests.support.site import running_site

ALL = Quotas(
    sessions_max=1_000,
    publish_rate_per_s_max=9e8,
    held_messages_max=10**9,
    held_bytes_max=10**14,
    unfinished_bytes_max=2**30,
)


async def turn(session: Session, topic: str, messages: int) -> float:
    """Microseconds of CPU a message."""
    message = Message(delivery="ONE", sections=(Section("text/plain", b"x" * 1_000),))
    began, left = time.process_time(), messages
    for number in range(messages):
        session.publish(topic, message, number)
    while left:
        left -= len(await session.events())
    return (time.process_time() - began) / messages * 1e6


async def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--messages", type=int, default=1_500)
    given = parser.parse_args()
    limits = Limits(unanswered_per_session_max=2 * given.messages)
    with TemporaryDirectory(prefix="smqpd-bench-") as directory:
        async with (
            running_site(Path(directory) / "without", limits) as without,
            running_site(Path(directory) / "with", limits, None, ALL) as within,
        ):
            sessions = [
                site.open_session(Identity("ada"), "desk", protocol="bench", remote="192.0.2.1:1")
                for site in (without, within)
            ]
            for session in sessions:
                await turn(session, "warm", given.messages)
            took: list[tuple[float, float]] = []
            for number in range(given.turns):
                first = number % 2
                costs = dict.fromkeys((0, 1), 0.0)
                for which in (first, 1 - first):
                    costs[which] = await turn(sessions[which], f"work{number}", given.messages)
                took.append((costs[0], costs[1]))
    low, ratio, high = statistics.quantiles([quotas / none for none, quotas in took], n=4)
    none, quotas = (statistics.median(each) for each in zip(*took, strict=True))
    print(f"none {none:.1f} µs, all {quotas:.1f} µs; ratio {ratio:.3f}, quartiles {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    trio.run(main)
