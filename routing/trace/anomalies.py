"""What should not be, one row each: kind, where, which message, since when."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.balance import begun_twice, ended_twice
from routing.trace.routes import born_us, day

DEGRADED_FACTOR: Final = 3.0
DEGRADED_US: Final = 20_000
DEGRADED_HOPS_MIN: Final = 10
"""An hour's median of fewer hops says little."""

KINDS: Final = (
    "lost",
    "two custodians",
    "begun or ended twice",
    "over depth",
    "wrong receipt",
    "held copies differ",
    "looped",
    "stuck",
    "log missing",
    "clock jump",
    "degraded link",
)
"""By gravity: promises that were broken, then what may become so, then what makes it hard to tell."""

COLUMNS: Final = ("kind", "day", "server", "peer", "smuid", "topic", "time_us", "detail")


def by_gravity() -> list[Column]:
    """The order in which people read them: see `KINDS`."""
    known = f.array(*(f.lit(kind) for kind in KINDS))
    return [f.array_position(known, f.col("kind")), f.col("time_us"), f.col("smuid")]


def anomalies(
    routes: DataFrame,
    copies: DataFrame,
    custody: DataFrame,
    receipts: DataFrame,
    holdings: DataFrame,
    coverage: DataFrame,
    link_hours: DataFrame,
    jumps: DataFrame,
    overdue: DataFrame | None,
) -> DataFrame:
    """All of `KINDS`: kind, day date, server, peer, smuid, topic, time_us (by the server's clock), detail.

    What does not apply is null. `jumps` as from `jumps.table`, `overdue` as from `overdue.proven_overdue`.
    """
    dated = copies.withColumn("day", day(born_us()))
    return reduce(
        DataFrame.union,
        (
            *_of_copies(dated, overdue),
            _of_routes(routes),
            _rows(
                custody.where(f.col("custodians") > 1),
                "two custodians",
                day="day",
                server="origin",
                smuid="smuid",
                topic="topic",
                detail=f.concat(
                    f.col("custodians").cast("string"), f.lit(" custodians: "), f.array_join("path", ", ")
                ),
            ),
            _rows(
                receipts.where(f.col("verdict") == "wrong"),
                "wrong receipt",
                day="day",
                server="origin",
                smuid="smuid",
                topic="topic",
                detail=f.format_string(
                    "%d/%d says %s (%d have it, %s due)",
                    "x",
                    "y",
                    "why",
                    "had",
                    f.col("due").cast("string"),
                ),
            ),
            _rows(
                holdings.where(f.col("verdict") == "differs"),
                "held copies differ",
                server="server",
                detail=f.format_string("the heartbeat says %d, the records give %d", "stated", "counted"),
            ),
            _rows(
                coverage.where(f.col("log") != "whole"),
                "log missing",
                server="server",
                time_us="first_gap_us",
                detail=f.when(f.col("numbered_twice"), "its record numbers came twice")
                .when(f.col("log") == "gaps", _counted(f.col("missing"), "record missing", "records missing"))
                .otherwise(f.col("log")),
            ),
            _rows(jumps, "clock jump", server="server", time_us="time_us", detail="detail"),
            _degraded(link_hours),
        ),
    )


def _rows(found: DataFrame, kind: str, **columns: str | Column) -> DataFrame:
    return found.select(*_row(f.lit(kind), **columns))


def _row(kind: Column, **columns: str | Column) -> list[Column]:
    types = {"day": "date", "time_us": "long"}
    chosen = []
    for name in COLUMNS:
        value = kind if name == "kind" else columns.get(name, f.lit(None))
        value = f.col(value) if isinstance(value, str) else value
        chosen.append(value.cast(types.get(name, "string")).alias(name))
    return chosen


def _counted(number: Column, one: str, more: str) -> Column:
    """How many of something, in words."""
    return f.when(number == 1, f.lit(f"1 {one}")).otherwise(f.format_string(f"%d {more}", number))


def _of_copies(copies: DataFrame, overdue: DataFrame | None) -> list[DataFrame]:
    where = {"day": "day", "server": "server", "smuid": "smuid", "topic": "topic"}
    twice = _rows(
        copies.where(begun_twice() | ended_twice()),
        "begun or ended twice",
        **where,
        time_us="begun_us",
        detail=f.when(
            begun_twice(),
            f.format_string("begun in records %d and %d", "begun_record", "begun_last_record"),
        ).otherwise(f.format_string("ended in records %d and %d", "ended_record", "ended_last_record")),
    )
    if overdue is None:
        return [twice]
    stuck = _rows(
        copies.join(overdue, ["smuid", "server"], "left_semi"),
        "stuck",
        **where,
        time_us="begun_us",
        detail=f.lit("held beyond its timeout"),
    )
    return [stuck, twice]


