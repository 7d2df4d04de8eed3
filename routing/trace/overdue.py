"""Which held copies have outlived their timeout, proven by what their server wrote since.

A clock that was set may be beyond any timeout at once, so its times alone prove nothing. A server writes a
heartbeat each minute that it runs, or as often as it was told to: so many of them since a copy came, within
boots, as its timeout lasts, say that it had the time to end it. A boot that ended between two of them is left
out, and so is what a gap may hold: the proof can come late and cannot be wrong.

Bound by a timeout is what had one stated. A message of mode ONE without one waits for ever, and one of mode
ALL as long as its site was told to (`default_timeout_s`), which no log tells. A subscriber that has received
a message may keep it beyond its timeout.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from routing.trace.session import broadcast, kept

MARGIN_US: Final = 60_000_000


def proven_overdue(copies: DataFrame, records: DataFrame) -> DataFrame | None:
    """The held copies of which that is proven: smuid, server; None where there can be none.

    `copies` as from `ends.states`. Runs a job, which reads seven columns of `copies`; where a copy is held
    beyond its timeout by its server's clock, others over its deliveries and the heartbeats of such servers.
    """
    outlived = kept(
        copies.where("state = 'held' and expires_us > 0")
        .select("smuid", "server", "begun_us", "begun_last_record", f.col("expires_us").alias("ends_us"))
        .where(f.col("held_until_us") > f.col("ends_us") + MARGIN_US)
    )
    if outlived.isEmpty():
        return None
    suspects = kept(outlived.join(_received(outlived, records), ["smuid", "server"], "left_anti"))
    suspected = broadcast(suspects.select("server").distinct())
    beats = (
        records.where("event = 'heartbeat'")
        .select("server", "boot", "record", "time_us")
        .join(suspected, "server", "left_semi")
        .dropDuplicates(["server", "boot", "record"])
        .persist()
    )
    # the clock may be set between two of them, but not between most
    since = f.col("time_us") - f.lag("time_us").over(Window.partitionBy("server", "boot").orderBy("record"))
    intervals = (
        beats.withColumn("since_us", since)
        .where("since_us > 0")
        .groupBy("server")
        .agg(f.percentile_approx("since_us", 0.5).alias("interval_us"))
    )
    lived_us = (f.count("*") - f.count_distinct("boot")) * f.first("interval_us")
    return (
        beats.join(intervals, "server")
        .join(broadcast(suspects), "server")
        .where("record > begun_last_record")
        .groupBy("smuid", "server")
        .agg(
            (lived_us - f.first(f.col("ends_us") - f.col("begun_us"))).alias("beyond_us"),
            (f.max_by("time_us", "record") - f.first("ends_us")).alias("beyond_by_clock_us"),
        )
        .where(f.least("beyond_us", "beyond_by_clock_us") > MARGIN_US)
        .select("smuid", "server")
    )


def _received(copies: DataFrame, records: DataFrame) -> DataFrame:
    """Those of `copies` that a subscriber may have: the last record of a delivery is its beginning."""
    last = (
        records.where(f.col("event").isin("delivered", "committed", "returned"))
        .join(broadcast(copies.select("smuid", "server")), ["smuid", "server"], "left_semi")
        .groupBy("smuid", "server", "subscription", f.coalesce("pattern", f.lit("")))
        .agg(f.max_by("event", "record").alias("last"))
    )
    return last.where("last = 'delivered'").select("smuid", "server")
