"""The route of each message: where it was, over which links it came there, and what is not known of it."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.links import kind
from routing.trace.schema import DAY_US, KINDS

NESTED_HOPS_MAX: Final = 10_000
"""Hops kept in one row of the routes; the table of hops has all of them."""


def born_us(smuid: str = "smuid") -> Column:
    """Microseconds of birth, from the Smuid."""
    uid = f.substring_index(f.col(smuid), "/", -1)
    return f.conv(f.substring(uid, 1, 12), 16, 10).cast("long") * 1000


def day() -> Column:
    """UTC day of birth."""
    return f.timestamp_micros(f.expr(f"birth_us div {DAY_US} * {DAY_US}")).cast("date")


def kind_name() -> Column:
    """`kind` as the word in `schema.KINDS`."""
    words = f.lit(KINDS[7])
    for code, word in KINDS.items():
        words = f.when(f.col("kind") == code, word).otherwise(words)
    return words


def bounded(hops: DataFrame, most: int = NESTED_HOPS_MAX) -> DataFrame:
    """`hops` without what goes beyond `most` for one message; the accepted ones and the early ones stay.

    A message with more is rare, so that the list of these messages is small enough for every worker.
    """
    many = hops.groupBy("smuid").agg(f.count("*").alias("hop_count")).where(f.col("hop_count") > most)
    share = f.pmod(f.xxhash64("from", "to", "attempt"), f.col("hop_count")) < most
    return (
        hops.join(f.broadcast(many), "smuid", "left")
        .where(f.col("hop_count").isNull() | share)
        .drop("hop_count")
    )


def routes(
    hops: DataFrame, copies: DataFrame, deliveries: DataFrame, most: int = NESTED_HOPS_MAX
) -> DataFrame:
    """One row for each message.

    smuid, birth_us, day, origin, topic, mode, guarantee, depth (as published; null: unknown), bytes,
    priority; reached: servers that have had it; hops: array of struct `from`, `to`, attempt, kind, level,
    sent_us, received_us, acked_us, delay_raw_us, sent_at_us, received_at_us, delay_us, sent_logged,
    received_logged; copies: array of struct server, state, level, begun_us, ended_us, ended, due, bytes,
    widened; delivered, committed: subscriptions; last_delay_us: from the first sending to the last first
    copy, by corrected clocks; receipt_x, receipt_y; state: complete where every copy's fate is known, else
    partial; missing: the servers whose part is not known; truncated: hops has no more than `most` of them.
    """
    hop = f.struct(
        "from",
        "to",
        "attempt",
        kind_name().alias("kind"),
        "level",
        "sent_us",
        "received_us",
        "acked_us",
        "delay_raw_us",
        "sent_at_us",
        "received_at_us",
        "delay_us",
        "sent_logged",
        "received_logged",
    )
    copy = f.struct(
        "server",
        "state",
        "level",
        "begun_us",
        "ended_us",
        "ended",
        "begun",
        "bytes",
        "widened",
        "depth",
        "topic",
        "priority",
        "receipt_x",
        "receipt_y",
        "due",
        "one",
        "unguaranteed",
    )
    nested = hops.withColumn("kind", kind()).select("smuid", hop.alias("hop"))
    rows = nested.unionByName(copies.select("smuid", copy.alias("copy")), allowMissingColumns=True)
    handed = deliveries.select("smuid", f.col("committed_us").isNotNull().cast("int").alias("done"))
    rows = rows.unionByName(handed, allowMissingColumns=True)
    gathered = rows.groupBy("smuid").agg(
        f.collect_list("hop").alias("hops"),
        f.collect_list("copy").alias("copies"),
        f.count("done").alias("delivered"),
        f.coalesce(f.sum("done"), f.lit(0)).alias("committed"),
        f.count("hop").alias("hop_count"),
    )
    copies_of = f.col("copies")
    unsure = f.filter(copies_of, lambda c: c["state"].isin("log missing", "unknown", "lost"))
    first = f.filter("hops", lambda h: h["kind"] == "accepted")
    travelled = f.array_max(f.transform(first, lambda h: h["received_at_us"])) - f.array_min(
        f.transform(first, lambda h: h["sent_at_us"])
    )
    known = f.transform(
        copies_of,
        lambda c: f.struct(*(c[name].alias(name) for name in _COPY_FIELDS)),
    )

    def most_of(field: str) -> Column:
        return f.array_max(f.transform(copies_of, lambda c: c[field]))

    return gathered.withColumn("birth_us", born_us()).select(
        "smuid",
        "birth_us",
        day().alias("day"),
        f.substring_index("smuid", "/", 1).alias("origin"),
        most_of("topic").alias("topic"),
        f.when(most_of("one"), "ONE").otherwise("ALL").alias("mode"),
        (~f.coalesce(most_of("unguaranteed"), f.lit(False))).alias("guarantee"),
        most_of("depth").alias("depth"),
        most_of("bytes").alias("bytes"),
        most_of("priority").alias("priority"),
        f.size(f.filter(copies_of, lambda c: c["state"] != "lost")).alias("reached"),
        f.slice("hops", 1, most).alias("hops"),
        known.alias("copies"),
        "delivered",
        "committed",
        travelled.alias("last_delay_us"),
        most_of("receipt_x").alias("receipt_x"),
        most_of("receipt_y").alias("receipt_y"),
        f.when(f.size(unsure) == 0, "complete").otherwise("partial").alias("state"),
        f.array_sort(f.transform(unsure, lambda c: c["server"])).alias("missing"),
        (f.col("hop_count") >= most).alias("truncated"),
    )


_COPY_FIELDS = ("server", "state", "level", "begun_us", "ended_us", "ended", "due", "bytes", "widened")
