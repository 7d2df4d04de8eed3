"""Times of different servers made comparable: from the fastest hops of each link to the error of each clock.

For one link and window, the least of (received - sent) and of (acknowledgement come - acknowledgement
sent) are the fastest way there and back; half their difference is how far the two clocks are apart, if the
fastest ways are as long. Only first, accepted copies count: a duplicate may have waited anywhere. `clockfit`
turns these into a line for each clock. The minima are as many as links times windows and are all that the
driver sees, but where a clock was set (`epochs`): of its links those of each minute.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from routing.trace import epochs, jumps, tables
from routing.trace.clockfit import WINDOW_US, FittedClock, Minimum, Segment, fit
from routing.trace.epochs import BUCKET_US, MINUTE_US, Sighting
from routing.trace.links import kind
from routing.trace.schema import EARLIEST_US
from routing.trace.session import broadcast

SEGMENTS = t.StructType(
    [
        t.StructField("server", t.StringType()),
        t.StructField("from_us", t.LongType()),
        t.StructField("until_us", t.LongType()),
        t.StructField("middle_us", t.LongType()),
        t.StructField("offset_us", t.DoubleType()),
        t.StructField("drift_ppm", t.DoubleType()),
        t.StructField("error_us", t.DoubleType()),
    ]
)
"""One stretch of a server's clock: between from_us and until_us by that clock, it is
`offset_us + drift_ppm * (clock - middle_us) / 1e6` ahead of the federation's median clock; error_us is the
median disagreement of its links, or half of the fastest round trip where that is more. A server, or a
stretch, without a row: unknown."""


def segments_frame(session: SparkSession, clocks: Sequence[FittedClock]) -> DataFrame:
    """The clocks as a table of `SEGMENTS`."""
    rows = [
        (
            clock.server,
            part.from_us,
            part.until_us,
            part.middle_us,
            part.offset_us,
            part.drift_ppm,
            part.error_us,
        )
        for clock in clocks
        for part in clock.segments
    ]
    return tables.few(session, rows, SEGMENTS)


def corrected(hops: DataFrame, segments: DataFrame) -> DataFrame:
    """`hops` with delay_raw_us (received - sent as logged), and by corrected clocks sent_at_us,
    received_at_us and delay_us; each null where it cannot be known. The raw times stay as they are.
    """

    def shifted(side: str) -> DataFrame:
        renamed = {
            "server": f"{side}_server",
            "from_us": f"{side}_from",
            "until_us": f"{side}_until",
            "middle_us": f"{side}_middle",
            "offset_us": f"{side}_offset",
            "drift_ppm": f"{side}_drift",
        }
        return broadcast(segments.select(*(f.col(name).alias(other) for name, other in renamed.items())))

    def true_us(side: str, time: str) -> Column:
        beyond = f.col(time) - f.col(f"{side}_middle")
        error = f.col(f"{side}_offset") + f.col(f"{side}_drift") * beyond / 1e6
        return f.col(time) - f.round(error).cast("long")

    def holds(side: str, time: str) -> Column:
        within = f.col(time).between(f.col(f"{side}_from"), f.col(f"{side}_until") - 1)
        return (f.col(side) == f.col(f"{side}_server")) & within

    columns = [name for name in hops.columns if name not in _ADDED]
    return (
        hops.join(shifted("from"), holds("from", "sent_us"), "left")
        .join(shifted("to"), holds("to", "received_us"), "left")
        .select(
            *columns,
            (f.col("received_us") - f.col("sent_us")).alias("delay_raw_us"),
            true_us("from", "sent_us").alias("sent_at_us"),
            true_us("to", "received_us").alias("received_at_us"),
            (true_us("to", "received_us") - true_us("from", "sent_us")).alias("delay_us"),
        )
    )


_ADDED = ("delay_raw_us", "sent_at_us", "received_at_us", "delay_us")


def minima(hops: DataFrame, segments: DataFrame | None) -> DataFrame:
    """The fastest way there and back: `from`, `to`, window long, count long, there_us, back_us long.

    Without `segments` the times are as logged, and the windows are the buckets of `epochs` (null where a hop
    tells of none); with them, they are hours of corrected time and what is left of the clocks' errors is
    measured.
    """
    # a link of a server to itself is set aside now, but earlier runs may have kept its records
    linked = f.col("from") != f.col("to")
    first = hops.where(
        (kind() == 1) & f.col("sent_us").isNotNull() & f.col("received_us").isNotNull() & linked
    )
    there = f.col("received_us") - f.col("sent_us")
    back = f.col("acked_us") - f.col("answered_us")
    window = _bucket()
    if segments is not None:
        first = corrected(first, segments).where(f.col("delay_us").isNotNull())
        shift = there - f.col("delay_us")
        there, back = f.col("delay_us"), back + shift
        window = f.expr(f"sent_at_us div {WINDOW_US}")
    return first.groupBy("from", "to", window.alias("window")).agg(
        f.count("*").alias("count"), f.min(there).alias("there_us"), f.min(back).alias("back_us")
    )


def measured(hops: DataFrame, records: DataFrame, latest_us: int) -> list[FittedClock]:
    """The clocks of all servers whose error can be known. `hops` is read three times: let it be cached.

    `records` of the servers are read where clocks were set. `latest_us`: what is later is no time. That of a
    record was looked at as it was read; what it says of the clock of a peer was not.
    """
    session = hops.sparkSession
    for stamp in ("sent_us", "received_us", "answered_us", "acked_us"):
        hops = hops.where(f.col(stamp).isNull() | f.col(stamp).between(EARLIEST_US, latest_us))
    rough = _rough(hops, records)
    once = fit(_collected(minima(hops, segments_frame(session, rough))), rough)
    return fit(_collected(minima(hops, segments_frame(session, once))), once)


def _bucket() -> Column:
    """How far the receiver's clock is ahead, in units of `BUCKET_US`; null where a hop does not tell."""
    twice = (f.col("received_us") - f.col("sent_us")) + (f.col("answered_us") - f.col("acked_us"))
    is_told = _round_trip_us().between(0, BUCKET_US)
    return f.when(is_told, f.round(twice / (2 * BUCKET_US)).cast("long"))


