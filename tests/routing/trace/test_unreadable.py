"""Logs of which there are none, or that cannot be read: what of them can be is, and the others are named."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from routing.trace.command import app
from routing.trace.command_line import spark as opened
from tests.routing.trace.test_files import BORN_US, close_two


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    from routing.trace import session

    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was started"))


def packed(path: Path, server: str) -> Path:
    """A whole log of one message, which a daemon of that name might have written, packed."""
    record = {
        "version": 1,
        "server": server,
        "boot": 1,
        "record": 1,
        "time_us": BORN_US,
        "event": "published",
        "smuid": f"{server}/{BORN_US // 1000:012x}-1-1",
        "topic": "t",
    }
    lines = "".join(json.dumps(record | {"record": number}) + "\n" for number in range(1, 200))
    path.write_bytes(gzip.compress(lines.encode()))
    return path


def test_files_that_cannot_be_read_to_their_end_are_named_and_all_others_are_read(
    run: Any, spark: Any, tmp_path: Path
) -> None:
    logs = tmp_path / "logs of [all]"
    close_two(logs)
    cut = packed(logs / "hops-cut-1-1-199.jsonl.gz", "cut")
    cut.write_bytes(cut.read_bytes()[:300])
    flipped = packed(logs / "hops-flipped-1-1-199.jsonl.gz", "flipped")
    data = bytearray(flipped.read_bytes())
    data[-6] ^= 1  # of the checksum
    flipped.write_bytes(data)
    packed(logs / "hops-whole-1-1-199.jsonl.gz", "whole")
    (logs / "hops-empty-1-1-3.jsonl.gz").write_bytes(b"")
    (logs / "part-0.parquet").write_bytes(b"PAR1 torn")
    (logs / "hops-directory-1-1-3.jsonl").mkdir()
    done = run("run", str(logs).replace("[", "?").replace("]", "?"), "--out", tmp_path / "tables", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [name.rpartition("/")[2] for name in found["aside"]["damaged"]] == [
        cut.name,
        flipped.name,
        "part-0.parquet",
    ]
    assert not found["earlier"]
    assert (found["logs"]["records"], found["balance"]["published"]) == (73 + 199, 73 + 1)
    assert set(found["aside"]["reasons"]) == {"damaged file"}

    done = run("compact", logs.parent / "logs*", "--out", tmp_path / "compacted")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        0,
        f"{73 + 199} records in {tmp_path / 'compacted'}",
    )
    assert [name.rpartition("/")[2] for name in done.stdout.splitlines()[0].split(", ")[1:]] == [
        cut.name,
        flipped.name,
        "part-0.parquet",
    ]


def test_an_error_of_java_is_one_sentence_that_names_the_file(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = packed(tmp_path / "hops-cut-1-1-199.jsonl.gz", "cut")
    cut.write_bytes(cut.read_bytes()[:300])
    with pytest.raises(typer.Exit) as ended, opened() as session:
        session.read.text(str(cut)).collect()
    assert ended.value.exit_code == 1
    name = f"file://{cut}"
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"smqpd: Spark could not do it: {name} cannot be read: Unexpected end of input stream"


@pytest.mark.parametrize("command", ["run", "compact"])
def test_where_there_is_no_log_is_an_error_before_spark_is_started(
    no_spark: None, tmp_path: Path, command: str
) -> None:
    logs = tmp_path / "logs"
    for name in (
        "open-a-1-1.jsonl",
        "hops-a-1-1-2.jsonl.tmp",
        "_temporary/hops-a-1-1-2.jsonl",
        ".hops-1.jsonl",
    ):
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_text("")
    for given in ([logs], [logs, tmp_path / "logs" / "open-a-1-1.jsonl"]):
        arguments = [str(path) for path in given]
        done = CliRunner().invoke(app, [command, *arguments, "--out", str(tmp_path / "tables")])
        said = f"smqpd: no closed logs below {', '.join(arguments)}\n"
        assert (done.exit_code, done.stderr) == (1, said)


def test_what_may_not_be_read_is_named_before_spark_is_started(
    no_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, *_ = close_two(tmp_path / "logs")
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(file) and allowed(path, mode))
    done = CliRunner().invoke(app, ["run", str(tmp_path / "logs"), "--out", str(tmp_path / "tables")])
    assert (done.exit_code, done.stderr) == (1, f"smqpd: {file} cannot be read: Permission denied\n")


def test_of_nothing_it_is_not_said_that_it_closes(run: Any, tmp_path: Path) -> None:
    noise, bare = tmp_path / "noise", tmp_path / "bare"
    noise.mkdir()
    bare.mkdir()
    (noise / "hops-a-1-1-9.jsonl").write_bytes(b"noise\n" * 9)
    given = (noise, bare, tmp_path / "b?re")
    done = run("run", *given, "--out", tmp_path / "tables", "--json")
    assert done.exit_code == 1
    told = done.stderr.splitlines()
    assert told[:2] == [f"smqpd: no closed logs below {path}" for path in given[1:]]
    assert told[-1] == f"smqpd: no record in the logs below {', '.join(map(str, given))}"
    found = json.loads(done.stdout)
    assert found["aside"]["reasons"] == {"not a record": 9}
    assert found["balance"].pop("closes") is None
    compacted = run("compact", noise, "--out", tmp_path / "compacted")
    said = f"smqpd: no record in the logs below {noise}"
    assert (compacted.exit_code, compacted.stderr.splitlines()[-1]) == (1, said)
    assert set(found["balance"].values()) == {0}