def _of_routes(routes: DataFrame) -> DataFrame:
    """What the routes alone tell, of which one pass finds all: lost copies, loops, and copies too deep."""
    # A copy that waits to be sent takes on the Hops of a deeper one that comes, and may meet one of them: its
    # sender's log says so, where no record of it can be missing and the log goes on to the answer. What has
    # no guarantee ends where it comes back to, by design.
    straight = f.transform(f.filter("copies", lambda c: c["whole"] & ~c["widened"]), lambda c: c["server"])

    def came_back(hop: Column) -> Column:
        known = hop["sent_logged"] & f.array_contains(straight, hop["from"])
        return f.col("guarantee") & (hop["kind"] == "loop") & known

    found = {
        "lost": f.filter("copies", lambda c: c["state"] == "lost"),
        "loops": f.filter("hops", came_back),
        # what its own log tells: the Hops of others may be wrong of it
        "deep": f.filter(
            "copies",
            lambda c: (f.col("depth") >= 0) & (c["level"] > f.col("depth")) & c["begun_us"].isNotNull(),
        ),
    }
    any_of = f.size("lost") + f.size("loops") + f.size("deep") > 0
    where = {"day": "day", "smuid": "smuid", "topic": "topic"}
    loop, deep = f.get("loops", f.lit(0)), f.get("deep", f.lit(0))
    looped = _row(
        f.when(f.size("loops") > 0, "looped"),
        **where,
        server=loop["to"],
        peer=loop["from"],
        time_us=loop["received_us"],
        detail=_counted(
            f.size("loops"),
            "copy came back to a server in its Hops",
            "copies came back to a server in their Hops",
        ),
    )
    over = _row(
        f.when(f.size("deep") > 0, "over depth"),
        **where,
        server=deep["server"],
        time_us=deep["begun_us"],
        detail=f.concat(
            _counted(deep["level"], "hop", "hops"),
            f.format_string(" from its origin, depth was %d", "depth"),
        ),
    )
    told = f.concat(f.transform("lost", _lost), f.array(f.struct(*looped), f.struct(*over)))
    return routes.withColumns(found).where(any_of).select(f.inline(told)).where(f.col("kind").isNotNull())


def _lost(copy: Column) -> Column:
    """A copy that is lost, with what proves it: see `brackets`."""
    hop = f.get(f.filter("hops", lambda h: (h["to"] == copy["server"]) & (h["kind"] == "accepted")), f.lit(0))
    when = f.date_format(f.timestamp_micros(hop["acked_us"]), "yyyy-MM-dd HH:mm:ss.SSS")
    told = f.format_string("acknowledged to %s, %s by its clock", hop["from"], when)
    claim = f.when(when.isNotNull(), told).otherwise("acknowledged to a peer")
    proof = "; of the records around it none is missing here, and none is of this message"
    row = _row(
        f.lit("lost"),
        day="day",
        server=copy["server"],
        peer=hop["from"],
        smuid="smuid",
        topic="topic",
        time_us=hop["received_us"],
        detail=f.concat(claim, f.lit(proof)),
    )
    return f.struct(*row)


def _degraded(link_hours: DataFrame) -> DataFrame:
    """Hours in which a link took three times its usual time, the lower quartile of its hours."""
    heard = link_hours.where(f.col("timed") >= DEGRADED_HOPS_MIN)
    usual = heard.groupBy("from", "to").agg(f.percentile_approx("delay_p50_us", 0.25).alias("usual_us"))
    slow = (f.col("delay_p50_us") > f.col("usual_us") * DEGRADED_FACTOR) & (
        f.col("delay_p50_us") > f.col("usual_us") + DEGRADED_US
    )
    found = heard.join(usual, ["from", "to"]).where(slow)
    return _rows(
        found,
        "degraded link",
        day=f.col("hour").cast("date"),
        server="from",
        peer="to",
        time_us=f.unix_micros("hour"),
        detail=f.format_string(
            "median delay %.1f ms in this hour, usually %.1f ms",
            f.col("delay_p50_us") / 1e3,
            f.col("usual_us") / 1e3,
        ),
    )
