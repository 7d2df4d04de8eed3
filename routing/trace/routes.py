"""The route of each message: where it was, over which links it came there, and what is not known of it."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.facts import COPY, HOP
from routing.trace.links import kind
from routing.trace.schema import ARRIVALS, DAY_US, KINDS

NESTED_HOPS_MAX: Final = 10_000
"""Hops, and copies, kept in one row of the routes; the tables `hops` and `copies` have all."""

ACCEPTED: Final = ARRIVALS["received"]


def born_us(smuid: str = "smuid") -> Column:
    """Microseconds of birth, from the Smuid."""
    uid = f.substring_index(f.col(smuid), "/", -1)
    return f.conv(f.substring(uid, 1, 12), 16, 10).cast("long") * 1000


def _origin() -> Column:
    return f.substring_index("smuid", "/", 1)


def day() -> Column:
    """UTC day of birth."""
    return f.timestamp_micros(f.expr(f"birth_us div {DAY_US} * {DAY_US}")).cast("date")


def kind_name() -> Column:
    """`kind` as the word in `schema.KINDS`."""
    words = f.lit(KINDS[7])
    for code, word in KINDS.items():
        words = f.when(f.col("kind") == code, word).otherwise(words)
    return words


def crowded(facts: DataFrame, most: int = NESTED_HOPS_MAX) -> DataFrame | None:
    """The messages with more than `most` hops or copies: smuid, hop_rows, copy_rows; None without any.

    There can be few of them among all messages. Runs a job, which reads two columns of `facts`.
    """
    kind = f.col("kind")
    counted = facts.groupBy("smuid").agg(
        f.count_if(kind == HOP).alias("hop_rows"), f.count_if(kind == COPY).alias("copy_rows")
    )
    found = counted.where(f.greatest("hop_rows", "copy_rows") > most)
    return None if found.isEmpty() else found


def _bounded(
    rows: DataFrame, crowded: DataFrame | None, count: str, key: Sequence[str], most: int
) -> DataFrame:
    """`rows` (hops or copies) with about `most` of one message at most, and `cut`, true where it had more.

    What stays is chosen by the hash of `key`.
    """
    if crowded is None:
        return rows.withColumn("cut", f.lit(False))
    many = crowded.where(f.col(count) > most).select("smuid", f.col(count).alias("rows_of"))
    share = f.pmod(f.xxhash64(*key), f.col("rows_of")) < most
    joined = rows.join(f.broadcast(many), "smuid", "left").where(f.col("rows_of").isNull() | share)
    return joined.select(*rows.columns, f.col("rows_of").isNotNull().alias("cut"))


def routes(
    hops: DataFrame,
    copies: DataFrame,
    deliveries: DataFrame,
    crowded: DataFrame | None = None,
    most: int = NESTED_HOPS_MAX,
) -> DataFrame:
    """One row for each message; `crowded` are those of which only `most` hops and copies are nested.

    smuid, birth_us, day, origin, topic, mode, guarantee, depth (as published; null: unknown), bytes,
    priority; reached: servers that have had it; hops: array of struct `from`, `to`, attempt, kind, level,
    sent_us, received_us, acked_us, delay_raw_us, sent_at_us, received_at_us, delay_us, sent_logged,
    received_logged; copies: array of struct server, state, level, begun_us, ended_us, ended, due, bytes,
    widened, whole; delivered, committed: subscriptions; last_delay_us: from the first sending to the last first
    copy, by corrected clocks; asked: ONE or ALL, the receipt that was asked for, null for none or unknown;
    receipt_x, receipt_y; state: complete where every copy's fate is known, else
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
    copy = f.struct(*_COPY_FIELDS)
    nested = _bounded(hops, crowded, "hop_rows", ("from", "to", "attempt"), most).withColumn("kind", kind())
    held = _bounded(copies, crowded, "copy_rows", ("server",), most)
    first = f.col("kind") == ACCEPTED
    rows = nested.select(
        "smuid",
        hop.alias("hop"),
        f.when(first, f.col("sent_at_us")).alias("first_sent_us"),
        f.when(first, f.col("received_at_us")).alias("first_received_us"),
        "cut",
    ).unionByName(held.select("smuid", copy.alias("copy"), *_MESSAGE_FIELDS, "cut"), allowMissingColumns=True)
    handed = deliveries.select("smuid", f.col("committed_us").isNotNull().cast("int").alias("done"))
    rows = rows.unionByName(handed, allowMissingColumns=True)
    state = f.col("copy.state")
    gathered = rows.groupBy("smuid").agg(
        f.collect_list("hop").alias("hops"),
        f.collect_list("copy").alias("copies"),
        f.count("done").alias("delivered"),
        f.coalesce(f.sum("done"), f.lit(0)).alias("committed"),
        f.coalesce(f.bool_or("cut"), f.lit(False)).alias("truncated"),
        f.count_if(state != "lost").cast("int").alias("reached"),
        f.collect_list(f.when(state.isin("log missing", "unknown", "lost"), f.col("copy.server"))).alias(
            "unsure"
        ),
        f.bool_or(f.col("copy.server") == _origin()).alias("origin_known"),
        (f.max("first_received_us") - f.min("first_sent_us")).alias("last_delay_us"),
        f.max("copy.bytes").alias("bytes"),
        *(f.max(name).alias(name) for name in _MESSAGE_FIELDS),
    )
    # A log that lost all records of a message is missing even where no other log tells of its copy.
    silent = f.when(f.coalesce("origin_known", f.lit(False)), f.array()).otherwise(f.array(_origin()))
    unsure = f.concat("unsure", silent.cast("array<string>"))
    return (
        gathered.withColumn("birth_us", born_us())
        .withColumn("unsure", unsure)
        .select(
            "smuid",
            "birth_us",
            day().alias("day"),
            _origin().alias("origin"),
            "topic",
            f.when(f.col("one"), "ONE").otherwise("ALL").alias("mode"),
            (~f.coalesce("unguaranteed", f.lit(False))).alias("guarantee"),
            "depth",
            "bytes",
            "priority",
            "reached",
            "hops" if crowded is None else f.slice("hops", 1, most).alias("hops"),
            "copies",
            "delivered",
            "committed",
            "last_delay_us",
            "asked",
            "receipt_x",
            "receipt_y",
            f.when(f.size("unsure") == 0, "complete").otherwise("partial").alias("state"),
            f.array_sort("unsure").alias("missing"),
            "truncated",
        )
    )


_COPY_FIELDS = (
    "server",
    "state",
    "level",
    "begun_us",
    "ended_us",
    "ended",
    "due",
    "bytes",
    "widened",
    "whole",
)
_MESSAGE_FIELDS = ("topic", "one", "unguaranteed", "depth", "priority", "asked", "receipt_x", "receipt_y")
"""Said of each copy, and the greatest is the message's."""
