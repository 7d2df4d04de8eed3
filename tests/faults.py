"""Real sites under faults for as long as wanted, see `tests.support.trial`: what CI does in seconds.

    python -m tests.faults [--partitions 1,2,5,10,20,60] [--kills 20] [--proxy] [--json]

Cuts links for so many seconds each, one after the other and around the ring, then kills sites in turn with
SIGKILL, all under traffic. Prints the account of all copies, and exits 1 if anything went wrong.
"""

import argparse
import json
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import trio

from tests.support.networks import may_make_namespaces
from tests.support.trial import PAIRS, Trial, trial


async def partitions(running: Trial, lengths_s: list[float]) -> None:
    """Cut links so long, each healed before the next is cut."""
    for length_s, (a, b) in zip(lengths_s, cycle(reversed(PAIRS)), strict=False):
        print(f"{running.published:8} published; {a} and {b} apart for {length_s:g} s", file=sys.stderr)
        running.sites.network.cut(a, b)
        await trio.sleep(length_s)
        running.sites.network.heal(a, b)
        await running.sites.linked()


async def kills(running: Trial, count: int) -> None:
    """Kill sites in turn."""
    for name in islice(cycle(running.sites.by_name), count):
        print(f"{running.published:8} published; SIGKILL of {name}", file=sys.stderr)
        await running.sites[name].kill()
        await trio.sleep(1.0)
    await running.sites.linked()


async def run(directory: Path, given: argparse.Namespace) -> dict[str, Any]:
    """One trial; what it found."""
    began = time.monotonic()
    async with trial(directory, pause_s=given.pause, namespaces=False if given.proxy else None) as running:
        await partitions(running, given.partitions)
        await kills(running, given.kills)
    account = running.account
    return {
        "network": running.sites.network.kind,
        "seconds": round(time.monotonic() - began, 1),
        "published": running.published,
        "copies": account.copies,
        "ends": dict(account.ends),
        "repeated": account.events["duplicate"],
        "receipts": account.events["receipt"],
        "held": len(account.held),
        "wrong": running.judge(),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--partitions", type=lambda text: [float(one) for one in text.split(",") if one])
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between messages of a publisher")
    parser.add_argument("--proxy", action="store_true", help="no network namespaces")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(partitions=[1.0, 2.0, 5.0, 10.0])
    given = parser.parse_args()
    if not (given.proxy or may_make_namespaces()):
        print("network namespaces cannot be made here", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="smqpd-faults-") as directory:
        found = trio.run(run, Path(directory), given)
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:10}  {value}")
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
