"""Lines of hop logs, good and bad."""

import gzip
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from routing.hop_words import LINE_BYTES_MAX
from routing.hops import Closing, HopRecord
from routing.names import make_smuid, parse_smuid
from tests.support.traced import NOW_US

BASE = HopRecord(
    version=1,
    server="a.example",
    boot=1,
    record=1,
    time_us=1_763_719_200_500_000,
    event="published",
    smuid="a.example/019aa5d72900-1-1",
    topic="plant.state",
)


def line(**changes: Any) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(BASE) | changes) + b"\n"


@pytest.fixture
def checked(spark: Any, tmp_path: Path) -> Any:
    from routing.trace import ingest

    def check(content: bytes, name: str = "hops-a.example-1-1-9.jsonl") -> Any:
        (tmp_path / name).write_bytes(content)
        return ingest.checked(ingest.logs(spark, [str(tmp_path)]), NOW_US, ingest.FUTURE_MAX_BATCH_US)

    return check


def reasons(lines: Any) -> list[str | None]:
    return [row.problem for row in lines.select("problem").collect()]


def test_the_schema_is_the_record(spark: Any) -> None:
    from routing.trace.schema import RECORD

    assert set(RECORD.names) == {field.name for field in msgspec.structs.fields(HopRecord)}


def test_the_line_that_closes_a_file_is_no_line_of_the_log(checked: Any) -> None:
    closing = Closing(version=1, server="a.example", boot=1, first=1, last=1, records=1, crc32=0)
    lines = checked(line() + msgspec.json.encode(closing) + b"\n")
    assert reasons(lines) == [None]


def test_fields_left_out_have_their_defaults(checked: Any) -> None:
    from routing.trace import ingest

    row = ingest.records(checked(msgspec.json.encode(BASE) + b"\n")).first()
    assert row is not None
    assert (row.mode, row.guarantee, row.final, row.attempt, row.peer, row.due) == (
        "ALL",
        True,
        False,
        0,
        "",
        None,
    )
    assert row.birth_us == 0x019AA5D72900 * 1000
    assert str(row.day) == "2025-11-21"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\xff\xfe rubbish\n", "not a record"),
        (b'{"version": 1, "server": "a.exam', "not a record"),
        (b"[1, 2]\n", "not a record"),
        (b"{}\n", "missing field"),
        (line(time_us="late"), "not a record"),
        (line(record=None), "missing field"),
        (line(hops="a,b"), "not a record"),
        (line(version=99), "newer version"),
        (line(event="exploded"), "wrong value"),
        (line(smuid="no smuid"), "wrong value"),
        (line(server=""), "wrong value"),
        (line(topic="t" * 3000), "wrong value"),
        (line(hops=["b.example", "h" * 513]), "wrong value"),
        (line(destinations=["d" * 513]), "wrong value"),
        (line(event="received"), "wrong value"),
        (line(event="received", peer="a.example"), "wrong value"),
        (line(event="published", server="b.example"), "wrong value"),
        (line(record=2**63 - 1), "wrong value"),
        (line(event="heartbeat", held=2**63 - 1), "wrong value"),
        (line(expires_us=2**63 - 1), "wrong value"),
        (line(sent_us=-(2**63)), "wrong value"),
        (line(priority=-(2**31)), "wrong value"),
        (line(size=2**62), "wrong value"),
        (line(time_us=4_000_000_000_000_000), "time out of range"),
        (line(time_us=5), "time out of range"),
        (line(smuid="a.example/ffffffffffff-1-1"), "time out of range"),
        (line(reason="x" * LINE_BYTES_MAX), "line too long"),
    ],
)
def test_what_is_no_record_is_set_aside_and_harms_no_other(checked: Any, content: bytes, reason: str) -> None:
    found = reasons(
        checked(line() + (content if content.endswith(b"\n") else content + b"\n") + line(record=2))
    )
    assert found == [None, reason, None]


def test_as_many_hops_as_there_are_make_no_record_wrong(checked: Any) -> None:
    hops = ["b" * 512, *(f"{number}.example" for number in range(200))]
    assert reasons(checked(line(hops=hops, destinations=hops))) == [None]


