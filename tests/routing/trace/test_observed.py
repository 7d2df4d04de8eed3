"""What the summary says is counted while tables are written: once, and nobody waits for ever for it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.traced import NOW_US

OBSERVED = re.compile(r"CollectMetrics (\w+)")

LARGE = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.maxPlanStringLength": "1000000"}
"""No table is small enough to be sent to all, and plans are kept in full."""


def test_what_never_comes_is_not_waited_for(spark: Any) -> None:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from routing.trace.batch import observed

    never, seen = Observation("never"), Observation("seen")
    spark.range(3).observe(never, f.count("*").alias("rows"))
    assert observed(never, within_s=0.01) is None
    spark.range(3).observe(seen, f.count("*").alias("rows")).collect()
    assert observed(seen) == {"rows": 3}


def test_nothing_is_observed_in_a_stage_that_others_follow(spark: Any, tmp_path: Path) -> None:
    """A cluster may lose what such a stage has made, and do it again; Spark then counts twice."""
    from routing.trace import batch

    generate(Plan(sites=3, messages=20, duration_s=600), tmp_path / "logs")
    sites = sorted(path for path in (tmp_path / "logs").iterdir() if path.name != "truth")
    for site in sites[:2]:
        before = len(queries(spark))
        with configured(spark, LARGE):
            batch.run(spark, [str(site)], str(tmp_path / "tables"), now_us=NOW_US)
        after: dict[str, str] = {}
        for query in queries(spark)[before:]:
            for found in OBSERVED.finditer(query):
                # what is observed is that of the first query
                after.setdefault(found[1], query[: found.start()])
        assert after.keys() == {"lines", "added", *batch.SUMS}
        assert [name for name, steps in after.items() if "Exchange" in steps] == []


def queries(spark: Any) -> list[str]:
    """The physical plan of each query, the last step of it first, as far back as Spark remembers."""
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
