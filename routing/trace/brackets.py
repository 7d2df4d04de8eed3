"""Which copies are lost, proven by record numbers alone: no clock has a part in it.

A server numbers its records, and answers copies on a link in the order in which it has recorded them. So a
copy that it has acknowledged has its record between those of a copy that it answered before, to the same
peer, and of one that it answered after. Where no number between these two is missing in its log, and none of
them is of the copy, the copy is lost. Answers that left together are of no order among themselves. The record
of an answer is that of the same crossing of the same link: what is of mode ONE may come again, by other ways.

Of a server that began to number anew neither its records nor its answers are of any order. And a message that
a receipt says more have than are known to have it is at a server of which too little is known.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from routing.trace.coded import crossing
from routing.trace.session import broadcast, kept

_CROSSING: Final = ["smuid", "from", "server", "attempt", "crossing"]


def proven_lost(
    copies: DataFrame, records: DataFrame, gaps: DataFrame, twice: DataFrame | None = None
) -> DataFrame | None:
    """The copies without a beginning of which that is proven: smuid, server; None where there can be none.

    `copies` as from `facts.copies`, `gaps` as from `coverage.gaps`, which was given `twice` as well. Runs a
    job, which reads three columns of `copies`; where there are copies that are claimed and have no beginning,
    others over the links of these.
    """
    heard = copies.where("begun is not null").select("server").distinct()
    open_ones = copies.where("begun is null and ended is null and claimed_us is not null")
    suspects = kept(open_ones.select("smuid", "server").join(broadcast(heard), "server", "left_semi"))
    if suspects.isEmpty():
        return None
    answers = records.where("event = 'forwarded' and outcome = 'accepted'").select(
        *("smuid", f.col("server").alias("from"), f.col("peer").alias("server"), "attempt"),
        *(crossing().alias("crossing"), "record", "peer_sent_us"),
    )
    if twice is not None:
        answers = answers.join(broadcast(twice.select(f.col("server").alias("from"))), "from", "left_anti")
    links = answers.join(broadcast(suspects), ["smuid", "server"]).select("from", "server").distinct()
    received = (
        records.where("event = 'received'")
        .select(
            "smuid", f.col("peer").alias("from"), "server", "attempt", crossing().alias("crossing"), "record"
        )
        .join(broadcast(links), ["from", "server"], "left_semi")
        .groupBy(*_CROSSING)
        # a record may be read twice, but two of one crossing tell nothing
        .agg(f.min("record").alias("received_record"), f.max("record").alias("last"))
        .where("received_record = last")
    )
    on_links = answers.join(broadcast(links), ["from", "server"]).join(received, _CROSSING, "left")
    between = _bracketed(on_links).join(broadcast(suspects), ["smuid", "server"], "left_semi")
    # in another order they are where its server began to number anew between them
    known = between.where("before < after").select(
        "smuid", "server", f.col("before").alias("first"), f.col("after").alias("last")
    )
    missing = broadcast(gaps.select(f.col("server").alias("lacking"), "first_missing", "last_missing"))
    in_it = (f.col("lacking") == f.col("server")) & (f.col("first_missing") <= f.col("last"))
    whole = known.join(missing, in_it & (f.col("last_missing") >= f.col("first")), "left_anti")
    found = kept(whole.select("smuid", "server").distinct())
    return kept(found.join(broadcast(_had_elsewhere(found, records)), "smuid", "left_anti"))


def _had_elsewhere(found: DataFrame, records: DataFrame) -> DataFrame:
    """The messages of `found` that more have, as the receipt of their origin counts, than have committed in
    any log: smuid.
    """
    counted = f.get(f.split("receipt", "/"), f.lit(0)).try_cast("long")
    reader = f.struct("server", "subscription", f.coalesce("pattern", f.lit("")))
    committed = f.count_distinct(f.when(f.col("event") == "committed", reader))
    is_sent = (f.col("event") == "receipt") & (f.col("server") == f.substring_index("smuid", "/", 1))
    return (
        records.where(f.col("event").isin("receipt", "committed"))
        .join(broadcast(found.select("smuid").distinct()), "smuid", "left_semi")
        .groupBy("smuid")
        .agg(f.max(f.when(is_sent, counted)).alias("x"), committed.alias("had"))
        .where("x > had")
        .select("smuid")
    )


def _bracketed(answers: DataFrame) -> DataFrame:
    """With `before` and `after`: of the nearest answers on the link that left at other times, the records."""
    order = Window.partitionBy("from", "server").orderBy("record")
    left = f.col("peer_sent_us")
    together = f.sum(f.when(left == f.lag(left).over(order), 0).otherwise(1)).over(order)
    batch = Window.partitionBy("from", "server", "batch").orderBy("record")
    whole_batch = batch.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    number: Column = f.col("received_record")
    # What follows is taken from the end on: Spark would gather it anew for each row. By numbers, not rows: a
    # record that was read twice does not precede itself, in either order.
    backward = Window.partitionBy("from", "server").orderBy(f.desc("record"))
    earlier = order.rangeBetween(Window.unboundedPreceding, -1)
    later = backward.rangeBetween(Window.unboundedPreceding, -1)
    return (
        answers.withColumn("batch", together)
        .withColumn("nearest_before", f.last(number, ignorenulls=True).over(earlier))
        .withColumn("nearest_after", f.last(number, ignorenulls=True).over(later))
        .withColumn("before", f.first("nearest_before").over(whole_batch))
        .withColumn("after", f.last("nearest_after").over(whole_batch))
    )
