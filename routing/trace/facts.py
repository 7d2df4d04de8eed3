"""The one large aggregation: all records of a message, paired into hops, copies and deliveries.

After one repartition by Smuid a single `groupBy` brings together what the two ends of a hop, or the beginning
and the end of a copy, have written: `coded` has what each record speaks of, and `slots` what is kept of it.
"""

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from routing.trace.coded import COPY, DELIVERY, HOP, coded, keys, needed
from routing.trace.session import spread
from routing.trace.slots import by_name, only_turned_away, slots


def facts(
    records: DataFrame,
    incomplete: Collection[str] = (),
    by: Sequence[str] = (),
    *,
    shortened: Collection[str] = (),
) -> DataFrame:
    """Records to one row for each hop, copy and delivery.

    `incomplete`: servers whose log has gaps or is absent; for these the Hops of other servers' records are
    read as well. `shortened`: those whose first records were not read; they, too, may have had what they
    turned away later. `by`: columns to group by besides, such as a stream's window. Returns `by`, `smuid`,
    `kind` (HOP, COPY, DELIVERY), `a`, `b`, `attempt` and the slots `s0` ...; `named` gives them their names.
    Partitioned by Smuid.
    """
    slim = coded(needed(records, incomplete, by))
    keyed = spread(slim, "smuid").withColumn("key", f.explode(keys()))
    found = keyed.groupBy(
        *by,
        "smuid",
        f.col("key.kind").alias("kind"),
        f.col("key.a").alias("a"),
        f.col("key.b").alias("b"),
        f.col("key.attempt").alias("attempt"),
    ).agg(*slots())
    # whoever turned it away for a reason, as one that was removed, may be called one that has had it; whether
    # it had is known where all of its log was read
    unsure = f.col("a").isin(sorted({*incomplete, *shortened}))
    return found.where(~f.coalesce(only_turned_away() & ~unsure, f.lit(False)))


def named(facts: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """The slots by their names, those of hops, copies and deliveries side by side; null in rows of others.

    `by` as in `facts`; smuid, kind, and the columns of `hops`, `copies` and `deliveries`.
    """
    kind = f.col("kind")
    shared, of_kinds = by_name()
    return facts.select(
        *by,
        "smuid",
        "kind",
        f.when(kind != HOP, f.col("a")).alias("server"),
        *(column.alias(name) for name, column in shared.items()),
        *(
            f.when(kind == code, column).alias(name)
            for code, columns in of_kinds.items()
            for name, column in columns.items()
        ),
    )


def hops(facts: DataFrame) -> DataFrame:
    """One row for each hop and attempt that some log tells of.

    smuid, `from`, `to` string; attempt int (0 where only the Hops of a later record tell of the copy);
    crossing int, which one of this link by this message, from 1 (null where its sender does not say);
    sent_us, acked_us by from's clock, received_us, answered_us by to's clock (long, null where unknown);
    arrival, outcome int (`schema.KINDS`; what the receiver's log and the acknowledgement say, null where they
    are silent); level long, hops from the origin; bytes long; one, unguaranteed bool; sent_logged,
    received_logged bool, which ends are in the logs.
    """
    names = (
        *("smuid", "from", "to", "attempt", "crossing", "sent_us", "received_us", "answered_us", "acked_us"),
        *("arrival", "outcome", "level", "bytes", "one", "unguaranteed", "sent_logged", "received_logged"),
    )
    return _of_kind(facts, HOP, names)


def copies(facts: DataFrame) -> DataFrame:
    """One row for each server that has had the message, by its own log or by a peer's.

    Of a peer's record it is enough that it was there before, with less depth or with as much: who brought it
    there may be told nowhere. Not so where its server, of which all records were read, turned it away as one
    that was removed.

    smuid, server, topic; begun int (1 published, 2 received, null where that record is missing), begun_us,
    begun_record, begun_last_record; ended int (`schema.ENDS`, null where no record is final), ended_us,
    ended_record, ended_last_record; due int or null; expires_us (null: none stated or unknown; -1: a state
    message); claimed_us, when it came by its own clock, as a peer's acknowledgement says (0: the peer gave no
    time; null: no acknowledgement); asked: ONE or ALL, the receipt that was asked for, null for none or
    unknown; receipt_x, receipt_y, receipt_us; widened bool, widened_record, the last of them; handed bool: it
    is of mode ONE and was handed on; came_back bool: and its Hops say that it was there before; depth int as
    published; level (0 at the origin); priority, bytes; one, unguaranteed bool: as its own server says
    (told_by_itself bool), else as others do.
    """
    names = (
        *("smuid", "server", "topic", "begun", "begun_us", "begun_record", "begun_last_record"),
        *("ended", "ended_us", "ended_record", "ended_last_record", "due", "expires_us", "claimed_us"),
        *("asked", "receipt_x", "receipt_y", "receipt_us", "widened", "widened_record", "handed"),
        *("came_back", "told_by_itself", "depth", "priority", "level", "bytes", "one", "unguaranteed"),
    )
    return _of_kind(facts, COPY, names)


def deliveries(facts: DataFrame) -> DataFrame:
    """One row for each subscription that the message was handed to.

    smuid, server, subscription; pattern that it is to ("" where it is to the topic itself); delivered_us,
    committed_us (null: not yet, or that record is missing); attempts int; returned bool; one, unguaranteed
    bool.
    """
    names = (
        *("smuid", "server", "subscription", "pattern", "delivered_us", "committed_us", "attempts"),
        "returned",
        *("one", "unguaranteed"),
    )
    return _of_kind(facts, DELIVERY, names)


def _of_kind(facts: DataFrame, kind: int, names: Sequence[str]) -> DataFrame:
    shared, of_kinds = by_name()
    columns = {"smuid": f.col("smuid"), "server": f.col("a")} | shared | of_kinds[kind]
    return facts.where(f.col("kind") == kind).select(*(columns[name].alias(name) for name in names))
