"""Which held copies have outlived their timeout, proven by what their server wrote since.

A clock that was set may be beyond any timeout at once, so its times alone prove nothing. A server writes a
heartbeat each minute that it runs, or as often as it was told to: from one to the next of a boot it ran for
what its clock shows, but for no more than usually lies between two of them, nor than lies between those
before or those after, since a clock that is set once is set between two. So much since a copy came as its
timeout lasts says that it had the time to end it. A boot that ended between two of them is left out, and so
is what a gap may hold: the proof can come late.

Bound by a timeout is what had one stated. A message of mode ONE without one waits for ever, and one of mode
ALL as long as its site was told to (`default_timeout_s`), which no log tells. A subscriber that has received
a message may keep it beyond its timeout.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from routing.trace.session import broadcast, kept

MARGIN_US: Final = 60_000_000

LATE_SHARE: Final = 1024
"""A server ends what times out in groups: by this share of how long it lasts late (`routing.deadlines`)."""


def proven_overdue(copies: DataFrame, records: DataFrame) -> DataFrame | None:
    """The held copies of which that is proven: smuid, server; None where there can be none.

    `copies` as from `ends.states`. Runs a job, which reads seven columns of `copies`; where a copy is held
    beyond its timeout by its server's clock, others over its deliveries and the heartbeats of such servers.
    """
    outlived = kept(
        copies.where("state = 'held' and expires_us > 0")
        .select("smuid", "server", "begun_us", "begun_last_record", f.col("expires_us").alias("ends_us"))
        .where(f.col("held_until_us") > f.col("ends_us") + _margin_us())
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
    lived = _lived(beats).persist()
    until = lived.groupBy("server").agg(
        f.max("lived_us").alias("lived_us"), f.max_by("time_us", "record").alias("until_us")
    )
    lasts_us = f.col("ends_us") - f.col("begun_us")
    return (
        _lived_before(suspects, lived)
        .join(broadcast(until), "server")
        .where(f.col("lived_us") - f.col("before_us") - lasts_us > _margin_us())
        .where(f.col("until_us") - f.col("ends_us") > _margin_us())
        .select("smuid", "server")
    )


def _margin_us() -> Column:
    lasts_us = f.greatest(f.col("ends_us") - f.col("begun_us"), f.lit(0))
    return f.lit(MARGIN_US) + lasts_us / LATE_SHARE


def _lived(beats: DataFrame) -> DataFrame:
    """`beats` with lived_us: for how long its server has run until then, of what their log begins with."""
    in_boot, in_log = (Window.partitionBy(*by).orderBy("record") for by in (("server", "boot"), ("server",)))
    spans = beats.withColumn("since_us", f.col("time_us") - f.lag("time_us").over(in_boot))
    usual = (
        spans.where("since_us > 0")
        .groupBy("server")
        .agg(f.percentile_approx("since_us", 0.5).alias("usual_us"))
    )
    span = f.when(f.col("since_us") > 0, f.col("since_us"))
    least_us = f.least("since_us", f.lag(span).over(in_boot), f.lead(span).over(in_boot), "usual_us")
    # of the first of a boot nothing is known
    ran_us = f.when(f.col("since_us") > 0, least_us).otherwise(0)
    return (
        spans.join(usual, "server")
        .withColumn("ran_us", ran_us)
        .withColumn("lived_us", f.sum("ran_us").over(in_log))
        .select("server", "record", "time_us", "lived_us")
    )


def _lived_before(suspects: DataFrame, lived: DataFrame) -> DataFrame:
    """`suspects` with before_us: how long its server had run at the first heartbeat after each began."""
    at = f.col("begun_last_record").alias("record")
    nobody = (f.lit(None).cast(kind).alias(name) for name, kind in _OF_SUSPECTS.items())
    points = suspects.select("server", at, f.lit(None).cast("long").alias("lived_us"), *_OF_SUSPECTS)
    points = points.unionByName(lived.select("server", "record", "lived_us", *nobody))
    # taken from the end on: Spark would gather what follows anew for each row
    after = Window.partitionBy("server").orderBy(f.desc("record")).rowsBetween(Window.unboundedPreceding, -1)
    return (
        points.withColumn("before_us", f.last("lived_us", ignorenulls=True).over(after))
        .where(f.col("smuid").isNotNull())
        .select("server", "before_us", *_OF_SUSPECTS)
    )


_OF_SUSPECTS: Final = {"smuid": "string", "begun_us": "long", "ends_us": "long"}


def _received(copies: DataFrame, records: DataFrame) -> DataFrame:
    """Those of `copies` that a subscriber may have: the last record of a delivery is its beginning."""
    last = (
        records.where(f.col("event").isin("delivered", "committed", "returned"))
        .join(broadcast(copies.select("smuid", "server")), ["smuid", "server"], "left_semi")
        .groupBy("smuid", "server", "subscription", f.coalesce("pattern", f.lit("")))
        .agg(f.max_by("event", "record").alias("last"))
    )
    return last.where("last = 'delivered'").select("smuid", "server")
