"""The trace on a Spark cluster whose drivers are killed in the middle of a batch, and started again.

    python -m tests.trace_kills [--messages 300] [--kills 4] [--keep DIR]

A master and a worker run `smqpd-trace.py` as spark-submit starts it. `run` is killed with SIGKILL while it
writes one table after another, and run to its end; its tables have to be those of one run in one process.
`stream` gets the logs part by part and is killed in a batch of each; its rows have to be those of a stream
that was left alone, each once, and to say the same as the tables of `run`. Exits with 1 where they do not. It
takes some minutes.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.spark_cluster import Cluster, spark_cluster

LOOK_S: Final = 0.02
WRITTEN: Final = ("records", "routes", "custody")
"""Tables that `run` is killed while it writes."""

QUERIES: Final = ("routes", "links")
BATCH_S_MAX: Final = 1.0
"""A kill comes as much later than the beginning of a batch, at most."""


def parts_of(logs: Path, count: int) -> list[dict[str, bytes]]:
    """The logs in so many portions, in the order of their times, each with closed files of its own."""
    sites: dict[str, list[tuple[int, str, bytes]]] = defaultdict(list)
    for path in logs.rglob("hops-*.jsonl"):
        site, boot, first, _ = path.stem.rsplit("-", 3)
        lines = path.read_bytes().splitlines(keepends=True)
        sites[site] += [(int(first) + number, boot, line) for number, line in enumerate(lines)]
    parts: list[dict[str, bytes]] = [{} for _ in range(count)]
    for site, numbered in sites.items():
        numbered.sort()
        size = -(-len(numbered) // count)
        for place, part in enumerate(parts):
            chosen = numbered[place * size : (place + 1) * size]
            for boot, of_boot in groupby(chosen, key=itemgetter(1)):
                records = list(of_boot)
                name = f"{site}-{boot}-{records[0][0]}-{records[-1][0]}.jsonl"
                part[name] = b"".join(line for _, _, line in records)
    return parts


def lay(part: dict[str, bytes], directory: Path) -> None:
    """As closed logs appear: by a rename."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in part.items():
        fresh = directory / f"open-{name}"
        fresh.write_bytes(content)
        fresh.rename(directory / name)