def _round_trip_us() -> Column:
    return (f.col("acked_us") - f.col("sent_us")) - (f.col("answered_us") - f.col("received_us"))


def _rough(hops: DataFrame, records: DataFrame) -> list[FittedClock]:
    """Flat lines: one for each clock, and for one that was set one for each of its epochs."""
    found = _collected(minima(hops, None))
    buckets: dict[epochs.Pair, set[int]] = defaultdict(set)
    for one in found:
        flipped = one.sender > one.receiver
        pair = (one.receiver, one.sender) if flipped else (one.sender, one.receiver)
        if one.window is not None:
            buckets[pair].add(-one.window if flipped else one.window)
    torn = [pair for pair, numbers in buckets.items() if epochs.lie_apart(numbers)]
    told = jumps.set_far(records, {name for pair in torn for name in pair}) if torn else set[str]()
    jumped = epochs.jumpers(buckets, torn, told)
    whole = [replace(one, window=0) for one in found if not jumped.intersection((one.sender, one.receiver))]
    if not jumped:
        return fit(whole)
    sightings = _sightings(hops, jumped)
    for name, seen in sightings.items():
        longest = max(epochs.runs(seen), key=lambda run: run.count, default=None)
        for neighbour, (there_us, back_us, _) in longest.fastest.items() if longest else ():
            whole.append(Minimum(neighbour, name, 0, 1, there_us, back_us))
    clocks = {clock.server: clock for clock in fit(whole)}
    ahead_us = {name: clock.segments[0].offset_us for name, clock in clocks.items() if name not in jumped}
    for name in jumped & clocks.keys():
        error_us = clocks[name].segments[0].error_us
        flat = (
            Segment(epoch.from_us, epoch.until_us, 0, epoch.ahead_us, 0.0, max(error_us, epoch.doubt_us))
            for epoch in epochs.epochs(sightings[name], ahead_us)
        )
        clocks[name] = FittedClock(name, tuple(flat), clocks[name].others, is_torn=True)
    return [clock for _, clock in sorted(clocks.items()) if clock.segments]


def _sightings(hops: DataFrame, servers: Collection[str]) -> dict[str, list[Sighting]]:
    """By server what the hops between it and others say of its clock, minute by minute of that."""
    timed = hops.where(kind() == 1).withColumn("round_trip_us", _round_trip_us())
    told = timed.withColumn("bucket", _bucket()).where(f.col("bucket").isNotNull())
    out, home = f.col("received_us") - f.col("sent_us"), f.col("acked_us") - f.col("answered_us")
    names = list(servers)

    def seen(
        server: str, neighbour: str, clock: str, bucket: Column, there: Column, back: Column
    ) -> DataFrame:
        of_them = f.col(server).isin(names) & ~f.col(neighbour).isin(names)
        minute = f.expr(f"{clock} div {MINUTE_US}").alias("minute")
        return (
            told.where(of_them)
            .groupBy(
                f.col(server).alias("server"), f.col(neighbour).alias("neighbour"), minute, bucket.alias("b")
            )
            .agg(f.count("*"), f.min(there), f.min(back), f.min("round_trip_us"))
        )

    bucket = f.col("bucket")
    both = seen("to", "from", "received_us", bucket, out, home).union(
        seen("from", "to", "sent_us", -bucket, home, out)
    )
    found: dict[str, list[Sighting]] = defaultdict(list)
    for row in both.collect():
        found[row[0]].append(Sighting(*row))
    return found


def _collected(minima: DataFrame) -> list[Minimum]:
    return [Minimum(*row) for row in minima.collect()]


__all__ = [
    "SEGMENTS",
    "WINDOW_US",
    "FittedClock",
    "Segment",
    "corrected",
    "measured",
    "minima",
    "segments_frame",
]
