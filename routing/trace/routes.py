"""The route of each message: where it was, over which links it came there, and what is not known of it."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace import clocks, ends, links
from routing.trace.coded import COPY, DELIVERY, HOP
from routing.trace.facts import facts, named
from routing.trace.jumps import SILENCE_US_MAX
from routing.trace.schema import DAY_US
from routing.trace.session import broadcast, kept

NESTED_HOPS_MAX: Final = 10_000
"""Hops, and copies, kept in one row of the routes; the tables `hops` and `copies` have all."""

IN_TIME_SHARE: Final = 0.1
"""A clock that is put right little by little may show a timeout's end before it comes, by less of it."""

ROWS_OF_RECORD: Final = 3
"""Hops, copies and deliveries that one record tells of, at most."""


def born_us() -> Column:
    """Microseconds of birth, from the column `smuid`."""
    uid = f.substring_index(f.col("smuid"), "/", -1)
    return f.conv(f.substring(uid, 1, 12), 16, 10).cast("long") * 1000


def _origin() -> Column:
    return f.substring_index("smuid", "/", 1)


def day(birth_us: Column | None = None) -> Column:
    """UTC day of birth; `birth_us` None: of the column of that name."""
    born = f.col("birth_us") if birth_us is None else birth_us
    return f.timestamp_micros(born - f.pmod(born, f.lit(DAY_US))).cast("date")


def crowded(
    records: DataFrame, incomplete: Collection[str] = (), most: int = NESTED_HOPS_MAX
) -> DataFrame | None:
    """The messages with more than `most` hops or copies: smuid, hop_rows, copy_rows; None without any.

    There can be few of them among all messages. Runs a job, which reads two columns of `records`, and where
    there may be such messages another one over their records.
    """
    # A record tells of a hop, of its copy and of another, and where logs are missing of each of its Hops.
    tells = f.lit(ROWS_OF_RECORD)
    if incomplete:
        tells = tells + f.coalesce(f.size("hops"), f.lit(0))
    counted = records.groupBy("smuid").agg(f.sum(tells).alias("rows"))
    many = kept(counted.where((f.col("rows") > most) & (f.col("smuid") != "")).select("smuid"))
    if many.isEmpty():
        return None
    kind = f.col("kind")
    found = (
        facts(records.join(broadcast(many), "smuid", "left_semi"), incomplete)
        .groupBy("smuid")
        .agg(f.count_if(kind == HOP).alias("hop_rows"), f.count_if(kind == COPY).alias("copy_rows"))
        .where(f.greatest("hop_rows", "copy_rows") > most)
        .persist()
    )
    return None if found.isEmpty() else found


def _bounded(rows: DataFrame, crowded: DataFrame | None, most: int) -> DataFrame:
    """`rows` with about `most` hops and copies of one message, and `cut`, true where it had more of them.

    What stays is chosen by hash. Deliveries are only counted, so all of them stay.
    """
    if crowded is None:
        return rows.withColumn("cut", f.lit(False))
    kind = f.col("kind")
    rows_of = f.when(kind == HOP, f.col("hop_rows")).when(kind == COPY, f.col("copy_rows"))
    share = f.pmod(f.xxhash64("from", "to", "attempt", "server"), rows_of) < most
    joined = rows.join(broadcast(crowded), "smuid", "left").where(rows_of.isNull() | share)
    return joined.select(*rows.columns, f.coalesce(rows_of > most, f.lit(False)).alias("cut"))


