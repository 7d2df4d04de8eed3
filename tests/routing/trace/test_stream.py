"""The same aggregates as a stream."""

import gzip
from pathlib import Path
from typing import Any

from routing.trace.synthetic.plan import Plan
from routing.trace.synthetic.write import generate
from tests.support.traced import TracedLogs


def test_windows_that_have_ended_are_exactly_right(whole: TracedLogs, tmp_path: Path) -> None:
    from routing.trace import stream

    stream.run(whole.spark, str(whole.logs), str(tmp_path), once=True, every_s=1)
    rows = whole.spark.read.parquet(str(tmp_path / "stream" / "routes")).collect()
    assert len(rows) > 0.9 * len(whole.messages)
    assert len({row.smuid for row in rows}) == len(rows)
    for row in rows:
        message = whole.messages[row.smuid]
        edges = {(hop["from"], hop.to) for hop in row.hops if hop.kind == 1}
        assert edges == {(a, b) for a, b, _ in message["accepted"]}
        assert (row.topic, row.commits) == (message["topic"], message["committed"])
    links = whole.spark.read.parquet(str(tmp_path / "stream" / "links")).collect()
    ended = {row.window_start for row in rows}
    counted = sum(row.messages for row in links if row.window_start in ended)
    assert counted == sum(len(whole.messages[row.smuid]["accepted"]) for row in rows)


def test_a_second_run_takes_up_where_the_first_ended_and_a_file_that_is_cut_ends_none(
    spark: Any, tmp_path: Path
) -> None:
    from routing.trace import stream

    logs = tmp_path / "logs"
    generate(Plan(sites=3, messages=30), logs)
    (logs / "hops-cut-1-1-9.jsonl.gz").write_bytes(gzip.compress(b"no record\n" * 9_000)[:50])
    stream.run(spark, str(logs), str(tmp_path), once=True, every_s=1)
    first = spark.read.parquet(str(tmp_path / "stream" / "routes")).count()
    assert first
    stream.run(spark, str(logs), str(tmp_path), once=True, every_s=1)
    assert spark.read.parquet(str(tmp_path / "stream" / "routes")).count() == first
