"""Writes the logs of a synthetic federation as its sites would have, and the truth beside them.

OUT/SERVER/hops-SERVER-BOOT-FIRST-LAST.jsonl[.gz], and OUT/truth/: messages.jsonl, links.json, sites.json.
Memory is bounded by the records of the last minutes, not by the messages: records wait in a heap until no
earlier one can come.
"""

import gzip
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from routing.hops import FORMAT_VERSION, HopRecord
from routing.trace.synthetic.journey import MessageRun, Truth
from routing.trace.synthetic.plan import Plan, PlannedFederation

RECORDS_PER_FILE: Final = 250_000
HEARTBEAT_US: Final = 60_000_000
FAULTS: Final = ("lost", "custody", "receipt", "deep")


class SiteLog:
    """The log of one site: numbers, stamps and writes its records, and counts what it holds."""

    def __init__(self, federation: PlannedFederation, number: int, directory: Path, compress: bool) -> None:
        self.federation = federation
        self.site = federation.sites[number]
        self.directory, self.compress = directory / self.site.name, compress
        self.boot, self.record, self.held = 1, 0, 0
        self.first = 1
        self.written: list[tuple[int, int]] = []
        self.file: IO[bytes] | None = None
        self.encode = msgspec.json.Encoder().encode
        if not self.site.absent:
            self.directory.mkdir(parents=True, exist_ok=True)

    def write(self, now: int, record: HopRecord) -> None:
        boot = self.site.boot(now)
        record.record = self.record + 1
        if boot != self.boot:
            self.close()
            record.previous = self.record
            self.boot = boot
        self.record += 1
        record.boot = boot
        record.time_us = self.site.clock.read(now)
        if record.guarantee and record.event in ("published", "received"):
            self.held += 1
        if record.guarantee and record.final:
            self.held -= 1
        rng, plan = self.federation.rng, self.federation.plan
        if self.site.absent or (plan.missing and rng.random() < plan.missing):
            return
        if self.file is None:
            self.first = self.record
            path = self.directory / "open"
            self.file = _opened(path, self.compress)
        line = self.encode(record) + b"\n"
        self.file.write(line)
        if plan.repeated and rng.random() < plan.repeated:
            self.file.write(line)
        if self.record - self.first >= RECORDS_PER_FILE:
            self.close()

    def heartbeat(self, now: int) -> None:
        self.write(
            now,
            HopRecord(
                version=FORMAT_VERSION,
                server=self.site.name,
                boot=0,
                record=0,
                time_us=0,
                event="heartbeat",
                held=self.held,
            ),
        )

    def close(self) -> None:
        if self.file is None:
            return
        self.file.close()
        self.file = None
        ending = "jsonl.gz" if self.compress else "jsonl"
        name = f"hops-{self.site.name}-{self.boot}-{self.first}-{self.record}.{ending}"
        (self.directory / "open").rename(self.directory / name)


def generate(
    plan: Plan,
    out: Path,
    *,
    compress: bool = False,
    truth: bool = True,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Write the logs of `plan` below `out`; returns the number of records, missing ones included.

    `truth` False leaves out messages.jsonl, which is as large as the logs; `progress` is called with the
    messages done.
    """
    federation = PlannedFederation.grown(plan)
    logs = [SiteLog(federation, number, out, compress) for number in range(plan.sites)]
    known = out / "truth"
    known.mkdir(parents=True, exist_ok=True)
    links: Counter[tuple[int, int, str]] = Counter()
    waiting: list[tuple[int, int, int, HopRecord | None]] = []
    order = 0
    for number in range(plan.sites):
        heappush(waiting, (plan.start_us + HEARTBEAT_US, number, number, None))
    order = plan.sites
    end_us = plan.start_us + plan.duration_s * 1_000_000 + 2 * HEARTBEAT_US

    def flush(before_us: int) -> None:
        nonlocal order
        while waiting and waiting[0][0] < before_us:
            now, _, site, record = heappop(waiting)
            if record is None:
                logs[site].heartbeat(now)
                if now + HEARTBEAT_US <= end_us:
                    order += 1
                    heappush(waiting, (now + HEARTBEAT_US, order, site, None))
            else:
                logs[site].write(now, record)

    step_us = plan.duration_s * 1_000_000 // max(plan.messages, 1)
    faults = _fault_plan(plan)
    with (known / "messages.jsonl").open("wb", 1 << 20) as messages:
        for number in range(plan.messages):
            birth_us = plan.start_us + number * step_us + federation.rng.randrange(max(step_us, 1))
            flush(plan.start_us + number * step_us)
            journey = MessageRun(
                federation, federation.rng.choice(federation.topics), birth_us, faults.get(number, "")
            )
            for when, site, record in journey.records():
                order += 1
                heappush(waiting, (when, order, site, record))
            links.update(journey.truth.links)
            if truth:
                messages.write(msgspec.json.encode(_named(journey.truth, federation)) + b"\n")
            if number % 1000 == 999:
                progress(number + 1)
    flush(1 << 62)
    for log in logs:
        log.close()
    _write_links(known, federation, links)
    return sum(log.record for log in logs)


def messages_for(faults: int) -> int:
    """How many messages it takes to break so many promises of each kind, by a message each."""
    return faults * len(FAULTS) + 2 if faults else 1


def _opened(path: Path, compress: bool) -> IO[bytes]:
    if compress:
        return cast("IO[bytes]", gzip.open(path, "wb", compresslevel=3))
    return path.open("wb", 1 << 20)


def _fault_plan(plan: Plan) -> dict[int, str]:
    planned = {}
    for index in range(plan.faults * len(FAULTS)):
        planned[(index + 1) * plan.messages // (plan.faults * len(FAULTS) + 2)] = FAULTS[index % len(FAULTS)]
    return planned


def _named(truth: Truth, federation: PlannedFederation) -> dict[str, object]:
    names = [site.name for site in federation.sites]
    return {
        "smuid": truth.smuid,
        "topic": truth.topic,
        "mode": truth.mode,
        "origin": names[truth.origin],
        "depth": truth.depth,
        "guarantee": truth.guarantee,
        "accepted": [(names[a], names[b], delay) for a, b, delay in truth.accepted],
        "widened": [(names[a], names[b]) for a, b in truth.widened],
        "states": {names[site]: state for site, state in truth.states.items()},
        "due": truth.due,
        "committed": truth.committed,
        "receipt": truth.receipt,
        "faults": truth.faults,
    }


def _write_links(known: Path, federation: PlannedFederation, links: Counter[tuple[int, int, str]]) -> None:
    names = [site.name for site in federation.sites]
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for (a, b, what), count in links.items():
        counted.setdefault((names[a], names[b]), {})[what] = count
    rows = [{"from": a, "to": b, **found} for (a, b), found in sorted(counted.items())]
    (known / "links.json").write_bytes(msgspec.json.encode(rows))
    sites = [
        {
            "server": site.name,
            "absent": site.absent,
            "offset_us": site.clock.offset_us,
            "drift": site.clock.drift,
            "jump_at_us": site.clock.jump_at_us,
            "jump_us": site.clock.jump_us,
        }
        for site in federation.sites
    ]
    bad = [(names[a], names[b]) for a, b in federation.bad_from_us]
    (known / "sites.json").write_bytes(msgspec.json.encode({"sites": sites, "bad_links": bad}))