def routes(
    paired: DataFrame,
    segments: DataFrame,
    coverage: DataFrame,
    crowded: DataFrame | None = None,
    most: int = NESTED_HOPS_MAX,
    proven: DataFrame | None = None,
    home: DataFrame | None = None,
) -> DataFrame:
    """The rows of `facts.facts` to one for each message; `crowded` are those of which only `most` hops and
    copies are nested; `proven` and `home` as in `ends.states`.

    smuid, birth_us, day, origin; topic, mode, guarantee, priority, bytes, as the log of the origin says, or
    others where it has nothing of the message; depth (as published; null: unknown); reached: servers that
    have had it; attempts: the greatest number of any of its hops; hops: array of struct `from`, `to`,
    attempt, crossing, kind, level, sent_us, received_us, acked_us, delay_raw_us, sent_at_us,
    received_at_us, delay_us, sent_logged, received_logged; copies: array of struct server, state, level,
    begun_us, ended_us, ended, due, bytes, widened, whole, settled, begun_again (in two records); delivered,
    committed: subscriptions, the second with those that were handed the message and acknowledge nothing;
    last_delay_us: from the first sending to the last first copy, by corrected clocks; asked: ONE or ALL, the
    receipt that was asked for, null for none or unknown; receipt_x, receipt_y; receipt_in_time: by its
    server's clock it was sent while two minutes, and a tenth, of a stated timeout were left; state: complete
    where every copy's fate is known, else partial; missing: the servers whose part is not known; truncated:
    there were more hops or copies than `most`, and state and counts are those of the ones kept.
    """
    kind = f.col("kind")
    told = ends.states(clocks.corrected(named(paired), segments), coverage, proven, home)
    rows = _bounded(told, crowded, most)
    what = links.kind_name()
    hop = f.struct(*(what.alias(name) if name == "kind" else name for name in _HOP_FIELDS))
    first = (kind == HOP) & (what == "accepted")
    # What is gathered is made narrow first: the wide row of all kinds is not copied to the aggregation.
    narrow = rows.select(
        "smuid",
        "kind",
        "cut",
        "attempt",
        f.when(kind == HOP, hop).alias("hop"),
        f.when(kind == COPY, f.struct(*_COPY_FIELDS)).alias("copy"),
        f.struct(_by_origin().alias("by_origin"), *_SAID, _receipt_in_time().alias("in_time")).alias("said"),
        _has_it().alias("done"),
        f.when(first, f.col("received_at_us")).alias("came_us"),
        f.when(first, f.col("sent_at_us")).alias("went_us"),
    )
    fate, server = f.col("copy.state"), f.col("copy.server")
    unsure = fate.isin("log missing", "unknown", "lost")
    gathered = narrow.groupBy("smuid").agg(
        f.collect_list("hop").alias("hops"),
        f.collect_list("copy").alias("copies"),
        f.count_if(kind == DELIVERY).alias("delivered"),
        f.count_if("done").alias("committed"),
        f.bool_or("cut").alias("truncated"),
        f.count_if(fate != "lost").cast("int").alias("reached"),
        f.max("attempt").alias("attempts"),
        f.collect_list(f.when(unsure, server)).alias("unsure"),
        f.coalesce(f.bool_or(server == _origin()), f.lit(False)).alias("origin_known"),
        f.max("came_us").alias("last_us"),
        f.min("went_us").alias("first_us"),
        f.max("said").alias("said"),
    )
    said, by_origin = f.col("said"), f.col("said.by_origin")
    # A log that lost all records of a message is missing even where no other log tells of its copy. So is one
    # that ends before a copy came which then went on from there. (Of a route that is cut the copy may be.)
    silent = f.when(f.col("origin_known"), f.array()).otherwise(f.array(_origin())).cast("array<string>")
    senders = f.when(~f.col("truncated"), f.transform("hops", lambda hop: hop["from"]))
    copied = f.transform("copies", lambda copy: copy["server"])
    unseen = f.array_except(f.coalesce(senders, silent), copied)
    missing = f.array_sort(f.array_distinct(f.concat("unsure", silent, unseen)))
    return gathered.withColumns({"birth_us": born_us(), "missing": missing}).select(
        "smuid",
        "birth_us",
        day().alias("day"),
        _origin().alias("origin"),
        said["topic"].alias("topic"),
        f.when(said["one"], "ONE").otherwise("ALL").alias("mode"),
        (~said["unguaranteed"]).alias("guarantee"),
        f.when(by_origin, said["depth"]).alias("depth"),
        said["bytes"].alias("bytes"),
        said["priority"].alias("priority"),
        "reached",
        "attempts",
        "hops" if crowded is None else f.slice("hops", 1, most).alias("hops"),
        "copies",
        "delivered",
        "committed",
        (f.col("last_us") - f.col("first_us")).alias("last_delay_us"),
        *(f.when(by_origin, said[name]).alias(name) for name in ("asked", "receipt_x", "receipt_y")),
        f.coalesce(by_origin & said["in_time"], f.lit(False)).alias("receipt_in_time"),
        f.when(f.size("missing") == 0, "complete").otherwise("partial").alias("state"),
        "missing",
        "truncated",
    )


def hop_rows(routes: DataFrame) -> DataFrame:
    """The nested hops of `routes`, one row each: smuid, birth_us, unguaranteed, bytes, the fields of a hop,
    and repeated: a hop of this message was sent more than once.
    """
    return routes.select(
        "smuid",
        "birth_us",
        (~f.col("guarantee")).alias("unguaranteed"),
        "bytes",
        (f.col("attempts") > 1).alias("repeated"),
        f.explode("hops").alias("hop"),
    ).select("smuid", "birth_us", "unguaranteed", "bytes", "repeated", "hop.*")


_HOP_FIELDS = (
    *("from", "to", "attempt", "crossing", "kind", "level", "sent_us", "received_us", "acked_us"),
    *("delay_raw_us", "sent_at_us", "received_at_us", "delay_us", "sent_logged", "received_logged"),
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
    "settled",
    "begun_again",
)
_SAID = ("unguaranteed", "one", "priority", "topic", "bytes", "depth", "asked", "receipt_x", "receipt_y")
"""What is said of the message; that of its origin is the greatest, and of others one without a guarantee,
of which least is claimed."""


def _by_origin() -> Column:
    """Whether the origin's own log says it: no other's changes what is said of a message."""
    return f.coalesce(f.col("told_by_itself") & (f.col("server") == _origin()), f.lit(False))


def _receipt_in_time() -> Column:
    """Not as the timeout ended, which cuts a receipt short; that of its server the log does not tell."""
    lasts_us = f.col("expires_us") - f.col("begun_us")
    left_us = f.col("expires_us") - f.col("receipt_us")
    # a clock that was set back by less than its log is silent shows no earlier time than before
    least_us = lasts_us * IN_TIME_SHARE + SILENCE_US_MAX
    return (f.col("expires_us") > 0) & (left_us > least_us)


def _has_it() -> Column:
    """Whether a subscription is done with a message; without acknowledgements it is once it was handed it."""
    handed_over = f.col("delivered_us").isNotNull() & (f.col("attempts") == 0)
    return f.col("committed_us").isNotNull() | handed_over
