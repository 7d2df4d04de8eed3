"""What one message may do to a job."""

from typing import Any


def test_a_message_with_five_thousand_hops_is_cut_and_others_are_whole(spark: Any) -> None:
    from pyspark.sql import functions as f

    from routing.trace import ends, facts, routes
    from routing.trace.coverage import coverage, gaps, words
    from routing.trace.schema import RECORD

    many = 5_000
    blank = {field.name: f.lit(None).cast(field.dataType) for field in RECORD.fields}
    number = f.col("id")
    huge, small = "a/019aa5d72900-1-1", "a/019aa5d72900-1-2"
    record = blank | {
        "version": f.lit(1),
        "server": f.concat(f.lit("s"), number.cast("string")),
        "boot": f.lit(1).cast("long"),
        "record": f.lit(1).cast("long"),
        "time_us": f.lit(1_763_719_200_500_000),
        "event": f.lit("received"),
        "smuid": f.when(number < many, huge).otherwise(small),
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
    records = spark.range(many + 3).select(*(record[name].alias(name) for name in RECORD.names))
    seen = words(records)
    paired = facts.facts(records).persist()
    copies = ends.states(facts.copies(paired), coverage(records, seen, gaps(seen)))
    hops = facts.hops(paired)
    for name in ("delay_raw_us", "sent_at_us", "received_at_us", "delay_us"):
        hops = hops.withColumn(name, f.lit(None).cast("long"))
    handed = facts.deliveries(paired)
    found = routes.routes(hops, copies, handed, routes.crowded(paired, most=500), most=500)
    sizes = {
        row.smuid: (row.n, row.truncated)
        for row in found.selectExpr("smuid", "size(hops) n", "truncated").collect()
    }
    assert sizes[huge][1]
    assert 0 < sizes[huge][0] <= 500
    assert sizes[small] == (3, False)
