"""What each link did: messages, bytes, loss, retries, duplicates, delay."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.schema import DAY_US, HOUR_US, KINDS, PASSED, SENT
from routing.trace.session import broadcast

BITS: Final = 62
"""So many attempts of one copy are told from each other, in one number; more are taken for the last."""


def kind() -> Column:
    """What became of the copy of a hop: the receiver's log first, else the acknowledgement, else `passed`.

    An unguaranteed copy of which only its sender tells is `sent`.
    """
    arrival, outcome = f.col("arrival"), f.col("outcome")
    return f.coalesce(
        f.when(arrival < PASSED, arrival),
        f.when(outcome < PASSED, outcome),
        f.when(arrival.isNull() & f.col("unguaranteed"), f.lit(SENT)),
        f.lit(PASSED),
    )


def kind_name() -> Column:
    """`kind` as the word in `schema.KINDS`."""
    words, code = f.lit(KINDS[PASSED]), kind()
    for number, word in KINDS.items():
        words = f.when(code == number, word).otherwise(words)
    return words


def links(
    hops: DataFrame, coverage: DataFrame, vanished: DataFrame | None = None, per_hour: bool = False
) -> DataFrame:
    """One row for each directed link and day of birth (`per_hour`: and hour of birth).

    `hops` as from `routes.hop_rows`, `vanished` as from `vanished.proven_vanished`: without it no
    unguaranteed copy counts as lost.

    `from`, `to`, day date (`per_hour`: hour timestamp instead); messages: first copies accepted; bytes of
    those; attempts: forwards sent, as far as one was acknowledged; lost: attempts of which the receiver
    has no record, though a later one was answered (they never left, did not arrive, were put off there or not
    committed before it was killed), null unless both logs are whole, and begin with their first record or a
    day before; unanswered: arrived, and a later one was answered (the answer of the last one may come after
    the end of a log), null likewise; retries: both of these, without the copies that had no guarantee and are
    gone, which nobody sends again, null likewise; duplicates, loops, widened
    (copies of more depth), denied; delay_p50_us, delay_p90_us, delay_p99_us, delay_min_us (null where the
    clocks are not known), raw_p50_us; timed: hops whose delay is known; logs: both, from, to or none, which
    ends were read.
    """
    unit = HOUR_US if per_hour else DAY_US
    name = "hour" if per_hour else "day"
    period = f.timestamp_micros(f.expr(f"birth_us div {unit} * {unit}"))
    link = ("from", "to", (period if per_hour else period.cast("date")).alias(name))
    first = f.col("kind") == "accepted"
    delay = f.when(first, f.col("delay_us"))
    answered = f.when(f.col("sent_logged"), f.col("attempt"))
    # where the answered one came after the end of the receiver's log, so may those before it have
    answered_came = f.max_by("received_logged", answered)
    silent = f.col("received_logged") & ~f.col("sent_logged") & ~f.col("unguaranteed")
    bit, answered_bit = (
        f.expr(f"shiftleft(1L, cast(least({number}, {BITS}) as int))") for number in ("attempt", "attempts")
    )
    # Only where a message was sent again does the number of attempts have to be found link by link.
    again = (
        hops.where("repeated")
        .groupBy("smuid", f.coalesce("crossing", f.lit(1)).alias("crossing"), *link)
        .agg(
            f.max(answered).alias("attempts"),
            f.when(~answered_came, f.max(answered) - f.count(answered)).alias("doubt"),
            f.bit_or(f.when(silent, bit)).alias("silent"),
        )
        .where("attempts is not null")
        .withColumn("silent", f.bit_count(f.col("silent").bitwiseAND(answered_bit - 1)))
        .groupBy("from", "to", name)
        .agg(
            f.sum("attempts").alias("again"),
            f.sum(f.col("doubt") - f.coalesce("silent", f.lit(0))).alias("doubt"),
            f.sum("silent").alias("unanswered"),
        )
    )
    gone = _vanished(hops, vanished, period if per_hour else period.cast("date"), name)
    found = hops.groupBy(*link).agg(
        f.count_if(first).alias("messages"),
        f.coalesce(f.sum(f.when(first, f.col("bytes"))), f.lit(0)).alias("bytes"),
        f.count_if(f.col("sent_logged") & ~f.col("repeated")).alias("once"),
        f.count_if("sent_logged").alias("answers"),
        *(f.count_if(f.col("kind") == word).alias(column) for word, column in _OTHERS.items()),
        f.count(delay).alias("timed"),
        f.min(delay).alias("delay_min_us"),
        f.percentile_approx(delay, [0.5, 0.9, 0.99], 1000).alias("delays"),
        f.percentile_approx(f.when(first, f.col("delay_raw_us")), 0.5, 1000).alias("raw_p50_us"),
    )

    def log_of(side: str) -> DataFrame:
        begins = f.when(f.col("first_record") > 1, f.col("first_us") + DAY_US).otherwise(0)
        return broadcast(
            coverage.select(
                f.col("server").alias(side),
                f.col("log").alias(f"{side}_log"),
                begins.alias(f"{side}_begins_us"),
            )
        )

    attempts = f.col("once") + f.coalesce("again", f.lit(0))
    from_log, to_log = (f.coalesce(log, f.lit("absent")) for log in ("from_log", "to_log"))
    both_whole = (from_log == "whole") & (to_log == "whole")
    # clocks that differ by less than a day leave no doubt of what was born a day after a log began
    born_us = f.unix_micros(f.col(name).cast("timestamp"))
    both_whole &= born_us >= f.greatest("from_begins_us", "to_begins_us")
    doubt = f.coalesce("doubt", f.lit(0))
    unanswered = f.coalesce("unanswered", f.lit(0))
    unarrived = f.greatest(attempts - f.col("answers") - unanswered - doubt, f.lit(0))
    lost = unarrived + f.coalesce("gone", f.lit(0))
    read = (
        found.join(again, ["from", "to", name], "left")
        .join(gone, ["from", "to", name], "left")
        .join(log_of("from"), "from", "left")
        .join(log_of("to"), "to", "left")
    )
    return read.select(
        "from",
        "to",
        name,
        "messages",
        "bytes",
        attempts.alias("attempts"),
        f.when(both_whole, lost).alias("lost"),
        f.when(both_whole, unanswered).alias("unanswered"),
        f.when(both_whole, unarrived + unanswered).alias("retries"),
        "duplicates",
        "loops",
        "widened",
        "denied",
        f.get("delays", f.lit(0)).alias("delay_p50_us"),
        f.get("delays", f.lit(1)).alias("delay_p90_us"),
        f.get("delays", f.lit(2)).alias("delay_p99_us"),
        "delay_min_us",
        "raw_p50_us",
        "timed",
        f.when((from_log != "absent") & (to_log != "absent"), "both")
        .when(from_log != "absent", "from")
        .when(to_log != "absent", "to")
        .otherwise("none")
        .alias("logs"),
    )


def _vanished(hops: DataFrame, vanished: DataFrame | None, period: Column, name: str) -> DataFrame:
    """How many have, by link and period: from, to, `name`, gone."""
    if vanished is None:
        gone = hops.where(f.lit(False))
    else:
        gone = hops.where(f.col("kind") == KINDS[SENT]).join(vanished, ["smuid", "from", "to"], "left_semi")
    return gone.groupBy("from", "to", period.alias(name)).agg(f.count("*").alias("gone"))


_OTHERS: Final = {"duplicate": "duplicates", "loop": "loops", "depth": "widened", "denied": "denied"}


def compared(links: DataFrame, first: str, second: str) -> DataFrame:
    """The links of two days side by side, those that became slowest first.

    The columns of `links` for the first day, with the ending `_then` for the second; delay_times: the second
    median delay by the first.
    """
    names = ("messages", "lost", "delay_p50_us", "delay_p99_us")
    one = links.where(f.col("day") == first).select("from", "to", *names)
    two = links.where(f.col("day") == second).select(
        "from", "to", *(f.col(name).alias(f"{name}_then") for name in names)
    )
    times = f.try_divide("delay_p50_us_then", "delay_p50_us")
    return (
        one.join(two, ["from", "to"], "full")
        .withColumn("delay_times", times)
        .orderBy(f.desc_nulls_last("delay_times"), "from", "to")
    )
