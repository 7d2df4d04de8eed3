"""The jobs over the hop logs of simulated federations, in which sites are killed, cut off and lose power."""

import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.accusations import spoiled
from tests.sim.machine import WALL_BEGINS_S
from tests.sim.simulation import Outcome, simulate

WHOLE_SEED = 20
"""No log loses anything; queues are full, so that publications are refused."""

TORN_SEED = 0
"""Machines lose power, and what was not synced of their logs."""

WITHHELD = "s03"

NOW_US = int(WALL_BEGINS_S + 86_400) * 1_000_000


@dataclass
class Judged:
    """A seed, what its clients know, what its logs say, and what the jobs made of the logs.

    Attributes:
        accepted: by Smuid, the hops that their receiver's log says it accepted, withheld logs included.
    """

    outcome: Outcome
    accepted: dict[str, set[tuple[str, str]]]
    summary: dict[str, Any]
    routes: dict[str, dict[str, Any]]
    receipts: dict[str, str]

    def found(self, smuid: str, *kinds: str) -> set[tuple[str, str]]:
        hops = self.routes[smuid]["hops"] if smuid in self.routes else []
        return {(hop["from"], hop["to"]) for hop in hops if hop["kind"] in kinds}

    @property
    def links(self) -> set[tuple[str, str]]:
        pairs = {(link.a, link.b) for link in self.outcome.scenario.links}
        return pairs | {(b, a) for a, b in pairs}


def judged(spark: Any, directory: Path, seed: int, withheld: str = "") -> Judged:
    from routing.trace import batch, tables

    logs, out = directory / "logs", str(directory / "tables")
    outcome = simulate(seed, sites_max=6, keep=logs)
    accepted = defaultdict(set)
    for path in logs.glob("*/hops-*.jsonl"):
        for record in map(json.loads, path.read_text().splitlines()):
            if record["event"] == "received":
                accepted[record["smuid"]].add((record["peer"], record["server"]))
    read = [str(logs / site) for site in outcome.scenario.sites if site != withheld]
    summary = batch.run(spark, read, out, now_us=NOW_US)
    routes = {row.smuid: row.asDict(recursive=True) for row in tables.read(spark, out, "routes").collect()}
    receipts = {row.smuid: row.verdict for row in tables.read(spark, out, "receipts").collect()}
    return Judged(outcome, accepted, summary, routes, receipts)


def test_the_balance_closes_and_every_route_is_right_whatever_went_wrong(spark: Any, tmp_path: Path) -> None:
    found = judged(spark, tmp_path, WHOLE_SEED)
    assert found.outcome.violations == []
    assert found.summary["aside"]["reasons"] == {}
    assert found.summary["logs"]["missing"] == 0
    assert found.summary["balance"]["closes"], found.summary["balance"]
    assert found.summary["holdings"] == {"agrees": len(found.outcome.scenario.sites)}
    # s04's clock was set by an hour
    assert found.summary["anomalies"] == {"clock jump": 1}
    for smuid, readers in found.outcome.committed.items():
        route = found.routes[smuid]
        assert route["state"] == "complete"
        assert found.found(smuid, "accepted") == found.accepted[smuid]
        assert {reader.partition("@")[2] for reader in readers} <= {
            copy["server"] for copy in route["copies"]
        }
        # whose session ended before the answer came has committed and does not know
        assert route["committed"] >= len(readers)
    assert "right" in found.receipts.values()


def test_where_logs_lack_their_tails_or_are_absent_nothing_wrong_is_said(spark: Any, tmp_path: Path) -> None:
    found = judged(spark, tmp_path, TORN_SEED, WITHHELD)
    assert found.outcome.violations == []
    assert found.summary["logs"]["absent"] == [WITHHELD]
    assert found.summary["logs"]["gaps"]
    assert found.summary["balance"]["lost"] == 0 < found.summary["balance"]["log_missing"]
    # clocks were set
    assert found.summary["anomalies"].keys() - {"clock jump"} == {"log missing"}
    for smuid in found.routes:
        said = found.found(smuid, "accepted", "passed")
        assert said <= found.links
        lost_its_record = {WITHHELD, *found.summary["logs"]["gaps"]}
        assert {b for a, b in said - found.accepted[smuid]} <= lost_its_record
    assert any(route["state"] == "partial" for route in found.routes.values())


def test_of_federations_that_never_meet_the_same_is_said_together_as_of_each_alone(
    spark: Any, tmp_path: Path
) -> None:
    from routing.trace import batch

    logs, said = tmp_path / "logs", []
    logs.mkdir()
    for prefix, seed, missing in (("a", WHOLE_SEED, 0.0), ("b", TORN_SEED, 0.1)):
        simulate(seed, sites_max=6, keep=tmp_path / prefix)
        spoiled(tmp_path / prefix, logs, prefix, missing, 0, random.Random(seed))
        out = str(tmp_path / f"tables-{prefix}")
        batch.run(spark, [str(logs / prefix)], out, now_us=NOW_US)
        said += everything_said(spark, out)
    together = str(tmp_path / "tables")
    batch.run(spark, [str(logs)], together, now_us=NOW_US)
    assert sorted(everything_said(spark, together)) == sorted(said)


def everything_said(spark: Any, out: str) -> list[str]:
    """Every row of the tables that say something of messages, servers, links or clocks."""
    from routing.trace import tables

    names = (name for name in (*tables.BY_DAY, *tables.WHOLE) if name not in ("records", "aside"))
    return [
        f"{name}: {row}"
        for name in names
        for row in map(plain, tables.read(spark, out, name).collect())
        if row.get("day") != tables.NO_DAY
    ]


def plain(row: Any) -> dict[str, Any]:
    """Without what depends on the order of sums."""
    fields: dict[str, Any] = row.asDict(recursive=True)
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in fields.items()}
