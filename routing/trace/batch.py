"""The batch: logs in, tables out, in the order in which the jobs need each other.

Everything that grows with the messages stays in DataFrames. The driver sees what grows with the sites: the
coverage, the fastest hops for each link and hour, and the sums of the summary.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
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
    ingest,
    links,
    routes,
    schema,
    tables,
)

NAMED_MAX = 50
"""Names in one entry of the summary; the tables have them all."""

REREAD_MAX = 1_000
"""Of more files with lines that are no records all logs are read again."""

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
    records = tables.read(session, out, "records").drop("day")
    progress("which logs are whole")
    words = coverage.words(records).persist(StorageLevel.DISK_ONLY)
    tables.write(coverage.gaps(words, tables.read(session, out, "claims")), out, "gaps")
    tables.write(coverage.coverage(records, words, tables.read(session, out, "gaps")), out, "coverage")
    words.unpersist()
    covered = tables.read(session, out, "coverage").persist()
    incomplete = [row.server for row in covered.where(f.col("log").isin("gaps", "absent")).collect()]
    if day is not None:
        midnight = f.unix_micros(f.lit(day.isoformat()).cast("timestamp"))
        born = f.col("birth_us")
        records = records.where((born >= midnight) & (born < midnight + schema.DAY_US))
    progress("pairing hops, copies and deliveries")
    crowded = routes.crowded(records, incomplete)
    paired = facts.facts(records, incomplete).persist(StorageLevel.DISK_ONLY)
    raw_hops = facts.hops(paired)
    progress("comparing clocks")
    tables.write(clocks.segments_frame(session, clocks.measured(raw_hops)), out, "clocks")
    segments = tables.read(session, out, "clocks")
    progress("routes, hops, copies")
    copies = facts.copies(paired)
    lost = brackets.proven_lost(copies, records, tables.read(session, out, "gaps"))
    tables.write(routes.routes(paired, segments, covered, crowded, proven=lost), out, "routes")
    hops = clocks.corrected(raw_hops, segments).withColumn("kind", links.kind_name())
    _write_rows(hops.drop("arrival", "outcome"), out, "hops")
    _write_rows(ends.states(copies, covered, lost), out, "copies")
    _write_rows(facts.deliveries(paired), out, "deliveries")
    paired.unpersist()
    progress("links")
    _write_links(session, covered, out, any_truncated=crowded is not None)
    progress("custody, receipts, balance, anomalies")
    _derive(session, covered, out)
    summary = summarize(session, out) | taken
    covered.unpersist()
    return summary


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
    watched = lines.observe(read, f.count("*").alias("lines"), in_files, *counts)
    records, earlier = ingest.records(watched), _earlier(session, out)
    if earlier is not None:
        records = ingest.unseen(records, earlier)
    tables.write(records.observe(added, f.count("*").alias("records")), out, "records", add=True)
    _claim(session, logs, out)
    found = {name: count for name, count in read.get.items() if count}
    total, bad_files = found.pop("lines", 0), found.pop("files", [])
    if len(bad_files) <= REREAD_MAX:
        lines = lines.where(f.col("file").isin(bad_files))
    aside = ingest.aside(lines) if found else session.createDataFrame([], schema.ASIDE)
    tables.write(aside, out, "aside")
    servers_aside = (
        tables.read(session, out, "aside")
        .where("server != ''")
        .groupBy("server")
        .count()
        .orderBy(f.desc("count"))
    )
    named = {row["server"]: row["count"] for row in servers_aside.limit(NAMED_MAX).collect()} if found else {}
    return {
        "added": added.get["records"],
        "earlier": earlier is not None,
        "aside": {
            "lines": total,
            "reasons": found,
            "servers": named,
            "damaged": sorted(damaged)[:NAMED_MAX],
        },
    }


def _earlier(session: SparkSession, out: str) -> DataFrame | None:
    """The records that earlier runs have read; None before the first run."""
    try:
        return tables.read(session, out, "records")
    except tables.NoTable:
        return None


def _claim(session: SparkSession, logs: Sequence[str], out: str) -> None:
    """Add what the names of these files claim to what those of earlier runs did."""
    claims = files.claims(session, logs)
    with contextlib.suppress(tables.NoTable):
        claims = files.widest(claims.unionByName(tables.read(session, out, "claims")))
    # as many as servers, and the table is not replaced while it is read
    tables.write(session.createDataFrame(claims.collect(), claims.schema), out, "claims")


def _write_rows(rows: DataFrame, out: str, name: str) -> None:
    tables.write(rows.withColumn("birth_us", routes.born_us()).withColumn("day", routes.day()), out, name)


def _write_links(session: SparkSession, covered: DataFrame, out: str, *, any_truncated: bool) -> None:
    """From the hops that the routes hold, and of those that do not hold all from the table of hops."""
    made = tables.read(session, out, "routes")
    hops = routes.hop_rows(made.where("not truncated"))
    if any_truncated:
        crowded = made.where("truncated").select("smuid")
        others = tables.read(session, out, "hops").withColumn("repeated", f.lit(True))
        others = others.join(f.broadcast(crowded), "smuid", "left_semi")
        hops = hops.unionByName(others.select(*hops.columns))
    tables.write(links.links(hops, covered), out, "links")
    hourly = links.links(hops, covered, per_hour=True)
    tables.write(hourly.withColumn("day", f.col("hour").cast("date")), out, "link_hours")


def _derive(session: SparkSession, covered: DataFrame, out: str) -> None:
    """The tables that are made of others."""

    def table(name: str) -> DataFrame:
        return tables.read(session, out, name)

    tables.write(custody.custody(table("routes")), out, "custody")
    tables.write(custody.receipts(table("routes")), out, "receipts")
    tables.write(balance.balance(table("copies").drop("day")), out, "balance")
    tables.write(balance.holdings(table("copies"), covered), out, "holdings")
    found = anomalies.anomalies(
        table("routes"),
        table("copies").drop("day"),
        table("custody"),
        table("receipts"),
        table("holdings"),
        covered,
        table("link_hours"),
        table("clocks"),
    )
    tables.write(found.coalesce(1), out, "anomalies")


def summarize(session: SparkSession, out: str) -> dict[str, Any]:
    """The sums of the tables below `out`; names at most `NAMED_MAX` of a kind."""

    def table(name: str) -> DataFrame:
        return tables.read(session, out, name)

    def one_row(frame: DataFrame) -> dict[str, Any]:
        row = frame.first()
        return row.asDict() if row else {}

    def names(frame: DataFrame) -> list[str]:
        return [row[0] for row in frame.orderBy("server").limit(NAMED_MAX).collect()]

    covered = table("coverage")
    sums = (
        "published",
        "received",
        "begin_missing",
        "finished",
        "held",
        "gone",
        "lost",
        "log_missing",
        "unknown",
        "twice",
    )
    return {
        "days": [str(row.day) for row in table("routes").select("day").distinct().orderBy("day").collect()],
        "messages": one_row(
            table("routes").agg(
                f.count("*").alias("total"),
                f.count_if(f.col("state") == "complete").alias("complete"),
                f.count_if(f.col("state") == "partial").alias("partial"),
                f.count_if("truncated").alias("truncated"),
            )
        ),
        "logs": one_row(
            covered.agg(
                f.count("*").alias("servers"),
                f.sum("records").alias("records"),
                f.sum("missing").alias("missing"),
            )
        )
        | {
            "absent": names(covered.where("log = 'absent'").select("server")),
            "gaps": names(covered.where("log = 'gaps'").select("server")),
            "no_heartbeat": names(covered.where("log = 'no heartbeat'").select("server")),
        },
        "balance": one_row(table("balance").agg(*(f.sum(name).alias(name) for name in sums)))
        | {"closes": table("balance").where("not closes").isEmpty()},
        "holdings": {row[0]: row[1] for row in table("holdings").groupBy("verdict").count().collect()},
        "anomalies": {
            row[0]: row[1] for row in table("anomalies").groupBy("kind").count().orderBy("kind").collect()
        },
        "clocks": one_row(
            table("clocks").agg(
                f.count_distinct("server").alias("known"),
                f.max(f.abs("offset_us")).alias("worst_offset_us"),
                f.percentile_approx("error_us", 0.5).alias("median_error_us"),
            )
        ),
    }
