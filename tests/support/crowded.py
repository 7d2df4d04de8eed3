"""Records of one message with a great many hops, and of a small one beside it."""

from typing import Any

HUGE = "a/019aa5d72900-1-1"
SMALL = "a/019aa5d72900-1-2"
SMALL_HOPS = 3


def crowded_records(spark: Any, hops: int) -> Any:
    """As the jobs read them: `hops` servers receive HUGE from a, and SMALL_HOPS more receive SMALL."""
    from pyspark.sql import functions as f

    from routing.trace.schema import RECORD

    number = f.col("id")
    record = {field.name: f.lit(None).cast(field.dataType) for field in RECORD.fields} | {
        "version": f.lit(1),
        "server": f.concat(f.lit("s"), number.cast("string")),
        "boot": f.lit(1).cast("long"),
        "record": f.lit(1).cast("long"),
        "time_us": f.lit(1_763_719_200_500_000),
        "event": f.lit("received"),
        "smuid": f.when(number < hops, HUGE).otherwise(SMALL),
        "topic": f.lit("t"),
        "peer": f.lit("a"),
        "subscription": f.lit(""),
        "mode": f.lit("ALL"),
        "outcome": f.lit(""),
        "receipt": f.lit(""),
        "attempt": f.lit(1),
        "guarantee": f.lit(True),
        "final": f.lit(False),
    }
    return spark.range(hops + SMALL_HOPS).select(*(record[name].alias(name) for name in RECORD.names))


def nested_sizes(records: Any, most: int) -> dict[str, tuple[int, bool]]:
    """By Smuid: hops in its route, and whether it says that there were more."""
    from routing.trace import clocks, facts, routes
    from routing.trace.coverage import coverage, gaps, words

    seen = words(records)
    covered = coverage(records, seen, gaps(seen))
    unknown = clocks.segments_frame(records.sparkSession, [])
    crowded = routes.crowded(records, most=most)
    found = routes.routes(facts.facts(records), unknown, covered, crowded, most)
    rows = found.selectExpr("smuid", "size(hops) as kept", "truncated").collect()
    return {row.smuid: (row.kept, row.truncated) for row in rows}
