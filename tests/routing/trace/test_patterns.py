"""Deliveries by patterns, from the lines of a hop log to the tables and what is printed of them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from routing.hops import HopRecord
from tests.support.traced import NOW_US

SMUID = "a.example/019aa5d72900-1-1"
ADA = "ada:desk@a.example"
NAMED = "bob:desk@a.example/second one"
BIRTH_US = 1_763_719_200_000_000


def lines() -> list[dict[str, Any]]:
    """Ada got it by a pattern and gave it back; then she had it by its topic. Bob had it by his pattern."""
    by_pattern = {"subscription": ADA, "pattern": "weather.#", "attempt": 1}
    by_topic = {"subscription": ADA, "attempt": 2}
    bobs = {"subscription": NAMED, "pattern": "*.oslo", "attempt": 1}
    return [
        {"event": "published", "account": ADA, "due": 2},
        {"event": "delivered", **by_pattern},
        {"event": "delivered", **bobs},
        {"event": "returned", "reason": "unsubscribed", **by_pattern},
        {"event": "delivered", **by_topic},
        {"event": "committed", **by_topic},
        {"event": "committed", "final": True, **bobs},
    ]


@pytest.fixture(scope="module")
def out(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tables that the jobs made of it."""
    from routing.trace import batch

    directory = tmp_path_factory.mktemp("patterns")
    records = [
        HopRecord(
            **{
                "version": 1, "server": "a.example", "boot": 1, "record": number,
                "time_us": BIRTH_US + 1_000 * number, "smuid": SMUID, "topic": "weather.oslo", **line,
            }
        )
        for number, line in enumerate(lines(), 1)
    ]  # fmt: skip
    (directory / f"hops-a.example-1-1-{len(records)}.jsonl").write_bytes(
        b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    )
    tables = str(directory / "tables")
    batch.run(spark, [str(directory)], tables, now_us=NOW_US)
    return tables


def test_the_table_of_deliveries_names_the_pattern(spark: Any, out: str) -> None:
    from routing.trace import tables

    rows = tables.read(spark, out, "deliveries").collect()
    assert {(row.subscription, row.pattern, row.returned, row.committed_us is not None) for row in rows} == {
        (ADA, "weather.#", True, False),
        (ADA, "", False, True),
        (NAMED, "*.oslo", False, True),
    }


def test_a_route_says_by_which_pattern_each_subscription_got_it(run: Any, out: str) -> None:
    shown = run("route", SMUID, "--out", out).stdout.partition("deliveries")[2]
    assert [" ".join(line.split()[1:-2]) for line in shown.splitlines()[2:]] == [
        f"{ADA} weather.#",
        f"{NAMED} *.oslo",
        f"{ADA} its topic",
    ]
    [proof] = json.loads(run("route", SMUID, "--out", out, "--format", "json").stdout)["proof"]
    assert [(each["subscription"], each["pattern"]) for each in proof["deliveries"]] == [
        (ADA, "weather.#"),
        (NAMED, "*.oslo"),
        (ADA, ""),
    ]


def test_the_page_has_it(spark: Any, out: str) -> None:
    from routing.trace import tables, worst

    routes = tables.read(spark, out, "routes")
    wrong = routes.selectExpr("'lost' as kind", "smuid", "birth_us as time_us")
    [found] = worst.worst_routes(spark, out, routes, wrong)
    assert [one["sentence"].startswith(f"Published by {ADA}") for one in found["proof"]] == [True]
    assert [(each["subscription"], each["pattern"]) for each in found["by_pattern"]] == [
        (ADA, "weather.#"),
        (NAMED, "*.oslo"),
    ]


def test_days_that_a_version_without_patterns_made_are_read_beside_others(
    spark: Any, out: str, tmp_path: Path
) -> None:
    from routing.trace import tables

    new = tables.read(spark, out, "deliveries")
    earlier = str(tmp_path / "tables")
    new.drop("pattern", "day").write.parquet(f"{tables.path(earlier, 'deliveries')}/day=2025-11-20")
    new.drop("day").write.parquet(f"{tables.path(earlier, 'deliveries')}/day=2025-11-21")
    rows = tables.read(spark, earlier, "deliveries").where("day = '2025-11-20'").collect()
    assert [row.pattern for row in rows] == [None, None, None]
    assert tables.read(spark, earlier, "deliveries").where("pattern <> ''").count() == 2
