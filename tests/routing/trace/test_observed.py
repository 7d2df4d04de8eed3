"""What is counted while tables are written: nobody waits for ever for it."""

from typing import Any


def test_what_never_comes_is_not_waited_for(spark: Any) -> None:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from routing.trace.batch import observed

    never, seen = Observation("never"), Observation("seen")
    spark.range(3).observe(never, f.count("*").alias("rows"))
    assert observed(never, within_s=0.01) is None
    spark.range(3).observe(seen, f.count("*").alias("rows")).collect()
    assert observed(seen) == {"rows": 3}
