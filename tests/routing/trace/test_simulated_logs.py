"""The jobs over the hop logs of simulated federations, in which sites are killed, cut off and lose power."""

import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.spoiled import Case, spoiled
from tests.sim.machine import WALL_BEGINS_S
from tests.sim.simulation import Outcome, simulate

WHOLE_SEED = 20
"""No log loses anything; queues are full, so that publications are refused."""

TORN_SEED = 0
"""Machines lose power, and what was not synced of their logs."""

WITHHELD = "s03"

SPOILED = "spoiled"
"""Before the names of sites: the torn seed once more, without a tenth of the records."""

SPOILED_MISSING = 0.1

NOW_US = int(WALL_BEGINS_S + 86_400) * 1_000_000


@dataclass
class Judged:
    """A seed, what its clients know, what its logs say, and what the jobs made of the logs.

    Attributes:
        logs: that the jobs have read.
        accepted: by Smuid, the hops that their receiver's log says it accepted, withheld logs included.
        out: the directory of the tables.
    """

    outcome: Outcome
    logs: list[Path]
    accepted: dict[str, set[tuple[str, str]]]
    summary: dict[str, Any]
    out: str
    routes: dict[str, dict[str, Any]]
    receipts: dict[str, str]

    def found(self, smuid: str, *kinds: str) -> set[tuple[str, str]]:
        hops = self.routes[smuid]["hops"] if smuid in self.routes else []
        return {(hop["from"], hop["to"]) for hop in hops if hop["kind"] in kinds}

    @property
    def links(self) -> set[tuple[str, str]]:
        pairs = {(link.a, link.b) for link in self.outcome.scenario.links}
        return pairs | {(b, a) for a, b in pairs}


def judged(
    spark: Any, directory: Path, seed: int, *, withheld: str = "", spoiled_too: bool = False
) -> Judged:
    """`spoiled_too`: the jobs read the logs of the same sites under other names as well, see `SPOILED`."""
    from routing.trace import batch, tables

    kept, out = directory / "logs", str(directory / "tables")
    outcome = simulate(seed, sites_max=6, keep=kept)
    accepted = defaultdict(set)
    for path in kept.glob("*/hops-*.jsonl"):
        for record in map(json.loads, path.read_text().splitlines()):
            if record["event"] == "received":
                accepted[record["smuid"]].add((record["peer"], record["server"]))
    logs = [kept / site for site in outcome.scenario.sites if site != withheld]
    if spoiled_too:
        spoiled(kept, directory / SPOILED, SPOILED, Case(SPOILED_MISSING), random.Random(seed))
        logs.append(directory / SPOILED)
    summary = batch.run(spark, [str(path) for path in logs], out, now_us=NOW_US)
    own = f"not startswith(smuid, '{SPOILED}')"
    rows = tables.read(spark, out, "routes").where(own).collect()
    routes = {row.smuid: row.asDict(recursive=True) for row in rows}
    receipts = {row.smuid: row.verdict for row in tables.read(spark, out, "receipts").where(own).collect()}
    return Judged(outcome, logs, accepted, summary, out, routes, receipts)


@pytest.fixture(scope="module")
def whole_seed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(spark, tmp_path_factory.mktemp("whole"), WHOLE_SEED)


@pytest.fixture(scope="module")
def torn_seed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judged(spark, tmp_path_factory.mktemp("torn"), TORN_SEED, withheld=WITHHELD, spoiled_too=True)


def test_the_balance_closes_and_every_route_is_right_whatever_went_wrong(whole_seed: Judged) -> None:
    assert whole_seed.outcome.violations == []
    assert whole_seed.summary["aside"]["reasons"] == {}
    assert whole_seed.summary["logs"]["missing"] == 0
    assert whole_seed.summary["balance"]["closes"], whole_seed.summary["balance"]
    assert whole_seed.summary["holdings"] == {"agrees": len(whole_seed.outcome.scenario.sites)}
    # s04's clock was set by an hour
    assert whole_seed.summary["anomalies"] == {"clock jump": 1}
    for smuid, readers in whole_seed.outcome.committed.items():
        route = whole_seed.routes[smuid]
        assert route["state"] == "complete"
        assert whole_seed.found(smuid, "accepted") == whole_seed.accepted[smuid]
        assert {reader.partition("@")[2] for reader in readers} <= {
            copy["server"] for copy in route["copies"]
        }
        # whose session ended before the answer came has committed and does not know
        assert route["committed"] >= len(readers)
    assert "right" in whole_seed.receipts.values()


def test_where_logs_lack_their_tails_or_are_absent_nothing_wrong_is_said(torn_seed: Judged) -> None:
    assert torn_seed.outcome.violations == []
    assert torn_seed.summary["logs"]["absent"] == [WITHHELD]
    gaps = set(torn_seed.summary["logs"]["gaps"])
    assert gaps & set(torn_seed.outcome.scenario.sites)
    assert torn_seed.summary["balance"]["lost"] == 0 < torn_seed.summary["balance"]["log_missing"]
    # clocks were set
    assert torn_seed.summary["anomalies"].keys() - {"clock jump"} == {"log missing"}
    for smuid in torn_seed.routes:
        said = torn_seed.found(smuid, "accepted", "passed")
        assert said <= torn_seed.links
        assert {b for a, b in said - torn_seed.accepted[smuid]} <= {WITHHELD} | gaps
    assert any(route["state"] == "partial" for route in torn_seed.routes.values())
    states = {copy["state"] for route in torn_seed.routes.values() for copy in route["copies"]}
    assert "log missing" in states
    assert "lost" not in states


def test_of_federations_that_never_meet_the_same_is_said_together_as_of_each_alone(
    spark: Any, whole_seed: Judged, torn_seed: Judged, tmp_path: Path
) -> None:
    from routing.trace import batch

    # sites of both have the same names, so that those of one get others here
    of_torn = tmp_path / "torn"
    of_torn.mkdir()
    for site in torn_seed.logs:
        if site.name != SPOILED:
            (of_torn / site.name).symlink_to(site)
    spoiled(of_torn, tmp_path / "b", "b", Case(), random.Random(TORN_SEED))
    together = str(tmp_path / "tables")
    logs = [*whole_seed.logs, tmp_path / "b", torn_seed.logs[-1]]
    batch.run(spark, [str(path) for path in logs], together, now_us=NOW_US)
    renamed = [re.sub(r"\b(s\d\d)\b", r"b\1", row) for row in everything_said(spark, torn_seed.out)]
    assert sorted(everything_said(spark, together)) == sorted(
        everything_said(spark, whole_seed.out) + renamed
    )


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
