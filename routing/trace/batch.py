"""The batch: logs in, tables out, in the order in which the jobs need each other.

Everything that grows with the messages stays in DataFrames. The driver sees what grows with the sites: the
coverage, the fastest hops for each link and hour, and the sums of the summary.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as f

from routing.trace import (
    anomalies,
    balance,
    brackets,
    clocks,
    coverage,
    custody,
    ends,
    facts,
    files,
    homecoming,
    ingest,
    jumps,
    links,
    overdue,
    routes,
    schema,
    tables,
    vanished,
)
from routing.trace.session import broadcast, kept
from routing.trace.summaries import NAMED_MAX

REREAD_MAX = 1_000
"""Of more files with lines that are no records all logs are read again."""

OBSERVED_WITHIN_S: Final = 60.0
"""After a query has ended: what was observed in it is there at once, or has a queue to pass through."""

Progress = Callable[[str], None]


def run(
    session: SparkSession,
    logs: Sequence[str],
    out: str,
    *,
    day: date | None = None,
    servers: Sequence[str] = (),
    now_us: int | None = None,
    progress: Progress = lambda step: None,
) -> dict[str, Any]:
    """Read `logs`, write all tables below `out`, and return the summary, which holds only plain values.

    What earlier runs have read stays: the tables are those of all logs that were ever given for `out`, in
    whatever order they came. `day`: only of messages born on that UTC day. `servers`: others' records are set
    aside. `now_us`: what counts as the future, the wall clock if None.
    """
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    progress("reading the logs")
    taken = _ingest(session, logs, out, servers, now_us)
    claims = _claimed(session, logs, out)
    records = tables.read(session, out, "records").drop("day")
    progress("which logs are whole")
    words = kept(coverage.words(records), StorageLevel.DISK_ONLY)
    twice = coverage.numbered_twice(words, records)
    gaps = tables.written(coverage.gaps(words, claims, twice), out, "gaps")
    covered = kept(tables.written(coverage.coverage(records, words, gaps, twice), out, "coverage"))
    words.unpersist()
    logs_read = covered.select("server", "log", "records", "missing", "first_record").collect()
    incomplete = [row.server for row in logs_read if row.log in ("gaps", "absent")]
    shortened = [row.server for row in logs_read if (row.first_record or 0) > 1]
    everything = records
    if day is not None:
        midnight = f.unix_micros(f.lit(day.isoformat()).cast("timestamp"))
        born = f.col("birth_us")
        records = records.where((born >= midnight) & (born < midnight + schema.DAY_US))
    progress("pairing hops, copies and deliveries")
    crowded = routes.crowded(records, incomplete)
    paired = kept(facts.facts(records, incomplete, shortened=shortened), StorageLevel.DISK_ONLY)
    raw_hops = facts.hops(paired)
    progress("comparing clocks")
    made = {"coverage": covered, "records": everything}
    ordered = coverage.ordered(everything, twice)
    fitted = clocks.measured(raw_hops, ordered, now_us + ingest.FUTURE_MAX_BATCH_US)
    told = {name: Observation(name) for name in SUMS}
    segments = tables.written(clocks.segments_frame(session, fitted), out, "clocks", _telling(told, "clocks"))
    made["clocks"] = segments
    made["jumps"] = jumps.table(session, jumps.proven(jumps.claimed(fitted), ordered))
    progress("routes, hops, copies")
    copies = facts.copies(paired)
    lost = brackets.proven_lost(copies, records, gaps, twice)
    home = homecoming.stays(copies, records)
    nested = routes.routes(paired, segments, covered, crowded, proven=lost, home=home)
    made["routes"] = tables.written(nested, out, "routes")
    hops = clocks.corrected(raw_hops, segments)
    told_of = [name for name in hops.columns if name not in ("arrival", "outcome")]
    hops = hops.select(*told_of, links.kind_name().alias("kind"))
    made["hops"] = tables.written(_dated(hops), out, "hops")
    made["copies"] = tables.written(_dated(ends.states(copies, covered, lost, home)), out, "copies")
    tables.write(_dated(facts.deliveries(paired)), out, "deliveries")
    paired.unpersist()
    progress("links")
    gone = vanished.proven_vanished(made["hops"], everything, covered)
    made["link_hours"] = _write_links(made, out, gone, any_truncated=crowded is not None)
    progress("custody, receipts, balance, anomalies")
    _derive(made, out, told, gone)
    covered.unpersist()
    return _summary(logs_read, {name: _said(session, out, name, one) for name, one in told.items()}) | taken


def _ingest(
    session: SparkSession, logs: Sequence[str], out: str, servers: Sequence[str], now_us: int
) -> dict[str, Any]:
    """Add what the logs have to the table of records, and write that of lines set aside.

    Returns for the summary `added` (records), `earlier` (whether there were any before) and `aside`.
    """
    damaged = files.damaged(session, logs)
    lines = ingest.checked(ingest.logs(session, logs), now_us, ingest.FUTURE_MAX_BATCH_US, servers, damaged)
    read, added = Observation("lines"), Observation("added")
    bad = f.col("problem").isNotNull()
    counts = [f.count_if(f.col("problem") == reason).alias(reason) for reason in ingest.REASONS]
    in_files = f.collect_set(f.when(bad, f.col("file"))).alias("files")
    of_lines = (f.count("*").alias("lines"), in_files, *counts)
    sound, earlier = ingest.records(lines.observe(read, *of_lines)), _earlier(session, out)
    records = sound
    if earlier is not None:
        # What is observed in a stage that is done again for those after it counts twice: none follows here.
        sound.persist(StorageLevel.DISK_ONLY).write.format("noop").mode("overwrite").save()
        records = ingest.unseen(sound, earlier)
    tables.write(records.observe(added, f.count("*").alias("records")), out, "records", add=True)
    sound.unpersist()
    seen = observed(read) or lines.agg(*of_lines).collect()[0].asDict()
    found = {name: count for name, count in seen.items() if count}
    total, bad_files = found.pop("lines", 0), found.pop("files", [])
    if len(bad_files) <= REREAD_MAX:
        lines = lines.where(f.col("file").isin(bad_files))
    if found:
        named = _most_named(tables.written(ingest.aside(lines), out, "aside"))
    else:
        tables.write(tables.few(session, [], schema.ASIDE), out, "aside")
        named = {}
    return {
        "added": (observed(added) or {"records": _added(session, out, earlier)})["records"],
        "earlier": earlier is not None,
        "aside": {
            "lines": total,
            "reasons": found,
            "servers": named,
            "damaged": sorted(damaged)[:NAMED_MAX],
        },
    }


def _most_named(aside: DataFrame) -> dict[str, int]:
    """By server how many lines of `aside` name it, of those that most do."""
    counts = aside.where("server != ''").groupBy("server").count().orderBy(f.desc("count"))
    return {row["server"]: row["count"] for row in counts.limit(NAMED_MAX).collect()}


def observed(observation: Observation, within_s: float = OBSERVED_WITHIN_S) -> dict[str, Any] | None:
    """What was observed in a query that has ended; None where that does not come.

    Some versions of Spark send it over a queue, from which a driver that has too much to do drops some, and
    would have one wait for it for ever.
    """
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.append(observation.get), daemon=True)
    waiting.start()
    waiting.join(within_s)
    return found[0] if found else None


def _added(session: SparkSession, out: str, earlier: DataFrame | None) -> int:
    """How many records there are that `earlier`, which is of the files of that time, has not."""
    before = 0 if earlier is None else earlier.count()
    return tables.read(session, out, "records").count() - before


def _earlier(session: SparkSession, out: str) -> DataFrame | None:
    """The records that earlier runs have read; None before the first run."""
    try:
        return tables.read(session, out, "records")
    except tables.NoTable:
        return None


def _claimed(session: SparkSession, logs: Sequence[str], out: str) -> DataFrame:
    """The table of claims: what the names of these files claim is added to what those of earlier runs did."""
    claims = files.claimed(session, logs)
    with contextlib.suppress(tables.NoTable):
        # as many as servers, and the table is not replaced while it is read
        for row in tables.read(session, out, "claims").collect():
            files.claim(claims, row.spelled, row.first_claimed, row.last_claimed)
    return tables.written(files.claims_frame(session, claims), out, "claims")


def _dated(rows: DataFrame) -> DataFrame:
    born = routes.born_us()
    return rows.withColumns({"birth_us": born, "day": routes.day(born)})


def _write_links(
    made: Mapping[str, DataFrame], out: str, gone: DataFrame | None, *, any_truncated: bool
) -> DataFrame:
    """From the hops that the routes hold, and of those that do not hold all from the table of hops.

    `gone` as from `vanished.proven_vanished`. Returns the table of hours.
    """
    hops = routes.hop_rows(made["routes"].where("not truncated"))
    if any_truncated:
        crowded = made["routes"].where("truncated").select("smuid")
        others = made["hops"].withColumn("repeated", f.lit(True))
        others = others.join(broadcast(crowded), "smuid", "left_semi")
        hops = hops.unionByName(others.select(*hops.columns))
    hourly = links.links(hops, made["coverage"], gone, per_hour=True)
    tables.write(links.links(hops, made["coverage"], gone), out, "links")
    return tables.written(hourly.withColumn("day", f.col("hour").cast("date")), out, "link_hours")


def _derive(
    made: Mapping[str, DataFrame], out: str, told: Mapping[str, Observation], gone: DataFrame | None
) -> None:
    """The tables that are made of others; what the summary says of them is `told` as they are written."""
    found, covered = made["routes"], made["coverage"]
    copies = made["copies"].drop("day")

    tables.write(_telling(told, "balance")(balance.balance(copies)), out, "balance")
    held = balance.holdings(copies, covered, made["records"])
    written = {
        "custody": tables.written(custody.custody(found, gone), out, "custody"),
        "receipts": tables.written(custody.receipts(found, made["records"]), out, "receipts"),
        "holdings": tables.written(held, out, "holdings", _telling(told, "holdings")),
    }
    wrong = anomalies.anomalies(
        # reads all routes of all days, and nothing is joined to them
        _telling(told, "routes")(found),
        copies,
        written["custody"],
        written["receipts"],
        written["holdings"],
        covered,
        made["link_hours"],
        made["jumps"],
        overdue.proven_overdue(copies, made["records"]),
    )
    tables.write(_telling(told, "anomalies")(wrong.coalesce(1)), out, "anomalies")


def _telling(told: Mapping[str, Observation], name: str) -> Callable[[DataFrame], DataFrame]:
    """What the summary says of a table is `told` while it is written."""
    return lambda frame: frame.observe(told[name], *_sums(name))


def summarize(session: SparkSession, out: str) -> dict[str, Any]:
    """The sums of the tables below `out`; names at most `NAMED_MAX` of a kind."""
    logs_read = tables.read(session, out, "coverage").select("server", "log", "records", "missing").collect()
    return _summary(logs_read, {name: _said(session, out, name) for name in SUMS})


def _said(
    session: SparkSession, out: str, name: str, observation: Observation | None = None
) -> dict[str, Any]:
    """`SUMS` of a table, as they were observed when it was written, or from the table."""
    seen = observed(observation) if observation is not None else None
    return seen or tables.read(session, out, name).agg(*_sums(name)).collect()[0].asDict()


def _sums(name: str) -> list[Column]:
    return [column.alias(word) for word, column in SUMS[name]().items()]


def _summary(logs_read: Sequence[Row], told: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The summary of a run; of no copies the balance neither closes nor does not, and `closes` is None.

    `logs_read`: the rows of the coverage; `told`: what `SUMS` gave for each of its tables.
    """

    def names(log: str) -> list[str]:
        return sorted(row.server for row in logs_read if row.log == log)[:NAMED_MAX]

    def counts(name: str) -> dict[str, int]:
        return {word: count for word, count in sorted(told[name].items()) if count}

    sums = {name: count or 0 for name, count in told["balance"].items()}  # of no copies there are none
    messages = dict(told["routes"])
    days = sorted(map(str, messages.pop("days")))
    return {
        "days": days,
        "messages": messages,
        "logs": {
            "servers": len(logs_read),
            "records": sum(row.records for row in logs_read),
            "missing": sum(row.missing for row in logs_read),
            "absent": names("absent"),
            "gaps": names("gaps"),
            "no_heartbeat": names("no heartbeat"),
        },
        "balance": sums | {"closes": told["balance"]["closes"]},
        "holdings": counts("holdings"),
        "anomalies": counts("anomalies"),
        "clocks": told["clocks"],
    }