@contextlib.contextmanager
def driver(cluster: Cluster, *arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A submitted job, which is killed at the end."""
    with (cluster.directory / "drivers.log").open("ab") as log:
        process = subprocess.Popen(
            cluster.submitting(*arguments),
            env=cluster.environment,
            cwd=cluster.directory,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def to_its_end(cluster: Cluster, *arguments: str | Path) -> None:
    with driver(cluster, *arguments) as process:
        if code := process.wait():
            raise SystemExit(f"{arguments[0]} ended with {code}: see {cluster.directory / 'drivers.log'}")


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Whether it happened before the process ended."""
    while not happened():
        if process.poll() is not None:
            return False
        time.sleep(LOOK_S)
    return True


def is_written(table: Path) -> bool:
    """Whether a job is writing it: of a table by days only the days that it makes are replaced."""
    names = os.listdir(table) if table.exists() else []
    return any(name.startswith(("_temporary", ".spark-staging")) for name in names)


def killed_runs(cluster: Cluster, logs: Path, out: Path) -> int:
    """`run`, killed as it writes each of the tables, and then to its end; returns how often it was killed."""
    kills = 0
    for name in WRITTEN:
        with driver(cluster, "run", logs, "--out", out) as process:
            was_writing = wait_for(partial(is_written, out / name), process)
        kills += was_writing
        tell(f"run {'was killed while it wrote' if was_writing else 'had ended before it wrote'} {name}")
    to_its_end(cluster, "run", logs, "--out", out)
    return kills


def batches(out: Path, query: str, what: str) -> set[int]:
    """The batches of a stream that have begun (`offsets`), or have ended (`commits`)."""
    directory = out / "stream" / "checkpoints" / query / what
    names = os.listdir(directory) if directory.exists() else []
    return {int(name) for name in names if name.isdigit()}


def killed_stream(cluster: Cluster, parts: list[dict[str, bytes]], logs: Path, out: Path) -> int:
    """`stream`, killed in a batch of all parts but the last; returns how often it was."""
    kills = 0
    for number, part in enumerate(parts[:-1]):
        query = QUERIES[number % len(QUERIES)]

        def at_rest() -> bool:
            begun = [batches(out, name, "offsets") for name in QUERIES]
            return all(begun) and begun == [batches(out, name, "commits") for name in QUERIES]

        with driver(cluster, "stream", logs, "--out", out, "--every", "1") as process:
            if number == 0:
                lay(part, logs)
            if number and not wait_for(at_rest, process):
                raise SystemExit(f"the stream ended by itself: see {cluster.directory / 'drivers.log'}")
            before = batches(out, query, "offsets")
            if number:
                lay(part, logs)

            def begun(query: str = query, before: set[int] = before) -> bool:
                return bool(batches(out, query, "offsets") - before)

            wait_for(begun, process)
            time.sleep(random.uniform(0.0, BATCH_S_MAX))
        open_ones = batches(out, query, "offsets") - batches(out, query, "commits")
        kills += bool(open_ones)
        tell(f"stream was killed in the batches {sorted(open_ones)} of {query}")
    lay(parts[-1], logs)
    to_its_end(cluster, "stream", logs, "--out", out, "--once")
    return kills


def tell(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, file=sys.stderr)


def rows_of(session: Any, path: Path) -> Counter[str]:
    """The rows of a table, in an order and a form in which they can be compared."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 3)
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, list):
            return sorted((plain(one) for one in value), key=str)
        return value

    frame = session.read.parquet(str(path))
    return Counter(
        json.dumps(plain(row.asDict(recursive=True)), default=str, sort_keys=True) for row in frame.collect()
    )


def differences(session: Any, killed: Path, alone: Path, names: tuple[str, ...]) -> Iterator[str]:
    """Rows of the tables below `killed` that those below `alone` have not, and the other way round."""
    for name in names:
        here, there = rows_of(session, killed / name), rows_of(session, alone / name)
        for what, rows in (("too much", here - there), ("missing", there - here)):
            if rows:
                yield f"{name}: {rows.total()} of {there.total()} rows {what}, as {next(iter(rows))[:300]}"


def contradictions(session: Any, out: Path) -> Iterator[str]:
    """Where a route of the stream and the one of the batch tell two things."""
    routes = {row.smuid: row for row in session.read.parquet(str(out / "routes")).collect()}
    streamed = session.read.parquet(str(out / "stream" / "routes")).collect()
    if not streamed:
        yield "the stream wrote no route"
    for row in streamed:
        route = routes[row.smuid]
        accepted = {(hop["from"], hop.to) for hop in row.hops if hop.kind == 1}
        if accepted != {(hop["from"], hop.to) for hop in route.hops if hop.kind == "accepted"}:
            yield f"the hops of {row.smuid}"
        if (row.topic, row.commits) != (route.topic, route.committed):
            yield f"what became of {row.smuid}"


def main() -> int:
    """Exit code 1 for a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4, help="of the stream")
    parser.add_argument("--keep", metavar="DIR", type=Path)
    chosen = parser.parse_args()

    from routing.trace import batch, stream, tables
    from routing.trace.session import open_session

    with contextlib.ExitStack() as stack:
        directory = chosen.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        whole, logs, out, alone = (directory / name for name in ("whole", "logs", "killed", "alone"))
        generate(Plan(sites=4, messages=chosen.messages, duration_s=3600, unguaranteed=0), whole)
        parts = parts_of(whole, chosen.kills + 1)
        with spark_cluster(directory, workers=1) as cluster:
            stream_kills = killed_stream(cluster, parts, logs, out)
            run_kills = killed_runs(cluster, logs, out)
        tell("the same, left alone")
        session = open_session("local[1]", small=True)
        stream.run(session, str(logs), str(alone), once=True, every_s=1)
        batch.run(session, [str(logs)], str(alone))
        wrong = [
            *differences(session, out, alone, (*tables.BY_DAY, *tables.WHOLE)),
            *differences(session, out, alone, tuple(f"stream/{name}" for name in QUERIES)),
            *contradictions(session, out),
        ]
        rows = sum(rows_of(session, out / "stream" / "routes").values())
        session.stop()
    print(
        json.dumps(
            {"run": run_kills, "stream": stream_kills, "routes of the stream": rows, "wrong": len(wrong)}
        )
    )
    print("\n".join(wrong))
    return bool(wrong) or not (run_kills and stream_kills)


if __name__ == "__main__":
    sys.exit(main())
