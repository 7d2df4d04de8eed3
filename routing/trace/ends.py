"""What became of each copy: finished, held, lost, log missing or unknown.

The order of the rules is the order of the evidence. A copy is *lost* only where that is proven (see
`brackets`); times say only whether a record may be in a gap.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from routing.trace.schema import ENDS
from routing.trace.session import broadcast

MARGIN_US = 2_000_000
"""How far inside of a log a time must lie to be sure that its record would be in it."""


def came_home() -> Column:
    """A copy of mode ONE that was handed on, and handed back: it has begun a second time, rightly.

    It may be back before the acknowledgement of its leaving, which is what the record of that waits for. That
    it is back its Hops say as well, where the record of its first beginning is missing.
    """
    return f.coalesce(f.col("handed") & (_begun_twice() | f.col("came_back")), f.lit(False))


def open_again() -> Column:
    """Whether it came home after its last end, or before its only one, which was that of its leaving.

    What several records tell of that `homecoming` knows better.
    """
    after = f.col("begun_last_record") > f.col("ended_last_record")
    return came_home() & (after | (_only_left() & _begun_twice() & _unbroken()))


def left_once_or_twice() -> Column:
    """Whether its first beginning is missing, and one leaving: the first, and it is held, or the second."""
    return came_home() & _only_left() & ~_begun_twice() & ~open_again()


def _begun_twice() -> Column:
    return f.col("begun_record") != f.col("begun_last_record")


def _only_left() -> Column:
    only = f.col("ended_record") == f.col("ended_last_record")
    return only & (f.col("ended") == ENDS["forwarded"])


def _unbroken() -> Column:
    """Whether no record is missing between the first and the last beginning or end of a copy."""
    first = f.least("begun_record", "ended_record")
    last = f.greatest("begun_last_record", "ended_last_record")
    after_gaps = first >= f.col("complete_from")
    return f.coalesce(after_gaps | (last < f.col("first_missing")), f.lit(False))


def states(
    copies: DataFrame, coverage: DataFrame, proven: DataFrame | None = None, home: DataFrame | None = None
) -> DataFrame:
    """`copies` with `state`, `whole`, `settled`, `begun_again` (in two records), `unbroken`, `held_until_us`.

    held_until_us: the end of a held copy's log. settled: it is finished, and has not come with more depth
    since, so that as far as its log was read nothing more was to become of it.

    whole: no record of it can be missing, since its log has no gap from its beginning on. unbroken: none is
    missing between its beginnings and ends.

    finished: its final record is there, and it has not come home since. held: begun, not ended, and the log
    is whole since. gone: the same, of an unguaranteed copy, which may vanish with a restart. log missing: a
    record of it may be in a gap, in an absent log, or in one that is not closed yet. lost: it is among
    `proven` (`brackets.proven_lost`). unknown: none of these can be told.

    `home`: which of those that came home are here, as from `homecoming.stays`.
    """
    logs = broadcast(
        coverage.select(
            "server",
            "log",
            "complete_from",
            "first_missing",
            "first_us",
            "last_us",
            "first_gap_us",
            "last_gap_us",
        )
    )
    at = f.col("claimed_us")
    inside = at.between(f.col("first_us") + MARGIN_US, f.col("last_us") - MARGIN_US)
    off_gaps = (
        f.col("first_gap_us").isNull()
        | (at < f.col("first_gap_us") - MARGIN_US)
        | (at > f.col("last_gap_us") + MARGIN_US)
    )
    seen = f.coalesce(f.col("log"), f.lit("absent")) != "absent"
    is_lost = f.lit(False) if proven is None else f.coalesce("proven", f.lit(False))
    is_here = f.lit(None).cast("boolean") if home is None else f.col("is_here")
    state = (
        f.when(is_here.isNull() & left_once_or_twice(), "log missing")
        .when(f.col("ended").isNotNull() & ~f.coalesce(is_here, open_again()), "finished")
        .when(
            f.col("begun").isNotNull() & (f.col("begun_last_record") < f.col("complete_from")), "log missing"
        )
        .when(f.col("begun").isNotNull() & f.col("unguaranteed"), "gone")
        .when(f.col("begun").isNotNull(), "held")
        .when(is_lost, "lost")
        .when(~seen, "log missing")
        .when(
            f.coalesce(at, f.lit(0)) <= 0, f.when(f.col("log") == "gaps", "log missing").otherwise("unknown")
        )
        .when(~inside | ~off_gaps, "log missing")
        .otherwise("unknown")
    )
    widened_since = f.col("widened_record") > f.col("ended_last_record")
    settled = (state == "finished") & ~f.coalesce(widened_since, f.lit(False))
    first_is_there = ~f.col("came_back") | _begun_twice()
    whole = f.coalesce((f.col("begun_record") >= f.col("complete_from")) & first_is_there, f.lit(False))
    found = copies.join(logs, "server", "left")
    if proven is not None:
        # rows that tell of no copy have neither a beginning nor an end, and no server
        marked = broadcast(proven.withColumn("proven", f.lit(True)))
        found = found.join(marked, ["smuid", "server"], "left")
    if home is not None:
        found = found.join(broadcast(home), ["smuid", "server"], "left")
    return found.select(
        *copies.columns,
        state.alias("state"),
        whole.alias("whole"),
        settled.alias("settled"),
        f.coalesce(_begun_twice(), f.lit(False)).alias("begun_again"),
        _unbroken().alias("unbroken"),
        f.col("last_us").alias("held_until_us"),
    )
