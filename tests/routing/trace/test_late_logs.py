"""Logs that come later, alone: they add to what earlier runs have read."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from routing.trace import show
from routing.trace.synthetic.plan import Plan
from tests.support.traced import NOW_US, Traced


@pytest.fixture(scope="module")
def late(spark: Any, run: Any, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """The packed logs of all sites but one are read, and then, by the command, those of that one."""
    from routing.trace import batch
    from routing.trace.synthetic.write import generate

    directory = tmp_path_factory.mktemp("late")
    plan = Plan(sites=4, messages=40, duration_s=1800, unguaranteed=0)
    generate(plan, directory / "logs", compress=True)
    sites = sorted(path for path in (directory / "logs").iterdir() if path.name != "truth")
    out = str(directory / "tables")
    batch._ingest(spark, [str(path) for path in sites[1:]], out, (), NOW_US)
    done = run("run", sites[0], "--out", out, "--json")
    assert done.exit_code == 0, done.output
    return Traced(spark, plan, directory / "logs", out, json.loads(done.stdout))


def test_the_tables_are_those_of_all_logs(late: Traced) -> None:
    assert late.summary["messages"] == {"total": 40, "complete": 40, "partial": 0, "truncated": 0}
    assert late.summary["logs"]["missing"] == 0
    assert late.summary["balance"]["closes"]
    for smuid, message in late.messages.items():
        assert {c["server"]: c["state"] for c in late.routes[smuid]["copies"]} == message["states"]


def test_the_summary_is_printed_for_people(late: Traced, capsys: pytest.CaptureFixture[str]) -> None:
    show.summary(Console(width=200), late.summary, late.out)
    shown = capsys.readouterr().out
    assert "40 messages, 40 routes complete" in shown
    assert "; closes" in shown


def test_the_summary_tells_what_is_new(late: Traced) -> None:
    assert late.summary["earlier"]
    assert 0 < late.summary["added"] < late.summary["logs"]["records"]


def test_logs_that_were_read_before_add_nothing(spark: Any, late: Traced) -> None:
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
        batch._ingest(spark, [str(log)], out, (), NOW_US)
    claims = {tuple(row) for row in tables.read(spark, out, "claims").collect()}
    assert claims == {("a.example", 1, 95), ("b.example", 4, 7)}
