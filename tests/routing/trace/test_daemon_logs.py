"""The jobs over the logs of real daemons, twice three: one is killed, two are cut off from each other."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import trio

from routing.message import Message, Section
from tests.support.patience import PATIENCE_S
from tests.support.process import KNOWS_NO_DESTINATIONS
from tests.support.real_sites import RealSite, real_sites
from tests.support.trial import way_for

pytestmark = pytest.mark.spark

KILLS = 2
MESSAGES = 30
"""In each of the three parts: a site is killed, a link is cut, all is well again."""


@dataclass
class Truth:
    """Three sites that never meet the others, and what their clients know.

    Attributes:
        by_destinations: copies of mode ALL name the sites that they are for; else the middle is too old.
    """

    publisher: str
    middle: str
    reader: str
    by_destinations: bool
    states: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    read: Counter[str] = field(default_factory=Counter)
    changed: trio.Event = field(default_factory=trio.Event)

    async def all_read(self) -> None:
        while set(self.states + self.jobs) - self.read.keys():
            self.changed = trio.Event()
            await self.changed.wait()


async def read(site: RealSite, truth: Truth, *, task_status: trio.TaskStatus[None]) -> None:
    async with site.client("reader") as client:
        for topic in ("state", "jobs"):
            await client.subscribe(topic)
        task_status.started()
        async for delivery in client:
            await client.commit([delivery])
            truth.read[delivery.message.smuid] += 1
            truth.changed.set()


async def publish(site: RealSite, truth: Truth) -> None:
    async with site.client("publisher") as client:
        for number in range(MESSAGES):
            body = (Section("text/plain", b"x"),)
            if number % 3:
                timeout_s = 600.0 if number % 5 == 0 else None
                message = Message(depth=2, receipt="ALL", timeout_s=timeout_s, sections=body)
                to, topic = truth.states, "state"
            else:
                message = Message(depth=-1, delivery="ONE", sections=body)
                to, topic = truth.jobs, "jobs"
            to.append(await client.publish(topic, message))
            await trio.sleep(0.005)  # it goes on while sites are killed and cut off


async def told(site: RealSite, event: str, times: int = 1) -> None:
    """Wait until the site's hop log has so many events of that kind."""
    hops = site.directory / "state" / "hops"
    while sum(log.read_text().count(f'"event":"{event}"') for log in hops.glob("*.jsonl")) < times:
        await trio.sleep(0.05)


async def live(directory: Path, truth: Truth) -> None:
    """Run the three sites through a life of misfortunes, and end them in peace."""
    names = truth.publisher, truth.middle, truth.reader
    starts = {} if truth.by_destinations else {truth.middle: KNOWS_NO_DESTINATIONS}
    async with real_sites(directory, combinations(names, 2), starts=starts) as sites:
        publisher, middle, reader = (sites[name] for name in names)
        async with trio.open_nursery() as reading:
            await reading.start(read, reader, truth)
            for topic, mode in (("state", "ALL"), ("jobs", "ONE")):
                await way_for(publisher, topic, mode, {reader.name: 1, middle.name: 2})
            if truth.by_destinations:  # so that the middle has something to lose
                sites.network.cut(publisher.name, reader.name)
                await publisher.linked(reader.name, up=False)
            async with trio.open_nursery() as publishing:
                publishing.start_soon(publish, publisher, truth)
                for _ in range(KILLS):
                    await told(middle, "received")
                    await middle.kill()
                    await middle.linked(publisher.name)
            await truth.all_read()
            await middle.linked(reader.name)
            sites.network.cut(publisher.name, reader.name)
            await publisher.linked(reader.name, up=False)
            await publish(publisher, truth)
            await truth.all_read()
            sites.network.heal(publisher.name, reader.name)
            if not truth.by_destinations:
                # what went round by the middle comes a second time, by the shorter way and with more depth
                await told(reader, "depth")
            await publish(publisher, truth)
            await truth.all_read()
            await told(publisher, "receipt", len(truth.states))
            reading.cancel_scope.cancel()
        await sites.stop()


async def test_the_balance_of_real_daemons_closes_under_kills_and_a_cut(spark: Any, tmp_path: Path) -> None:
    truths = [
        Truth("alpha", "beta", "gamma", by_destinations=True),
        Truth("delta", "kappa", "omega", by_destinations=False),
    ]
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as lives:
            for number, truth in enumerate(truths):
                lives.start_soon(live, tmp_path / str(number), truth)
    logs = [str(hops) for hops in sorted(tmp_path.glob("*/*/state/hops"))]
    assert len(logs) == 6
    ends_are_told_once(logs)

    from routing.trace import batch, tables

    out = str(tmp_path / "tables")
    summary = batch.run(spark, logs, out)
    assert summary["aside"]["reasons"] == {}
    assert (summary["logs"]["absent"], summary["logs"]["gaps"]) == ([], [])
    assert summary["balance"]["closes"], summary["balance"]
    assert summary["holdings"] == {"agrees": 6}
    assert summary["anomalies"] == {}
    routes = {row.smuid: row for row in tables.read(spark, out, "routes").collect()}
    receipts = {row.smuid: row for row in tables.read(spark, out, "receipts").collect()}
    widened = tables.read(spark, out, "hops").where("kind = 'depth'").collect()
    assert all(hop.received_logged for hop in widened)
    # what the middle said right before it was killed did not come
    assert {(hop["from"], hop.to) for hop in widened if not hop.sent_logged} <= {("alpha", "beta")}
    for truth in truths:
        for smuid in truth.states + truth.jobs:
            route = routes[smuid]
            accepted = [(hop["from"], hop["to"]) for hop in route.hops if hop.kind == "accepted"]
            assert (route.state, route.origin, route.committed) == ("complete", truth.publisher, 1)
            assert {copy.server for copy in route.copies} == {truth.publisher} | {to for _, to in accepted}
            assert len({to for _, to in accepted}) == len(accepted)
            assert truth.reader in {to for _, to in accepted}
            assert route.mode == ("ONE" if smuid in truth.jobs else "ALL")
        assert set(truth.read.values()) == {1}
        assert {(receipts[smuid].verdict, receipts[smuid].y) for smuid in truth.states} == {("right", 1)}
    went_again = {(hop["from"], hop.to) for hop in widened}
    # from alpha only what was over when the middle was killed, and it has forgotten
    assert went_again - {("alpha", "beta")} == {("delta", "omega")}


def ends_are_told_once(logs: list[str]) -> None:
    """Each copy has one final record, or one more if it was held again to go further."""
    finals: Counter[tuple[str, str]] = Counter()
    held: dict[tuple[str, str], int] = defaultdict(int)
    for log in logs:
        for path in Path(log).glob("hops-*.jsonl"):
            for record in map(json.loads, path.read_text().splitlines()):
                copy = record["server"], record.get("smuid", "")
                finals[copy] += record.get("final", False)
                if record["event"] in ("published", "received"):
                    held[copy] += 1
                    assert "due" in record
                elif record["event"] == "depth":
                    held[copy] += 1
    assert finals
    assert all(finals[copy] <= begun for copy, begun in held.items())
