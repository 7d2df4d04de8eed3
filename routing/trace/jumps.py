"""Which clocks were set, proven: what is claimed from the hops, held against the log of the clock itself.

Hops tell that two clocks are further apart than they were. Which of them was set they cannot tell, and most
of their neighbours may have been set as well. But a server numbers its records as it writes them, and
is never silent for longer than between two heartbeats: where time goes back from one record to the next, or
leaps by more, the clock was set; and where no two records leave room for it, it was not.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.trace import tables
from routing.trace.clockfit import JUMP_US, FittedClock
from routing.trace.epochs import BUCKET_US, FOREVER_US
from routing.trace.session import broadcast

SILENCE_US_MAX: Final = 120_000_000
"""Between two records of a boot: twice the time between heartbeats, if nobody has set that."""

BACK_US: Final = 1_000_000

OTHERS_MIN: Final = 3
"""So many clocks, whose median it left, tell that a fourth one was set by less than links are torn by, where
its own log neither says nor excludes it. Of more nobody is accused so: two of five may have been set."""


ASKED: Final = t.StructType(
    [
        t.StructField("number", t.IntegerType()),
        t.StructField("server", t.StringType()),
        t.StructField("by_us", t.LongType()),
        t.StructField("doubt_us", t.LongType()),
    ]
)

JUMPS: Final = t.StructType(
    [
        t.StructField("server", t.StringType()),
        t.StructField("time_us", t.LongType()),
        t.StructField("detail", t.StringType()),
    ]
)


@dataclass(frozen=True)
class Jump:
    """From `at_us` on, by the clock of `server`, its times are `by_us` ahead of earlier ones.

    Attributes:
        others: how many clocks it was compared with.
    """

    server: str
    at_us: int
    by_us: float
    doubt_us: float
    others: int


def claimed(clocks: Sequence[FittedClock]) -> list[Jump]:
    """Where the line of a clock goes on higher or lower than the one before it has come.

    A stretch after hours in which the clock was not known is none. Where links are torn, it may have been any
    of the clocks that they compare: then others tell nothing, and its own log is asked alone.
    """
    found = []
    for clock in clocks:
        for before, after in pairwise(sorted(clock.segments, key=lambda part: part.from_us)):
            by_us = after.error_at(after.from_us) - before.error_at(after.from_us)
            doubt_us = after.error_us + before.error_us
            if abs(by_us) > JUMP_US + doubt_us:
                others = 0 if clock.is_torn else clock.others
                found.append(Jump(clock.server, after.from_us, by_us, doubt_us, others))
    return found


def proven(claims: Sequence[Jump], records: DataFrame) -> list[Jump]:
    """Those of which the clock's own log tells; or small ones that it leaves room for, and others tell of.

    Runs a job over the records of these servers, if there are any.
    """
    if not claims:
        return []
    # times that are ahead of earlier ones came after these, or before if the clock was set back
    ways = [(number, one.server, way) for number, one in enumerate(claims) for way in _ways(one.by_us)]
    rows = [
        (number, server, round(by_us), round(claims[number].doubt_us + JUMP_US))
        for number, server, by_us in ways
    ]
    asked = tables.few(records.sparkSession, rows, ASKED)
    by, doubt, since, silence = f.col("by_us"), f.col("doubt_us"), f.col("since_us"), f.col("silence_us")
    has_room = (by - doubt <= since) & (since - silence <= by + doubt)
    says_so = f.when(by < 0, since < -BACK_US).otherwise(since > silence)
    answers = (
        _steps(records, {one.server for one in claims})
        .join(broadcast(asked), "server")
        .where(has_room)
        .groupBy("number")
        .agg(f.bool_or(says_so).alias("says_so"))
        .collect()
    )
    return [
        claims[row.number] for row in sorted(answers) if row.says_so or _is_told_by_others(claims[row.number])
    ]


def _is_told_by_others(claim: Jump) -> bool:
    return claim.others >= OTHERS_MIN and abs(claim.by_us) < 2 * BUCKET_US


def _ways(by_us: float) -> tuple[float, ...]:
    return (by_us, -by_us) if by_us > 0 else (by_us,)


def set_far(records: DataFrame, servers: Collection[str]) -> set[str]:
    """Those of `servers` whose own log says that its clock was set, by more than links are torn by."""
    far = 2 * BUCKET_US
    back, on = f.col("since_us") < -far, f.col("since_us") > f.col("silence_us") + far
    return {
        row.server for row in _steps(records, servers).where(back | on).select("server").distinct().collect()
    }


def set_back(records: DataFrame, servers: Collection[str]) -> set[str]:
    """Those of `servers` of which a record is earlier than the one before. Runs a job over their records."""
    earlier = _steps(records, servers).where("since_us < 0")
    return {row.server for row in earlier.select("server").distinct().collect()}


def _steps(records: DataFrame, servers: Collection[str]) -> DataFrame:
    """server, since_us: from one record that was read to the next; silence_us: at most, if it was not set."""
    order = Window.partitionBy("server").orderBy("record")
    numbers = f.col("record") - f.lag("record").over(order)
    one_boot = f.col("boot") == f.lag("boot").over(order)
    return (
        records.where(f.col("server").isin(sorted(servers)))
        .groupBy("server", "record")
        .agg(f.min("boot").alias("boot"), f.min("time_us").alias("time_us"))
        .select(
            "server",
            (f.col("time_us") - f.lag("time_us").over(order)).alias("since_us"),
            f.when(one_boot, numbers * SILENCE_US_MAX).otherwise(FOREVER_US).alias("silence_us"),
        )
        .where(f.col("since_us").isNotNull())
    )


def table(session: SparkSession, jumps: Sequence[Jump]) -> DataFrame:
    """The jumps as anomalies: server, time_us, detail."""
    rows = [
        (
            one.server,
            one.at_us,
            # after it was set back it shows earlier times, so that what is later is not known here
            "it was set: times from here on are ahead of those before by"
            f" {one.by_us / 1e6:.3f} s, give or take {one.doubt_us / 1e3:.1f} ms",
        )
        for one in jumps
    ]
    return tables.few(session, rows, JUMPS)
