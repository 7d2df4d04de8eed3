"""What each link did: messages, bytes, loss, retries, duplicates, delay."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.schema import DAY_US, HOUR_US, KINDS, PASSED


def kind() -> Column:
    """What became of the copy of a hop: the receiver's log first, else the acknowledgement, else `passed`."""
    return kind_of(f.col("arrival"), f.col("outcome"))


def kind_of(arrival: Column, outcome: Column) -> Column:
    """`kind` of what the receiver's log and the acknowledgement say; either may be null."""
    return f.coalesce(f.when(arrival < PASSED, arrival), f.when(outcome < PASSED, outcome), f.lit(PASSED))


def links(hops: DataFrame, coverage: DataFrame, per_hour: bool = False) -> DataFrame:
    """One row for each directed link and day of birth (`per_hour`: and hour of birth).

    `from`, `to`, day date (`per_hour`: hour timestamp instead); messages: first copies accepted; bytes of
    those; attempts: forwards sent, as far as one was acknowledged; lost: attempts that did not arrive, null
    unless both logs are whole; unanswered: arrived, and no acknowledgement came back, null likewise; retries:
    lost + unanswered, null likewise; duplicates, loops, widened (copies of more depth), denied; delay_p50_us,
    delay_p90_us, delay_p99_us, delay_min_us (null where the clocks are not known), raw_p50_us; timed: hops
    whose delay is known; logs: both, from, to or none, which ends were read.
    """
    period = (
        f.timestamp_micros(f.expr(f"birth_us div {HOUR_US} * {HOUR_US}")).alias("hour")
        if per_hour
        else f.timestamp_micros(f.expr(f"birth_us div {DAY_US} * {DAY_US}")).cast("date").alias("day")
    )
    what = kind()
    timed = f.when(what == 1, f.col("delay_us"))
    crossings = (
        hops.withColumn("kind", what)
        .groupBy("smuid", "birth_us", "from", "to")
        .agg(
            f.max(f.when(f.col("sent_logged"), f.col("attempt"))).alias("attempts"),
            f.count_if(f.col("sent_logged")).alias("answers"),
            f.count_if(f.col("received_logged") & ~f.col("sent_logged") & ~f.col("unguaranteed")).alias(
                "unanswered"
            ),
            *(f.count_if(f.col("kind") == code).alias(word) for code, word in KINDS.items()),
            f.max(f.when(f.col("kind") == 1, f.col("bytes"))).alias("bytes"),
            f.min(timed).alias("delay_us"),
            f.min(f.when(what == 1, f.col("delay_raw_us"))).alias("delay_raw_us"),
        )
    )
    found = crossings.groupBy("from", "to", period).agg(
        f.sum("accepted").alias("messages"),
        f.coalesce(f.sum("bytes"), f.lit(0)).alias("bytes"),
        f.coalesce(f.sum("attempts"), f.lit(0)).cast("long").alias("attempts"),
        f.sum("answers").alias("answers"),
        f.sum("unanswered").alias("unanswered"),
        f.sum("duplicate").alias("duplicates"),
        f.sum("loop").alias("loops"),
        f.sum("depth").alias("widened"),
        f.sum("denied").alias("denied"),
        f.count("delay_us").alias("timed"),
        f.min("delay_us").alias("delay_min_us"),
        f.percentile_approx("delay_us", [0.5, 0.9, 0.99], 1000).alias("delays"),
        f.percentile_approx("delay_raw_us", 0.5, 1000).alias("raw_p50_us"),
    )
    ends = coverage.select("server", "log")
    read = (
        found.join(f.broadcast(ends.toDF("from", "from_log")), "from", "left")
        .join(f.broadcast(ends.toDF("to", "to_log")), "to", "left")
        .withColumn("from_log", f.coalesce("from_log", f.lit("absent")))
        .withColumn("to_log", f.coalesce("to_log", f.lit("absent")))
    )
    both_whole = (f.col("from_log") == "whole") & (f.col("to_log") == "whole")
    lost = f.greatest(f.col("attempts") - f.col("answers") - f.col("unanswered"), f.lit(0))
    return read.select(
        "from",
        "to",
        "hour" if per_hour else "day",
        "messages",
        "bytes",
        "attempts",
        f.when(both_whole, lost).alias("lost"),
        f.when(both_whole, f.col("unanswered")).alias("unanswered"),
        f.when(both_whole, lost + f.col("unanswered")).alias("retries"),
        "duplicates",
        "loops",
        "widened",
        "denied",
        f.get("delays", f.lit(0)).alias("delay_p50_us"),
        f.get("delays", f.lit(1)).alias("delay_p90_us"),
        f.get("delays", f.lit(2)).alias("delay_p99_us"),
        "delay_min_us",
        "raw_p50_us",
        "timed",
        f.when((f.col("from_log") != "absent") & (f.col("to_log") != "absent"), "both")
        .when(f.col("from_log") != "absent", "from")
        .when(f.col("to_log") != "absent", "to")
        .otherwise("none")
        .alias("logs"),
    )


def compared(links: DataFrame, first: str, second: str) -> DataFrame:
    """The links of two days side by side, those that became slowest first.

    The columns of `links` for the first day, with the ending `_then` for the second; delay_times: the second
    median delay by the first.
    """
    names = ("messages", "lost", "delay_p50_us", "delay_p99_us")
    one = links.where(f.col("day") == first).select("from", "to", *names)
    two = links.where(f.col("day") == second).select(
        "from", "to", *(f.col(name).alias(f"{name}_then") for name in names)
    )
    times = f.try_divide("delay_p50_us_then", "delay_p50_us")
    return (
        one.join(two, ["from", "to"], "full")
        .withColumn("delay_times", times)
        .orderBy(f.desc_nulls_last("delay_times"), "from", "to")
    )
