"""The proof: every copy that a server took on is finished, held, or named as missing.

Two independent counts. `balance` goes through the copies: each must have its end, or be seen to be held.
`holdings` takes the number of held copies that a server itself states in its heartbeats, and compares it with
what began and ended between two of them, by record numbers, so that no clock has a part in it. Of servers
that the first and the last beginning and end of each copy do not acquit, each record is counted.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from routing.hop_words import BEGINS
from routing.trace.ends import came_home
from routing.trace.routes import born_us, day
from routing.trace.schema import ENDS
from routing.trace.session import broadcast, kept

VERDICTS: Final = ("agrees", "differs", "unknown")
"""Of `holdings`."""


def balance(copies: DataFrame) -> DataFrame:
    """One row for each server, topic and day of birth; `copies` with their state (`ends.states`).

    published, received: copies begun; begin_missing: copies that other records prove, without the record of
    their beginning; finished, of which committed, forwarded, expired, removed, dead and dropped (by what the
    final record says); held; gone (unguaranteed, no end written); lost; log_missing; unknown; twice: copies
    with two beginnings or two ends; closes: all are finished or held, none twice.

    published + received + begin_missing = finished + held + gone + lost + log_missing + unknown.
    """

    def count(condition: Column, name: str) -> Column:
        return f.count_if(f.coalesce(condition, f.lit(False))).alias(name)

    def ended(*events: str) -> Column:
        return (f.col("state") == "finished") & f.col("ended").isin(*(ENDS[event] for event in events))

    state = f.col("state")
    sums = copies.groupBy("server", "topic", day(born_us()).alias("day")).agg(
        count(f.col("begun") == 1, "published"),
        count(f.col("begun") == 2, "received"),
        count(f.col("begun").isNull(), "begin_missing"),
        count(state == "finished", "finished"),
        count(ended("committed", "delivered", "returned", "receipt"), "committed"),
        count(ended("forwarded", "arrived"), "forwarded"),
        *(count(ended(word), word) for word in ("expired", "removed", "dead")),
        count(ended("dropped", "denied"), "dropped"),
        *(count(state == word, word) for word in ("held", "gone", "lost")),
        count(state == "log missing", "log_missing"),
        count(state == "unknown", "unknown"),
        count(begun_twice() | ended_twice(), "twice"),
    )
    open_ends = f.col("lost") + f.col("log_missing") + f.col("unknown") + f.col("twice")
    return sums.withColumn("closes", open_ends == 0)


def holdings(copies: DataFrame, coverage: DataFrame, records: DataFrame) -> DataFrame:
    """One row for each server: held copies as its heartbeat states them, and as its records give them.

    server; stated long, from the last heartbeat; counted long, by the records between; verdict: agrees,
    differs, or unknown where no two heartbeats without a gap between them were read. Runs a job, and where a
    server may differ the rows are made of its `records`.
    """
    found = kept(_by_first_and_last(copies, coverage))
    if found.where("verdict = 'differs'").isEmpty():
        return found
    doubted = found.where("verdict = 'differs'").select("server")
    counted = _record_by_record(records, coverage.join(broadcast(doubted), "server", "left_semi"))
    return found.where("verdict != 'differs'").unionByName(counted)


def _by_first_and_last(copies: DataFrame, coverage: DataFrame) -> DataFrame:
    """`holdings`, by the first and the last beginning and end of each copy.

    There may be others between these, which are not counted. A copy that came again with more depth after its
    end may be held once more, for peers alone: the server counts it, or not, at either heartbeat.
    """
    beats = coverage.select("server", "base_record", "base_held", "beat_record", "held")
    kept = copies.where(~f.col("unguaranteed"))

    def between(first: str, last: str) -> Column:
        """Records from after the one heartbeat to the other; of a copy that came home both count."""

        def counts(record: str) -> Column:
            after = f.col(record) > f.col("base_record")
            return f.coalesce(after & (f.col(record) <= f.col("beat_record")), f.lit(False))

        second = came_home() & (f.col(first) != f.col(last)) & counts(last)
        return f.count_if(counts(first)) + f.count_if(second)

    counted = (
        kept.join(broadcast(beats), "server")
        .groupBy("server")
        .agg(
            between("begun_record", "begun_last_record").alias("begun"),
            between("ended_record", "ended_last_record").alias("ended"),
            f.count_if(f.coalesce(_held_again() | _may_have_been(), f.lit(False))).alias("again"),
            f.count_if(f.coalesce(_no_longer_held_again(), f.lit(False))).alias("no_longer"),
        )
    )
    total = f.col("base_held") + f.coalesce("begun", f.lit(0)) - f.coalesce("ended", f.lit(0))
    least = total - f.coalesce("no_longer", f.lit(0))
    return beats.join(counted, "server", "left").select(
        "server",
        f.col("held").alias("stated"),
        total.alias("counted"),
        f.when(f.col("held").isNull() | total.isNull(), "unknown")
        .when(f.col("held").between(least, total + f.coalesce("again", f.lit(0))), "agrees")
        .otherwise("differs")
        .alias("verdict"),
    )


def _record_by_record(records: DataFrame, coverage: DataFrame) -> DataFrame:
    """`holdings` of the servers of `coverage`, by each record that begins or ends a copy."""
    beats = coverage.select("server", "complete_from", "base_record", "base_held", "beat_record", "held")
    known = f.col("record").between(f.col("complete_from"), f.col("beat_record"))
    begins, widens = f.col("event").isin(*BEGINS), f.col("event") == "depth"
    steps = (
        records.where(f.col("guarantee") & (begins | widens | f.col("final")))
        .select("server", "smuid", "record", "event", "final")
        .join(broadcast(beats), "server")
        .where(known)
        # logs may have been shipped twice
        .dropDuplicates(["server", "record"])
    )
    of_copy = Window.partitionBy("server", "smuid").orderBy("record")
    had_ended = f.lag("final").over(of_copy)
    begun = f.when(begins | (widens & had_ended), 1).otherwise(0)
    changes = steps.select(
        *("server", "record", "base_record"),
        (begun - f.col("final").cast("int")).alias("change"),
        # where nothing tells whether what came again with more depth had ended
        (widens & had_ended.isNull()).cast("int").alias("doubt"),
    ).where(f.col("record") > f.col("base_record"))
    summed = changes.groupBy("server").agg(f.sum("change").alias("change"), f.sum("doubt").alias("doubt"))
    least = f.col("base_held") + f.coalesce("change", f.lit(0))
    most = least + f.coalesce("doubt", f.lit(0))
    nearest = f.greatest(least, f.least(most, f.col("held")))
    return beats.join(summed, "server", "left").select(
        "server",
        f.col("held").alias("stated"),
        nearest.alias("counted"),
        f.when(f.col("held") == nearest, "agrees").otherwise("differs").alias("verdict"),
    )


def _held_again() -> Column:
    """At the last heartbeat it had ended, come again with more depth, and not ended again."""
    came_again = f.col("widened_record").between(f.col("ended_record") + 1, f.col("beat_record"))
    no_second_end = f.col("ended_last_record") == f.col("ended_record")
    return came_again & (no_second_end | (f.col("ended_last_record") > f.col("beat_record")))


def _no_longer_held_again() -> Column:
    """Whether it had ended before the first heartbeat, and once more by the last: it may be in the first."""
    ended_again = f.col("ended_last_record").between(f.col("base_record") + 1, f.col("beat_record"))
    return ended_again & f.col("widened") & (f.col("ended_record") <= f.col("base_record"))


def _may_have_been() -> Column:
    """Whether it came again with more depth, and may have ended before the first heartbeat."""
    came_again = f.col("widened_record").between(f.col("base_record") + 1, f.col("beat_record"))
    before = f.coalesce(f.col("begun_record") <= f.col("base_record"), f.lit(True))
    return f.coalesce(came_again & before, f.lit(False))


def begun_twice() -> Column:
    """Two beginnings, and it was not handed on, nor can it have been in records that are missing."""
    twice = (f.col("begun_record") != f.col("begun_last_record")) & ~came_home() & f.col("unbroken")
    return f.coalesce(twice, f.lit(False))


def ended_twice() -> Column:
    """Two ends, and nothing that made it begin again in between, nor can have in records that are missing."""
    again = f.col("widened") | came_home()
    twice = (f.col("ended_record") != f.col("ended_last_record")) & ~again & f.col("unbroken")
    return f.coalesce(twice, f.lit(False))