def _of_routes() -> dict[str, Column]:
    return {
        "total": f.count("*"),
        "complete": f.count_if(f.col("state") == "complete"),
        "partial": f.count_if(f.col("state") == "partial"),
        "truncated": f.count_if("truncated"),
        "days": f.collect_set("day"),
    }


def _of_balance() -> dict[str, Column]:
    summed = ("published", "received", "begin_missing", "finished", "held", "gone", "lost", "log_missing")
    sums = {name: f.sum(name) for name in (*summed, "unknown", "twice")}
    return sums | {"closes": f.bool_and("closes")}


def _of_clocks() -> dict[str, Column]:
    return {
        "known": f.size(f.collect_set("server")),
        "worst_offset_us": f.max(f.abs("offset_us")),
        "median_error_us": f.percentile_approx("error_us", 0.5),
    }


def _by_word(column: str, words: Sequence[str]) -> dict[str, Column]:
    return {word: f.count_if(f.col(column) == word) for word in words}


SUMS: Final[Mapping[str, Callable[[], dict[str, Column]]]] = {
    "routes": _of_routes,
    "balance": _of_balance,
    "holdings": lambda: _by_word("verdict", balance.VERDICTS),
    "anomalies": lambda: _by_word("kind", anomalies.KINDS),
    "clocks": _of_clocks,
}
"""What the summary says of each of these tables, in one row; it may be taken while the table is written."""
