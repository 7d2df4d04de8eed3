"""CPU, shuffle and memory of routes and links, beside DuckDB and Polars doing the same work in the same run.

    python -m tests.bench.trace [--events 1000000 ...] [--engines spark duckdb polars] [--keep DIR]
    python -m tests.bench.trace --hops 1000000          one message with a million hops

The work: from compacted Parquet, pair the records of each hop, copy and delivery, write one row for each
message with its hops and servers nested, and one for each link. Every engine runs in a process of its own,
over five million events at least: CPU for each event is that of the last run, since a JVM goes on compiling
for a minute, and first_cpu_s that of the first. Shuffle bytes are those that Spark's status store counts, and
its heap is what a machine of 8 GB gives. CPU seconds are of the whole process; compare those and not the
time, on a machine that has other work. The comparison needs `pip install 'smqpd[bench]'`.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.daemon import cpu_s
from tests.support.crowded import HUGE, SMALL, crowded_records, nested_sizes

EVENTS_PER_MESSAGE = 40
"""What one message of the synthetic federation of 50 sites amounts to."""

EVENTS_AT_LEAST = 5_000_000

GENERATED_MAX = 10_000_000
"""Larger logs are copies of so many events under other Smuids, which is quicker than to generate them."""

BYTES_A_LINE = 280

HEAP_BYTES = 4 << 30
"""What `open_session` takes on a machine of 8 GB."""

HOP_EVENTS = "('received', 'depth', 'duplicate', 'loop', 'denied')"


def peak_mb(pid: int | str = "self") -> int:
    """The most memory that this process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def partitions_for(input_bytes: int) -> int:
    """Shuffle partitions for logs of this size: four a core, and about one for each 128 MB beyond."""
    from routing.trace.session import SHUFFLE_PARTITIONS_MIN

    return max(SHUFFLE_PARTITIONS_MIN, 4 * (os.cpu_count() or 1), input_bytes // (128 << 20))


def runs_for(events: int) -> int:
    """So many that a JVM has compiled what it compiles."""
    return -(-EVENTS_AT_LEAST // events)


def spark_engine(records: str, out: str) -> dict[str, Any]:
    from routing.trace import clocks, coverage, facts, links, routes
    from routing.trace.session import open_session

    size = sum(path.stat().st_size for path in Path(records).rglob("*.parquet"))
    session = open_session(partitions=partitions_for(size * 12), heap_bytes=HEAP_BYTES)
    jvm: Any = session.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()

    read = session.read.parquet(records)
    events = read.count()
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()

    unknown = clocks.segments_frame(session, [])

    def work() -> None:
        crowded = routes.crowded(read)
        found = routes.routes(facts.facts(read), unknown, covered, crowded)
        found.write.mode("overwrite").parquet(f"{out}/routes")
        hops = routes.hop_rows(session.read.parquet(f"{out}/routes"))
        links.links(hops, covered).write.mode("overwrite").parquet(f"{out}/links")

    def shuffled() -> int:
        store = session.sparkContext._jsc.sc().statusStore()
        return int(store.executorList(False).apply(0).totalShuffleWrite())

    before = shuffled()
    found = repeated(work, runs_for(events), pid)
    share = (shuffled() - before) / found["runs"]
    return found | {"shuffle_mb": round(share / 1e6, 1), "peak_mb": peak_mb(pid)}


def duckdb_engine(records: str, out: str) -> dict[str, Any]:
    import duckdb

    Path(out).mkdir(parents=True, exist_ok=True)
    counting = duckdb.execute(f"select count(*) from read_parquet('{records}/**/*.parquet')")
    [(events,)] = counting.fetchall()

    def work() -> None:
        database = duckdb.connect()
        database.sql(f"create view r as select * from read_parquet('{records}/**/*.parquet')")
        database.sql(f"""
            create temp table hop as
            select smuid, case when event = 'forwarded' then server else peer end as a,
                case when event = 'forwarded' then peer else server end as b, attempt,
                min(time_us) filter (event = 'received') as received_us,
                min(sent_us) filter (event = 'forwarded' and outcome = 'accepted') as sent_us,
                min(time_us) filter (event = 'forwarded' and outcome = 'accepted') as acked_us,
                min(case event when 'received' then 1 when 'depth' then 2 when 'duplicate' then 3
                    when 'loop' then 4 when 'denied' then 5 end) as arrival,
                min(case when event = 'forwarded' then case outcome when 'accepted' then 1 when 'depth' then 2
                    when 'duplicate' then 3 when 'loop' then 4 when 'denied' then 5 end end) as outcome,
                min(len(hops)) filter (event = 'received') as level, max(size) as bytes
            from r where event = 'forwarded' or event in {HOP_EVENTS} group by all""")
        database.sql("""
            create temp table copy as
            select smuid, server, any_value(topic) as topic,
                min(time_us) filter (event in ('published', 'received')) as begun_us,
                min(record) filter (event in ('published', 'received')) as begun_record,
                min(time_us) filter (final) as ended_us, min(record) filter (final) as ended_record,
                max(event) filter (final) as ended, max(due) as due, max(receipt) as receipt
            from r where event in ('published', 'received', 'depth', 'receipt') or final
            group by smuid, server""")
        database.sql("""
            create temp table delivery as
            select smuid, server, subscription, min(time_us) filter (event = 'committed') as committed_us
            from r where event in ('delivered', 'committed', 'returned') group by all""")
        database.sql(f"""copy (
            select smuid, hops, copies, delivered, committed
            from (select smuid, list(hop) as hops from hop group by smuid)
            full join (select smuid, list(copy) as copies from copy group by smuid) using (smuid)
            full join (select smuid, count(*) as delivered, count(committed_us) as committed
                from delivery group by smuid) using (smuid)
            ) to '{out}/routes.parquet' (compression zstd)""")
        database.sql(f"""copy (
            select a, b, count(*) filter (arrival = 1) as messages, sum(bytes) filter (arrival = 1) as bytes,
                count(*) filter (arrival = 3) as duplicates, sum(tries) as attempts,
                approx_quantile(delay, [0.5, 0.9, 0.99]) as delays
            from (select smuid, a, b, min(arrival) as arrival, max(attempt) as tries, max(bytes) as bytes,
                min(received_us - sent_us) as delay from hop group by smuid, a, b)
            group by a, b) to '{out}/links.parquet' (compression zstd)""")
        database.close()

    return repeated(work, runs_for(events)) | {"peak_mb": peak_mb()}


def polars_engine(records: str, out: str) -> dict[str, Any]:
    import polars as pl

    Path(out).mkdir(parents=True, exist_ok=True)
    events = pl.scan_parquet(f"{records}/**/*.parquet").select(pl.len()).collect().item()
    codes = {"accepted": 1, "received": 1, "depth": 2, "duplicate": 3, "loop": 4, "denied": 5}

    def work() -> None:
        event, sent = pl.col("event"), pl.col("event") == "forwarded"
        begins, time_us = event.is_in(["published", "received"]), pl.col("time_us")
        read = pl.scan_parquet(f"{records}/**/*.parquet")
        first = sent & (pl.col("outcome") == "accepted")

        def code(column: pl.Expr) -> pl.Expr:
            return column.replace_strict(codes, default=None, return_dtype=pl.Int8)

        hop = (
            read.filter(sent | event.is_in(["received", "depth", "duplicate", "loop", "denied"]))
            .group_by(
                "smuid",
                pl.when(sent).then("server").otherwise("peer").alias("a"),
                pl.when(sent).then("peer").otherwise("server").alias("b"),
                "attempt",
            )
            .agg(
                time_us.filter(event == "received").min().alias("received_us"),
                pl.col("sent_us").filter(first).min(),
                time_us.filter(first).min().alias("acked_us"),
                code(event).min().alias("arrival"),
                code(pl.col("outcome").filter(sent)).min().alias("outcome"),
                pl.col("hops").list.len().filter(event == "received").min().alias("level"),
                pl.col("size").max().alias("bytes"),
            )
            .collect(engine="streaming")
        )
        copy = (
            read.filter(event.is_in(["published", "received", "depth", "receipt"]) | pl.col("final"))
            .group_by("smuid", "server")
            .agg(
                pl.col("topic").first(),
                time_us.filter(begins).min().alias("begun_us"),
                pl.col("record").filter(begins).min().alias("begun_record"),
                time_us.filter("final").min().alias("ended_us"),
                pl.col("record").filter("final").min().alias("ended_record"),
                event.filter("final").max().alias("ended"),
                pl.col("due").max(),
                pl.col("receipt").max(),
            )
            .collect(engine="streaming")
        )
        delivery = (
            read.filter(event.is_in(["delivered", "committed", "returned"]))
            .group_by("smuid", "server", "subscription")
            .agg(time_us.filter(event == "committed").min().alias("committed_us"))
            .group_by("smuid")
            .agg(pl.len().alias("delivered"), pl.col("committed_us").count().alias("committed"))
        )
        hops = hop.lazy().group_by("smuid").agg(pl.struct(pl.exclude("smuid")).alias("hops"))
        copies = copy.lazy().group_by("smuid").agg(pl.struct(pl.exclude("smuid")).alias("copies"))
        routes = hops.join(copies, "smuid", "full", coalesce=True).join(
            delivery, "smuid", "full", coalesce=True
        )
        routes.collect(engine="streaming").write_parquet(f"{out}/routes.parquet")
        delay = pl.col("received_us") - pl.col("sent_us")
        arrived = pl.col("arrival")
        (
            hop.lazy()
            .group_by("smuid", "a", "b")
            .agg(arrived.min(), pl.col("attempt").max(), pl.col("bytes").max(), delay.min().alias("delay"))
            .group_by("a", "b")
            .agg(
                (arrived == 1).sum().alias("messages"),
                pl.col("bytes").filter(arrived == 1).sum(),
                (arrived == 3).sum().alias("duplicates"),
                pl.col("attempt").sum().alias("attempts"),
                *(pl.col("delay").quantile(part).alias(f"p{part}") for part in (0.5, 0.9, 0.99)),
            )
            .collect(engine="streaming")
            .write_parquet(f"{out}/links.parquet")
        )

    return repeated(work, runs_for(events)) | {"peak_mb": peak_mb()}


ENGINES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "spark": spark_engine,
    "duckdb": duckdb_engine,
    "polars": polars_engine,
}


def repeated(work: Callable[[], None], runs: int, pid: int | str = "self") -> dict[str, Any]:
    """CPU and time of the first and the last run; with a JVM in `pid`, its CPU and this process's."""

    def used() -> float:
        mine = resource.getrusage(resource.RUSAGE_SELF)
        return mine.ru_utime + mine.ru_stime + (cpu_s(int(pid)) if pid != "self" else 0)

    found = []
    for _ in range(runs):
        began, cpu = time.perf_counter(), used()
        work()
        found.append((round(used() - cpu, 2), round(time.perf_counter() - began, 2)))
    first, last = found[0], found[-1]
    return {"runs": runs, "first_cpu_s": first[0], "cpu_s": last[0], "time_s": last[1]}


def crowded(hops: int) -> dict[str, Any]:
    """Routes of one message with so many hops, and of a small one."""
    from routing.trace.routes import NESTED_HOPS_MAX
    from routing.trace.session import open_session

    session = open_session(heap_bytes=HEAP_BYTES)
    jvm: Any = session.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    began, cpu = time.perf_counter(), cpu_s(pid)
    sizes = nested_sizes(crowded_records(session, hops), NESTED_HOPS_MAX)
    kept, truncated = sizes[HUGE]
    return {
        "kept": kept,
        "truncated": truncated,
        "beside_it": sizes[SMALL],
        "cpu_s": round(cpu_s(pid) - cpu, 1),
        "time_s": round(time.perf_counter() - began, 1),
        "peak_mb": peak_mb(pid),
    }


def prepare(events: int, directory: Path) -> tuple[str, int]:
    """Synthetic logs of this size as compacted records; made once and kept."""
    from pyspark.sql import functions as f

    from routing.trace import compaction
    from routing.trace.session import open_session

    records, base = directory / f"records-{events}", min(events, GENERATED_MAX)
    logs = directory / f"logs-{base}"
    session = open_session(heap_bytes=HEAP_BYTES, partitions=partitions_for(events * BYTES_A_LINE))
    if not (directory / f"records-{base}").exists():
        generated(base, logs)
        compaction.compact(session, [str(logs)], str(directory / f"records-{base}"))
        shutil.rmtree(logs)
    if not records.exists():
        for copy in range(-(-events // base)):
            made = session.read.parquet(str(directory / f"records-{base}"))
            other = f.regexp_replace("smuid", "-([0-9a-f]+)-", f"-$1{copy:x}-")
            made.withColumn("smuid", other).write.mode("append").partitionBy("hour").parquet(str(records))
    count = session.read.parquet(str(records)).count()
    session.stop()
    return str(records), count


def generated(events: int, logs: Path) -> None:
    """Synthetic logs of about so many events."""
    from routing.trace.synthetic.plan import Plan
    from routing.trace.synthetic.write import generate

    messages = events // EVENTS_PER_MESSAGE
    plan = Plan(sites=50, messages=messages, absent=3, unguaranteed=0, duration_s=86_400)
    generate(plan, logs, truth=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--keep", type=Path, help="where logs are made and kept for the next run")
    parser.add_argument("--hops", type=int, help="of one message, instead of the comparison")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "RECORDS", "OUT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        engine, records, out = chosen.one
        print(json.dumps(ENGINES[engine](records, out)))
        return
    if chosen.hops:
        print(f"{chosen.hops:,} hops  " + "  ".join(f"{k} {v}" for k, v in crowded(chosen.hops).items()))
        return
    with tempfile.TemporaryDirectory(prefix="smqpd-bench-") as scratch:
        for events in chosen.events:
            records, count = prepare(events, chosen.keep or Path(scratch))
            for engine in chosen.engines:
                command = [sys.executable, "-m", "tests.bench.trace", "--one", engine, records]
                done = subprocess.run([*command, f"{scratch}/{engine}"], stdout=subprocess.PIPE, check=True)
                found = json.loads(done.stdout)
                per_event = 1e6 * found["cpu_s"] / count
                figures = "  ".join(f"{name} {value}" for name, value in found.items())
                print(f"{count:>11,} events  {engine:7} {per_event:5.2f} CPU-us/event  {figures}", flush=True)


if __name__ == "__main__":
    main()
