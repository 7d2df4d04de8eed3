"""Which log is whole, which has gaps, which is absent: what decides between *lost* and *log missing*.

Record numbers of a server have no gaps over all its boots, so a number that is not there is a record that was
not read. Numbers are gathered 64 to a word with `bit_or`, which reading a log twice does not change; only
words that are not full are looked into. A heartbeat each minute tells a quiet log from one that ends early,
and the count of copies that it states is compared with the count that the log itself gives.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from routing.trace.files import spelled
from routing.trace.ingest import content
from routing.trace.session import broadcast, kept

WORD_BITS: Final = 64

LEAP: Final = 500_000_000
"""A gap of more numbers is no loss of as many records: a site that was restored left them out.

It goes on with the microseconds of its clock, or, where these are less than its numbers, with
`daemon.store.backup.AHEAD` more. So of a site that is restored again within eight minutes each one counts.
"""

EVER_US: Final = 1 << 62
"""Beyond all times: where a gap is not known to end."""


def words(records: DataFrame) -> DataFrame:
    """server, word long, mask long (bit i: record 64 * word + i was read), first_us, last_us, lines (records,
    those that were read twice counted twice), first_boot, last_boot.
    """
    bit = f.expr(f"shiftleft(1L, cast(record % {WORD_BITS} as int))")
    return records.groupBy("server", f.expr(f"record div {WORD_BITS}").alias("word")).agg(
        f.bit_or(bit).alias("mask"),
        f.min("time_us").alias("first_us"),
        f.max("time_us").alias("last_us"),
        f.count("*").alias("lines"),
        f.min("boot").alias("first_boot"),
        f.max("boot").alias("last_boot"),
    )


def numbered_twice(words: DataFrame, records: DataFrame) -> DataFrame | None:
    """The servers that began to number anew, as after a reinstall or from a backup: server; None without any.

    Of their numbers none proves anything. Told by a number that two different records have, and by a boot
    that follows a later one. Runs a job over `words`, and another over the records of those in which a
    number came twice, as where logs were read twice, or that are of several boots.
    """
    series = Window.partitionBy("server").orderBy("word")
    anew = words.withColumn("boot_before", f.lag("last_boot").over(series)).where("first_boot < boot_before")
    found = anew.select("server")
    is_doubted = (f.col("lines") > f.bit_count("mask")) | (f.col("first_boot") < f.col("last_boot"))
    doubted = kept(words.where(is_doubted).select("server", "word"))
    if not doubted.isEmpty():
        before = f.lag("boot").over(Window.partitionBy("server").orderBy("record"))
        begun_anew = (
            records.withColumn("word", f.expr(f"record div {WORD_BITS}"))
            .join(broadcast(doubted), ["server", "word"], "left_semi")
            .groupBy("server", "record")
            .agg(f.min("boot").alias("boot"), f.min(content()).alias("one"), f.max(content()).alias("other"))
            .withColumn("boot_before", before)
            .where("one != other or boot < boot_before")
        )
        found = found.unionByName(begun_anew.select("server"))
    servers = kept(found.distinct())
    return None if servers.isEmpty() else servers


def ordered(records: DataFrame, twice: DataFrame | None) -> DataFrame:
    """`records` without those of `twice` (`numbered_twice`), whose numbers do not tell which came first."""
    return records if twice is None else records.join(broadcast(twice), "server", "left_anti")


def gaps(words: DataFrame, claims: DataFrame | None = None, twice: DataFrame | None = None) -> DataFrame:
    """The record numbers that are missing between those that were read, and those that names of files claim.

    `claims` as `files.claims` gives them; of `twice` (`numbered_twice`) any record may be missing: one gap
    is over all that were read. server, first_missing, last_missing long; before_us, after_us: by
    the server's clock the gap lies between, null where nothing was read on that side.
    """
    found = _between(words)
    if claims is not None:
        found = found.unionByName(_claimed(words, claims))
    if twice is None:
        return found
    nothing = f.lit(None).cast("long")
    of_twice = (
        _ends(words)
        .join(broadcast(twice), "server", "left_semi")
        .select(
            "server",
            f.col("first_record").alias("first_missing"),
            f.col("last_record").alias("last_missing"),
            nothing.alias("before_us"),
            nothing.alias("after_us"),
        )
    )
    return found.join(broadcast(twice), "server", "left_anti").unionByName(of_twice)


def _claimed(words: DataFrame, claims: DataFrame) -> DataFrame:
    """What is missing before the first record that was read, and after the last one."""
    ends = _ends(words).join(claims, spelled(f.col("server")) == f.col("spelled"))
    nothing = f.lit(None).cast("long")

    def lacking(first: Column, last: Column, before_us: Column, after_us: Column) -> Column:
        names = ("first_missing", "last_missing", "before_us", "after_us")
        values = (first, last, before_us, after_us)
        return f.struct(*(value.alias(name) for name, value in zip(names, values, strict=True)))

    before = lacking(f.col("first_claimed"), f.col("first_record") - 1, nothing, f.col("first_us"))
    after = lacking(f.col("last_record") + 1, f.col("last_claimed"), f.col("last_us"), nothing)
    return ends.select("server", f.inline(f.array(before, after))).where("first_missing <= last_missing")


def _between(words: DataFrame) -> DataFrame:
    series = Window.partitionBy("server").orderBy("word")
    before = f.when(f.lag("word").over(series) == f.col("word") - 1, f.lag("mask").over(series))
    after = f.when(f.lead("word").over(series) == f.col("word") + 1, f.lead("mask").over(series))
    none = f.lit(0).cast("long")
    beside = words.withColumns({"before": f.coalesce(before, none), "after": f.coalesce(after, none)})
    starts = f.expr("mask & ~(shiftleft(mask, 1) | shiftrightunsigned(before, 63))")
    ends = f.expr("mask & ~(shiftrightunsigned(mask, 1) | shiftleft(after, 63))")
    edged = beside.withColumns({"starts": starts, "ends": ends})
    bits = f.sequence(f.lit(0), f.lit(WORD_BITS - 1))

    def edges(mask: str, side: str) -> Column:
        numbers = f.filter(bits, lambda bit: f.getbit(f.col(mask), bit) == 1)
        return f.transform(
            numbers,
            lambda bit: f.struct(
                (f.col("word") * WORD_BITS + bit).alias("record"), f.lit(side).alias("side")
            ),
        )

    both = edged.where((f.col("starts") != 0) | (f.col("ends") != 0)).select(
        "server",
        "first_us",
        "last_us",
        f.inline(f.concat(edges("starts", "1 start"), edges("ends", "2 end"))),
    )
    order = Window.partitionBy("server").orderBy("record", "side")
    return (
        both.withColumns({"next": f.lead("record").over(order), "after_us": f.lead("last_us").over(order)})
        .where((f.col("side") == "2 end") & f.col("next").isNotNull())
        .select(
            "server",
            (f.col("record") + 1).alias("first_missing"),
            (f.col("next") - 1).alias("last_missing"),
            f.col("first_us").alias("before_us"),
            "after_us",
        )
    )


def servers_named(records: DataFrame) -> DataFrame:
    """Every server that any record names, as writer, peer or in Hops: `server`."""
    path = f.coalesce("hops", f.array().cast("array<string>"))
    ends = f.array("server", f.when(f.col("peer") != "", f.col("peer")))
    named = records.select(f.explode(f.concat(path, ends)).alias("server"))
    return named.where(f.col("server").isNotNull()).distinct()


def coverage(
    records: DataFrame, words: DataFrame, gaps: DataFrame, twice: DataFrame | None = None
) -> DataFrame:
    """One row for each server that any record names.

    server; first_record, last_record, records, missing long (a `LEAP` is one); boots int; first_us, last_us
    by its clock; first_gap_us, last_gap_us: its gaps lie between these (null without gaps); complete_from:
    the first record after the last gap; first_missing: the first record of the first gap (null without
    gaps); held long, beat_record long: of the last heartbeat; base_held, base_record: of the first heartbeat
    after complete_from, or 0 and 0 where the log is whole from record 1; numbered_twice bool: it is among
    `twice`, as `gaps` was given; log: whole, gaps (also of these), no heartbeat or absent.
    """
    per_server = _ends(words)
    numbers = f.col("last_missing") - f.col("first_missing") + 1
    per_gap = gaps.groupBy("server").agg(
        f.min(f.coalesce("before_us", f.lit(0))).alias("first_gap_us"),
        f.max(f.coalesce("after_us", f.lit(EVER_US))).alias("last_gap_us"),
        (f.max("last_missing") + 1).alias("after_gap"),
        f.min("first_missing").alias("first_missing"),
        f.sum(f.when(numbers > LEAP, 1).otherwise(numbers)).alias("missing"),
    )
    boots = records.groupBy("server").agg(f.approx_count_distinct("boot").cast("int").alias("boots"))
    after_gap = broadcast(per_gap.select("server", "after_gap"))
    beats = (
        records.where(f.col("event") == "heartbeat")
        .select("server", "record", "held")
        .join(after_gap, "server", "left")
        .where(f.col("after_gap").isNull() | (f.col("record") >= f.col("after_gap")))
        .groupBy("server")
        .agg(
            f.max("record").alias("beat_record"),
            f.max_by("held", "record").alias("held"),
            f.min("record").alias("first_beat"),
            f.min_by("held", "record").alias("first_held"),
        )
    )
    # Each server is in each part once at most: one aggregation takes them together, which joins would do at a
    # shuffle or a broadcast for each.
    parts = [servers_named(records), per_server, per_gap, boots, beats]
    nobody = boots.select("server").where(f.lit(False))
    parts.append((nobody if twice is None else twice).withColumn("numbered_twice", f.lit(True)))
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    told = [name for name in together.columns if name != "server"]
    known = together.groupBy("server").agg(*(f.max(name).alias(name) for name in told))
    whole = f.col("missing").isNull() & (f.col("first_record") <= 1)
    return known.select(
        "server",
        "first_record",
        "last_record",
        f.coalesce("records", f.lit(0)).alias("records"),
        f.when(f.col("numbered_twice"), 0).otherwise(f.coalesce("missing", f.lit(0))).alias("missing"),
        f.coalesce("boots", f.lit(0)).alias("boots"),
        "first_us",
        "last_us",
        "first_gap_us",
        "last_gap_us",
        f.coalesce("after_gap", "first_record").alias("complete_from"),
        "first_missing",
        "held",
        "beat_record",
        f.when(whole, f.lit(0)).otherwise(f.col("first_held")).alias("base_held"),
        f.when(whole, f.lit(0)).otherwise(f.col("first_beat")).alias("base_record"),
        f.coalesce("numbered_twice", f.lit(False)).alias("numbered_twice"),
        f.when(f.col("records").isNull(), "absent")
        .when(f.col("missing") > 0, "gaps")
        .when(f.col("beat_record").isNull(), "no heartbeat")
        .otherwise("whole")
        .alias("log"),
    )


def _ends(words: DataFrame) -> DataFrame:
    """By server the first and the last record that were read, their count, and the times of them."""
    top = f.bin(f.max_by("mask", "word"))
    bottom = f.bin(f.min_by("mask", "word"))
    low = f.length(bottom) - f.length(f.regexp_replace(bottom, "0+$", ""))
    return words.groupBy("server").agg(
        f.sum(f.bit_count("mask")).alias("records"),
        (f.min("word") * WORD_BITS + low).alias("first_record"),
        (f.max("word") * WORD_BITS + f.length(top) - 1).alias("last_record"),
        f.min("first_us").alias("first_us"),
        f.max("last_us").alias("last_us"),
    )