def test_what_is_no_record_to_those_who_show_it_is_set_aside(checked: Any) -> None:
    wrong: list[dict[str, Any]] = [
        {"mode": "BOTH"},
        {"mode": ""},
        {"event": "forwarded", "peer": "b.example", "outcome": "lost"},
        {"due": -1},
        {"depth": -2},
        {"priority": -1},
        {"attempt": -1},
        {"crossing": -1},
        {"size": -1},
        {"boot": -1},
        {"sent_us": -1},
        {"peer_received_us": -1},
        {"peer_sent_us": -1},
        {"expires_us": -2},
        {"held": -1},
        {"previous": -1},
        {"hops": ["b.example", None]},
        {"hops": [None]},
        {"destinations": [None, "b.example"]},
    ]
    for changes in wrong:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(line(**changes), type=HopRecord)
    sound = line(depth=-1, expires_us=-1, due=None, outcome=None, mode=None, hops=None, destinations=[])
    lines = b"".join(line(record=number, **changes) for number, changes in enumerate(wrong, 2))
    assert reasons(checked(sound + lines)) == [None, *["wrong value"] * len(wrong)]


def test_what_a_router_takes_for_an_id_is_one(checked: Any) -> None:
    greatest = make_smuid("a.example", 0x019AA5D72900, 16**15 - 1, 16**15 - 1)
    assert parse_smuid(greatest).boot == 16**15 - 1
    assert reasons(checked(line(smuid=greatest))) == [None]


@pytest.mark.parametrize("changes", [{"smuid": ""}, {"smuid": None}])
def test_a_publication_that_was_refused_is_a_record_although_it_has_no_smuid(
    checked: Any, changes: dict[str, Any]
) -> None:
    assert reasons(checked(line(event="denied", reason="queue-full", **changes))) == [None]


def test_a_torn_last_line_is_set_aside(checked: Any) -> None:
    assert reasons(checked(line() + line(record=2)[:-20])) == [None, "not a record"]


@pytest.mark.parametrize("before", [b"", line()])
def test_of_a_gigantic_line_only_the_beginning_is_read(checked: Any, before: bytes) -> None:
    lines = checked(before + b"x" * (5 << 20) + b"\n" + line(record=2))
    assert reasons(lines) == [None] * bool(before) + ["line too long", None]
    assert lines.selectExpr("max(octet_length(value))").first()[0] <= 1 << 20


def test_compressed_logs_are_read_and_open_ones_are_not(checked: Any, tmp_path: Path) -> None:
    (tmp_path / "open-5.jsonl").write_bytes(line(record=5))
    assert reasons(checked(gzip.compress(line()), "hops-a.example-1-1-1.jsonl.gz")) == [None]


def test_records_of_other_servers_can_be_set_aside(spark: Any, tmp_path: Path) -> None:
    from routing.trace import ingest

    (tmp_path / "hops-x-1-1-2.jsonl").write_bytes(
        line() + line(server="else.example", smuid="else.example/019aa5d72900-1-1")
    )
    lines = ingest.checked(ingest.logs(spark, [str(tmp_path)]), NOW_US, 0, servers=["a.example"])
    aside = ingest.aside(lines).collect()
    assert [(row.reason, row.server) for row in aside] == [("other server", "else.example")]


def test_bytes_that_are_no_utf8_reach_no_table(checked: Any) -> None:
    from routing.trace import ingest

    lines = checked(line(topic="t?t").replace(b"t?t", b"t\xfft") + b"rub\xffbish\n")
    assert ingest.records(lines).selectExpr("is_valid_utf8(topic)").collect() == [(True,)]
    assert [row.line for row in ingest.aside(lines).collect()] == ["rub\ufffdbish"]


def test_a_compaction_reads_as_its_logs(spark: Any, tmp_path: Path) -> None:
    from routing.trace import compaction, ingest

    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "hops-a-1-1-2.jsonl").write_bytes(
        line(hops=["b.example"]) + line(record=2, smuid="a.example/019aa60e1780-1-2")
    )
    compaction.compact(spark, [str(tmp_path / "logs")], str(tmp_path / "parquet"))
    assert {name for name in os.listdir(tmp_path / "parquet") if "=" in name} == {
        "hour=2025-11-21-09",
        "hour=2025-11-21-10",
    }

    def read(where: str) -> list[Any]:
        lines = ingest.checked(ingest.logs(spark, [str(tmp_path / where)]), NOW_US, 0)
        return sorted(ingest.records(lines).collect(), key=lambda row: row.record)

    assert read("parquet") == read("logs")
    (tmp_path / "logs" / "hops-a-1-3-3.jsonl").write_bytes(line(record=3))
    (tmp_path / "logs" / "hops-a-1-1-2.jsonl").unlink()
    assert compaction.compact(spark, [str(tmp_path / "logs")], str(tmp_path / "parquet")) == 3
    assert compaction.compact(spark, [str(tmp_path / "logs")], str(tmp_path / "parquet")) == 3
