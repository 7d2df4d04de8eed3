"""The route of each message: where it was, over which links it came there, and what is not known of it."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.links import kind
from routing.trace.schema import DAY_US, KINDS

NESTED_HOPS_MAX: Final = 10_000
"""Hops, and copies, kept in one row of the routes; the tables `hops` and `copies` have all."""


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


def bounded(rows: DataFrame, key: Sequence[str], most: int) -> DataFrame:
    """`rows` (hops or copies) with about `most` of one message at most, and `cut`, true where it had more.

    What stays is chosen by the hash of `key`. A message with more is rare, so that the list of these messages
    is small enough for every worker.
    """
    many = rows.groupBy("smuid").agg(f.count("*").alias("rows_of")).where(f.col("rows_of") > most)
    share = f.pmod(f.xxhash64(*key), f.col("rows_of")) < most
    cut = f.col("rows_of").isNotNull().alias("cut")
    joined = rows.join(f.broadcast(many), "smuid", "left").where(f.col("rows_of").isNull() | share)
    return joined.select(*rows.columns, cut)


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
    partial; missing: the servers whose part is not known; truncated: there were more hops or copies
    than `most`, and state and counts are those of the ones kept.
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
    nested = bounded(hops, ("from", "to", "attempt"), most).withColumn("kind", kind())
    held = bounded(copies, ("server",), most)
    rows = nested.select("smuid", hop.alias("hop"), "cut").unionByName(
        held.select("smuid", copy.alias("copy"), "cut"), allowMissingColumns=True
    )
    handed = deliveries.select("smuid", f.col("committed_us").isNotNull().cast("int").alias("done"))
    rows = rows.unionByName(handed, allowMissingColumns=True)
    gathered = rows.groupBy("smuid").agg(
        f.collect_list("hop").alias("hops"),
        f.collect_list("copy").alias("copies"),
        f.count("done").alias("delivered"),
        f.coalesce(f.sum("done"), f.lit(0)).alias("committed"),
        f.bool_or("cut").alias("cut"),
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
        f.coalesce("cut", f.lit(False)).alias("truncated"),
    )


_COPY_FIELDS = ("server", "state", "level", "begun_us", "ended_us", "ended", "due", "bytes", "widened")
