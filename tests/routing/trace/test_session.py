"""What a session of the jobs runs with."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_the_workers_run_the_python_that_the_command_runs(spark: Any) -> None:
    # another version, as PATH may have it, ends a job; another environment lacks these modules
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).first() == sys.executable


def test_a_session_keeps_its_classes_for_the_next_one(spark: Any) -> None:
    machine = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    [kept] = [word for word in machine.getInputArguments() if "/smqpd/classes-" in word]
    ways = ("ArchiveClassesAtExit", "SharedArchiveFile", "AOTCacheOutput", "AOTCache")
    assert kept.startswith(tuple(f"-XX:{way}=" for way in ways))


def test_a_small_session_moves_no_rows(spark: Any, tmp_path: Path) -> None:
    from routing.trace.session import broadcast, spread, together

    spark.range(4).write.parquet(str(tmp_path / "rows"))
    rows = together(spark.read.parquet(str(tmp_path / "rows")))
    counted = spread(rows, "id").groupBy("id").count()
    joined = rows.join(broadcast(counted), "id")
    assert "Exchange" not in joined._jdf.queryExecution().executedPlan().toString()
    assert joined.count() == 4
