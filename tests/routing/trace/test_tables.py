"""What a run finds of a table that it has written."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_of_a_table_by_day_the_days_of_earlier_runs_are_there_as_well(spark: Any, tmp_path: Path) -> None:
    from routing.trace import tables

    for day, names in (("2025-11-21", ["a"]), ("2025-11-22", ["a", "b"]), ("2025-11-22", ["a", "b"])):
        rows = spark.sql(f"select '{names[-1]}' as smuid, date'{day}' as day")
        found = tables.written(rows, str(tmp_path), "routes")
        assert sorted(row.smuid for row in found.collect()) == names


def test_what_is_observed_of_a_table_is_what_is_written(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from routing.trace import tables
    from routing.trace.batch import observed

    seen = Observation("rows")
    rows = spark.sql("select 'a' as smuid, date'2025-11-21' as day")
    found = tables.written(
        rows, str(tmp_path), "routes", lambda frame: frame.observe(seen, f.count("*").alias("rows"))
    )
    assert observed(seen) == {"rows": 1}
    assert found.count() == 1
