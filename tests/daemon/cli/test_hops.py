"""`smqpd hops check`: what is missing in a hop log, and what is damaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from daemon.cli.hops import app
from daemon.hops.files import list_files
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings


@pytest.fixture
def hops(tmp_path: Path) -> Path:
    """Three closed files of two records each, of three boots."""
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    directory = tmp_path / "state" / "hops"
    ticks = iter(range(1_795_000_000_000_000, 1_795_000_100_000_000, 1_000_000))
    for boot in (1, 2, 3):
        log = HopLog.open(
            directory,
            server="alpha.example",
            boot=boot,
            committed_record=2 * boot - 2,
            settings=HopSettings(),
            now_us=lambda: next(ticks),
        )
        for _ in range(2):
            log.append("heartbeat", held=7)
        log.close()
    return directory


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Result]:
    def check(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["check", "--site", str(tmp_path), *arguments])

    return check


def test_a_whole_log(hops: Path, check: Callable[..., Result]) -> None:
    result = check()
    assert (result.exit_code, result.stdout) == (0, "Records 1 to 6 in 3 files: none is missing.\n")


def test_a_file_that_is_gone(hops: Path, check: Callable[..., Result]) -> None:
    list_files(hops)[1].path.unlink()
    result = check()
    assert (result.exit_code, result.stdout) == (
        1,
        "missing: 3 to 4, written after 2026-11-18 11:06:41.000000 and before 2026-11-18 11:06:48.000000\n"
        "Records 1 to 6 in 2 files: 2 are missing.\n",
    )


def test_a_flipped_bit(hops: Path, check: Callable[..., Result]) -> None:
    path = list_files(hops)[0].path
    path.write_bytes(path.read_bytes().replace(b'"held":7', b'"held":3', 1))
    result = check()
    assert (result.exit_code, result.stdout) == (
        1,
        "damaged: hops-alpha.example-1-1-2.jsonl: its checksum is wrong:"
        " it has been changed since it was closed\n"
        "Records 1 to 6 in 3 files: none is missing; something is damaged.\n",
    )
    found = json.loads(check("--json").stdout)
    assert [one["file"] for one in found["damage"]] == ["hops-alpha.example-1-1-2.jsonl"]
    assert (found["first"], found["last"], found["missing"]) == (1, 6, 0)


def test_an_empty_log(hops: Path, check: Callable[..., Result]) -> None:
    for file in list_files(hops):
        file.path.unlink()
    result = check()
    assert (result.exit_code, result.stdout) == (0, "The hop log is empty.\n")


def test_a_log_full_of_gaps_fills_no_terminal(hops: Path, check: Callable[..., Result]) -> None:
    record = (
        '{{"version":1,"server":"alpha.example","boot":9,"record":{0},"time_us":{0},"event":"heartbeat"}}\n'
    )
    lines = "".join(record.format(number) for number in range(8, 600, 2))
    (hops / "hops-alpha.example-9-8-598.jsonl").write_text(lines)
    result = check()
    assert result.exit_code == 1
    assert result.stdout.splitlines()[100:] == [
        "missing: and 196 times more, which --json has",
        "Records 1 to 598 in 4 files: 296 are missing.",
    ]
    assert len(json.loads(check("--json").stdout)["gaps"]) == 296
