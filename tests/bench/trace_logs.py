"""CPU of reading and checking hop logs and of compacting them, beside DuckDB and Polars, and of a whole run.

    python -m tests.bench.trace_logs [--events 300000 1000000] [--engines spark duckdb polars] [--keep DIR]

From JSON lines: `read` parses and checks each line and counts what is sound; `compact` writes that as Parquet
by the hour of birth, sorted by Smuid; `run` is `trace run`, which only Spark does. Every engine runs in a
process of its own, each work three times: CPU is that of the last, and of the first beside it. DuckDB and
Polars check the same in one step, and keep no account of lines that are no records. Needs
`pip install 'smqpd[bench]'`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.trace import HEAP_BYTES, generated, partitions_for, repeated

RUNS: Final = 3

NOW_US: Final = 1_763_900_000_000_000

TYPES: Final = {"string": "VARCHAR", "int": "INTEGER", "bigint": "BIGINT", "boolean": "BOOLEAN"}

Works = dict[str, Callable[[], None]]


def spark_works(logs: str, out: str, size: int) -> tuple[Works, int | str]:
    from routing.trace import batch, compaction, files, ingest
    from routing.trace.session import open_session

    session = open_session(partitions=partitions_for(size), heap_bytes=HEAP_BYTES)
    jvm: Any = session.sparkContext._jvm

    def read() -> None:
        damaged = files.damaged(session, [logs])
        lines = ingest.checked(
            ingest.logs(session, [logs]), NOW_US, ingest.FUTURE_MAX_BATCH_US, damaged=damaged
        )
        ingest.records(lines).write.format("noop").mode("overwrite").save()

    def compact() -> None:
        shutil.rmtree(out, ignore_errors=True)
        compaction.compact(session, [logs], out)

    def run() -> None:
        shutil.rmtree(out, ignore_errors=True)
        batch.run(session, [logs], out, now_us=NOW_US)

    return {"read": read, "compact": compact, "run": run}, jvm.java.lang.ProcessHandle.current().pid()


def duckdb_works(logs: str, out: str, size: int) -> tuple[Works, int | str]:
    import duckdb

    from routing.trace import schema

    columns = ", ".join(
        f"{field.name}: '{TYPES.get(field.dataType.simpleString(), 'VARCHAR[]')}'" for field in schema.RECORD
    )
    sound = f"""
        select *, case when event in ('heartbeat') then time_us
            else ('0x' || substr(split_part(smuid, '/', -1), 1, 12))::bigint * 1000 end as birth_us
        from read_json('{logs}/*/hops-*.jsonl', format = 'newline_delimited', ignore_errors = true,
            columns = {{{columns}}})
        where server is not null and boot >= 0 and record >= 0 and version = 1
            and time_us between {schema.EARLIEST_US} and {NOW_US} and event in {schema.EVENTS}
            and (event = 'heartbeat' or regexp_full_match(smuid, '{schema.SMUID_PATTERN[1:-2]}'))
            and coalesce(attempt, 0) >= 0 and coalesce(size, 0) between 0 and {schema.SIZE_MAX}
            and length(server) <= 512 and coalesce(length(peer), 0) <= 512
            and coalesce(length(topic), 0) <= 512 and coalesce(length(subscription), 0) <= 512"""

    def read() -> None:
        # every column is asked for, as what follows does
        duckdb.sql(f"create or replace temp table counted as select count(distinct hash(r)) from ({sound}) r")

    def compact() -> None:
        shutil.rmtree(out, ignore_errors=True)
        duckdb.sql(f"""copy (
            select *, strftime(make_timestamp(birth_us), '%Y-%m-%d-%H') as hour from ({sound})
            order by hour, smuid, server, record
            ) to '{out}' (format parquet, compression zstd, partition_by (hour))""")

    return {"read": read, "compact": compact}, "self"


def polars_works(logs: str, out: str, size: int) -> tuple[Works, int | str]:
    import polars as pl

    from routing.trace import schema

    types: dict[str, Any] = {
        "string": pl.String,
        "int": pl.Int32,
        "bigint": pl.Int64,
        "boolean": pl.Boolean,
    }
    columns = {
        field.name: types.get(field.dataType.simpleString(), pl.List(pl.String)) for field in schema.RECORD
    }

    def sound() -> pl.LazyFrame:
        event, beat = pl.col("event"), pl.col("event") == "heartbeat"
        names = [
            pl.col(name).str.len_chars().fill_null(0) <= 512
            for name in ("server", "peer", "topic", "subscription")
        ]
        born = (
            pl.col("smuid").str.split("/").list.last().str.slice(0, 12).str.to_integer(base=16, strict=False)
        )
        return (
            pl.scan_ndjson(f"{logs}/*/hops-*.jsonl", schema=columns, ignore_errors=True)
            .filter(
                pl.col("server").is_not_null(),
                pl.col("boot") >= 0,
                pl.col("record") >= 0,
                pl.col("version") == 1,
                pl.col("time_us").is_between(schema.EARLIEST_US, NOW_US),
                event.is_in(list(schema.EVENTS)),
                beat | pl.col("smuid").str.contains(schema.SMUID_PATTERN),
                pl.col("attempt").fill_null(0) >= 0,
                pl.col("size").fill_null(0).is_between(0, schema.SIZE_MAX),
                *names,
            )
            .with_columns(birth_us=pl.when(beat).then("time_us").otherwise(born * 1000))
        )

    def read() -> None:
        sound().select(pl.struct(pl.all()).hash().n_unique()).collect(engine="streaming")

    def compact() -> None:
        shutil.rmtree(out, ignore_errors=True)
        hour = pl.from_epoch("birth_us", time_unit="us").dt.strftime("%Y-%m-%d-%H").alias("hour")
        found = (
            sound().with_columns(hour).sort("hour", "smuid", "server", "record").collect(engine="streaming")
        )
        found.write_parquet(out, compression="zstd", partition_by="hour")

    return {"read": read, "compact": compact}, "self"


ENGINES: Final[dict[str, Callable[[str, str, int], tuple[Works, int | str]]]] = {
    "spark": spark_works,
    "duckdb": duckdb_works,
    "polars": polars_works,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=[300_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--keep", type=Path, help="where logs are made and kept for the next run")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "LOGS", "OUT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        engine, logs, out = chosen.one
        size = sum(path.stat().st_size for path in Path(logs).rglob("hops-*.jsonl"))
        works, pid = ENGINES[engine](logs, out, size)
        print(json.dumps({name: repeated(work, RUNS, pid) for name, work in works.items()}))
        return
    with tempfile.TemporaryDirectory(prefix="smqpd-bench-") as scratch:
        for events in chosen.events:
            logs = (chosen.keep or Path(scratch)) / f"logs-{events}"
            if not logs.exists():
                generated(events, logs)
            count = sum(path.read_bytes().count(b"\n") for path in logs.rglob("hops-*.jsonl"))
            for engine in chosen.engines:
                command = [sys.executable, "-m", "tests.bench.trace_logs", "--one", engine, str(logs)]
                done = subprocess.run([*command, f"{scratch}/{engine}"], stdout=subprocess.PIPE, check=True)
                for work, found in json.loads(done.stdout).items():
                    last, first = (1e6 * found[name] / count for name in ("cpu_s", "first_cpu_s"))
                    print(
                        f"{time.strftime('%H:%M')} {count:>11,} events  {engine:7} {work:8}"
                        f" {last:6.2f} CPU-us/event, {first:6.2f} the first time, {found['time_s']} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
