"""Guaranteed 1 KB messages that wait: the memory that they cost a daemon, and the start with them.

    python -m tests.bench.waiting [--messages 1000000] [--json]

They are published through SMQP on loopback with mode ONE to a topic that nobody reads. The daemon's memory
is read from /proc once all are answered, and again after a kill and a start, which is timed from the command
to the first connection that is accepted. The file cache is warm, as after a crash of the daemon alone.
"""

import argparse
import json
import signal
import time

from tests.bench.daemon import Measured, measured
from tests.bench.smqp import CREATED, OK_PUBLISH, Line

BODY = b"x" * 1024
OUTSTANDING = 1_000


def frame(number: int) -> bytes:
    """One PUBLISH."""
    return (
        b"PUBLISH waiting\r\nCreated: %s\r\nCmuid: c%d\r\nDelivery: ONE\r\nSections: 1\r\n\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n%s" % (CREATED.encode(), number, BODY)
    )


def fill(daemon: Measured, messages: int) -> None:
    """Publish so many messages, and wait until each has been answered."""
    publisher = Line(daemon, "publisher")
    sent = answered = 0
    while answered < messages:
        room = min(OUTSTANDING - (sent - answered), messages - sent)
        if room > 0:
            publisher.socket.sendall(b"".join(map(frame, range(sent, sent + room))))
            sent += room
        answered += publisher.count(OK_PUBLISH)[0]
    publisher.socket.close()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with measured() as daemon:
        result: dict[str, float] = {"messages": given.messages, "idle_resident_mb": daemon.resident_mb()}
        began = time.perf_counter()
        fill(daemon, given.messages)
        result["publishing_s"] = time.perf_counter() - began
        result["resident_mb"] = daemon.resident_mb()
        daemon.stop(signal.SIGKILL)
        began = time.perf_counter()
        daemon.start()
        result["start_s"] = time.perf_counter() - began
        result["start_cpu_s"] = daemon.cpu_s()
        result["resident_after_start_mb"] = daemon.resident_mb()
    if given.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:26}  {value:12,.1f}" if isinstance(value, float) else f"{name:26}  {value:12,}")


if __name__ == "__main__":
    main()
