"""The same aggregates as a stream."""

from pathlib import Path

from tests.support.traced import Traced


def test_windows_that_have_ended_are_exactly_right(whole: Traced, tmp_path: Path) -> None:
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


def test_a_second_run_takes_up_where_the_first_ended(whole: Traced, tmp_path: Path) -> None:
    from routing.trace import stream

    logs = tmp_path / "logs"
    logs.mkdir()
    files = sorted(whole.logs.glob("*/hops-*.jsonl"))
    for path in files:
        (logs / path.name).write_bytes(path.read_bytes())
    stream.run(whole.spark, str(logs), str(tmp_path), once=True, every_s=1)
    first = whole.spark.read.parquet(str(tmp_path / "stream" / "routes")).count()
    stream.run(whole.spark, str(logs), str(tmp_path), once=True, every_s=1)
    assert whole.spark.read.parquet(str(tmp_path / "stream" / "routes")).count() == first
