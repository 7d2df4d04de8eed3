"""Logs that come later, alone: they add to what earlier runs have read."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from routing.trace import show
from routing.trace.synthetic.plan import Plan
from tests.support.hop_logs import WrittenLogs
from tests.support.traced import NOW_US, TracedLogs

OBSERVED = re.compile(r"CollectMetrics (\w+)")

LARGE = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.maxPlanStringLength": "1000000"}
"""No table is small enough to be sent to all, and plans are kept in full."""


@dataclass
class Runs:
    """What came of both runs, and of each run the physical plans of its queries."""

    first: list[str]
    late: list[str]
    traced: TracedLogs


@pytest.fixture(scope="module")
def runs(spark: Any, run: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The packed logs of all sites but one are read, and then, by the command, those of that one."""
    from routing.trace import batch
    from routing.trace.synthetic.write import generate

    directory = tmp_path_factory.mktemp("late")
    plan = Plan(sites=4, messages=40, duration_s=1800, unguaranteed=0)
    generate(plan, directory / "logs", compress=True)
    sites = sorted(path for path in (directory / "logs").iterdir() if path.name != "truth")
    out = str(directory / "tables")
    with configured(spark, LARGE):
        before = len(queries(spark))
        batch.run(spark, [str(path) for path in sites[1:]], out, now_us=NOW_US)
        between = len(queries(spark))
        done = run("run", sites[0], "--out", out, "--json")
    assert done.exit_code == 0, done.output
    traced = TracedLogs(spark, plan, directory / "logs", out, json.loads(done.stdout))
    plans = queries(spark)
    return Runs(plans[before:between], plans[between:], traced)


@pytest.fixture(scope="module")
def late(runs: Runs) -> TracedLogs:
    """What came of both."""
    return runs.traced


def queries(spark: Any) -> list[str]:
    """The physical plan of each query, its last step first, as far back as Spark remembers."""
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(number).physicalPlanDescription() for number in range(found.size())]


@contextmanager
def configured(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def test_nothing_is_observed_in_a_stage_that_others_follow(runs: Runs) -> None:
    """A cluster may lose what such a stage has made, and do it again; Spark then counts twice."""
    from routing.trace import batch

    for plans in (runs.first, runs.late):
        after: dict[str, str] = {}
        for plan in plans:
            for found in OBSERVED.finditer(plan):
                # what is observed is that of the first query
                after.setdefault(found[1], plan[: found.start()])
        assert after.keys() == {"lines", "added", *batch.SUMS}
        assert [name for name, steps in after.items() if "Exchange" in steps] == []


def test_the_tables_are_those_of_all_logs(late: TracedLogs) -> None:
    assert late.summary["messages"] == {"total": 40, "complete": 40, "partial": 0, "truncated": 0}
    assert late.summary["logs"]["missing"] == 0
    assert late.summary["balance"]["closes"]
    for smuid, message in late.messages.items():
        assert {c["server"]: c["state"] for c in late.routes[smuid]["copies"]} == message["states"]


def test_the_summary_is_printed_for_people(late: TracedLogs, capsys: pytest.CaptureFixture[str]) -> None:
    show.summary(Console(width=200), late.summary, late.out)
    shown = capsys.readouterr().out
    assert "40 messages, 40 routes complete" in shown
    assert "; closes" in shown


def test_the_summary_tells_what_is_new(late: TracedLogs) -> None:
    assert late.summary["earlier"]
    assert 0 < late.summary["added"] < late.summary["logs"]["records"]


def test_logs_that_were_read_before_add_nothing(spark: Any, late: TracedLogs) -> None:
    from routing.trace import batch

    records = late.table("records").count()
    first = next(path for path in sorted(late.logs.iterdir()) if path.name != "truth")
    assert batch._ingest(spark, [str(first)], late.out, (), NOW_US)["added"] == 0
    assert late.table("records").count() == records


def test_what_the_names_of_earlier_files_claim_is_still_claimed(spark: Any, tmp_path: Path) -> None:
    from routing.trace import batch, tables

    out = str(tmp_path / "tables")
    for server, first, last in (("a.example", 1, 90), ("b.example", 4, 7), ("a.example", 91, 95)):
        log = tmp_path / f"{server}-{first}"
        log.mkdir()
        (log / f"hops-{server}-1-{first}-{last}.jsonl").write_bytes(b"")
        batch._claimed(spark, [str(log)], out)
    claims = {tuple(row) for row in tables.read(spark, out, "claims").collect()}
    assert claims == {("a.example", 1, 95), ("b.example", 4, 7)}


@pytest.fixture
def lives(tmp_path: Path) -> tuple[Path, Path]:
    """The logs of two lives of two servers: one was installed anew, the other restored from a backup."""
    first, second = WrittenLogs(), WrittenLogs()
    for server in ("anew", "restored"):
        for _ in range(4):
            first.write(server, "heartbeat")
    second.records = [record for record in first.records if (record.server, record.record) == ("restored", 2)]
    for server, last in (("anew", 0), ("restored", 2)):
        second.last[server] = last
        for _ in range(3):
            second.write(server, "heartbeat")
            second.records[-1].time_us += 3_600_000_000
    for life, logs in (("1", first), ("2", second)):
        for server in ("anew", "restored"):
            logs.save(tmp_path / life / server, server)
    return tmp_path / "1", tmp_path / "2"


@pytest.mark.parametrize("last_first", [False, True])
def test_the_records_of_a_server_that_numbers_anew_are_all_read_in_whatever_runs(
    spark: Any, lives: tuple[Path, Path], tmp_path: Path, *, last_first: bool
) -> None:
    from routing.trace import batch, compaction, coverage, tables

    out, parquet = str(tmp_path / "tables"), str(tmp_path / "parquet")
    ordered = reversed(lives) if last_first else lives
    counts = []
    for life in ordered:
        batch._ingest(spark, [str(life)], out, (), NOW_US)
        counts.append(compaction.compact(spark, [str(life)], parquet))
    records = tables.read(spark, out, "records")
    twice = coverage.numbered_twice(coverage.words(records), records)
    assert twice is not None
    assert {row.server for row in twice.collect()} == {"anew", "restored"}
    assert (records.count(), counts[1]) == (14, 14)
