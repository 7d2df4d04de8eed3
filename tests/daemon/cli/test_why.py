import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from daemon.cli.why import why
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from daemon.site.lock import state_lock
from daemon.terminal.failure import Failure

BORN_US = 1_795_000_000_000_000
SMUID = f"alpha.example/{BORN_US // 1000:012x}-1-1"


@pytest.fixture
def log(tmp_path: Path) -> HopLog:
    """The log of a site whose clock moves by 1 ms with each record."""
    (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "alpha.example"\n')
    ticks = iter(range(BORN_US, BORN_US + 10**9, 1_000))
    return HopLog.open(
        tmp_path / "state" / "hops",
        server="alpha.example",
        boot=1,
        committed_record=0,
        settings=HopSettings(file_s=3_600),
        now_us=lambda: next(ticks),
    )


@pytest.fixture
def now_us(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock of this machine, which is that of the site to begin with."""

    def set_clock(us: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: us * 1_000)

    set_clock(BORN_US)
    return set_clock


@pytest.fixture
def ask_once_down(log: HopLog, tmp_path: Path, now_us: Callable[[int], None]) -> Callable[..., Result]:
    """Asks about a site whose daemon was killed."""
    app = typer.Typer()
    app.command()(why)

    def ask(*arguments: str) -> Result:
        log.flush()
        return CliRunner().invoke(app, ["--site", str(tmp_path), *arguments], env={"COLUMNS": "200"})

    return ask


@pytest.fixture
def ask(ask_once_down: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Asks about a site that runs."""

    def ask(*arguments: str) -> Result:
        with state_lock(tmp_path / "state"):
            return ask_once_down(*arguments)

    return ask


def test_the_fate_of_a_message_is_a_table_and_a_verdict(log: HopLog, ask: Callable[..., Result]) -> None:
    log.append("published", smuid=SMUID, topic="news", account="ada:desk@alpha.example", size=5, priority=3)
    log.append("delivered", smuid=SMUID, topic="news", subscription="bob:desk@alpha.example", attempt=1)
    log.append("published", smuid=SMUID + "2", topic="other")
    log.append("committed", smuid=SMUID, topic="news", subscription="bob:desk@alpha.example", final=True)
    result = ask(SMUID)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == [SMUID, "at", "alpha.example,", "topic", "news,", "2026-11-18", "(UTC)"]
    assert [line[1:] for line in lines[2:5]] == [
        ["published", "ada:desk@alpha.example", "5", "bytes;", "priority", "3;", "mode", "ALL"],
        ["1", "ms", "delivered", "bob:desk@alpha.example"],
        ["3", "ms", "committed", "bob:desk@alpha.example"],
    ]
    assert result.stdout.splitlines()[-1] == (
        "Published by ada:desk@alpha.example. Finished 3 ms later: committed by bob:desk@alpha.example."
    )


def test_json_has_the_verdict_and_every_record(log: HopLog, ask: Callable[..., Result]) -> None:
    log.append("published", smuid=SMUID, topic="news", account="ada:desk@alpha.example")
    report = json.loads(ask(SMUID, "--json").stdout)
    assert (report["state"], report["covered"]) == ("waiting", True)
    assert report["verdict"].endswith("nobody is known to have it yet.")
    assert [record["event"] for record in report["records"]] == ["published"]


def test_what_others_wrote_cannot_act_on_the_terminal(log: HopLog, ask: Callable[..., Result]) -> None:
    log.append("published", smuid=SMUID, topic="\x1b[2J[red]\u202e", account="ada\x07")
    log.append("dead", smuid=SMUID, topic="\x1b[2J", reason="\x1b]0;owned\x07", final=True)
    out = ask(SMUID).stdout
    assert not set(out) & {"\x1b", "\x07", "\u202e"}
    assert "\\x1b[2J[red]\\u202e" in out


def test_a_log_that_is_damaged_is_read_around_and_said_to_be(
    log: HopLog, ask: Callable[..., Result], tmp_path: Path
) -> None:
    log.append("published", smuid=SMUID, topic="news")
    log.flush()
    with (tmp_path / "state/hops/open-1.jsonl").open("ab") as file:
        file.write(f'{{"smuid":"{SMUID}"}}\n{{"versi'.encode())
    result = ask(SMUID)
    assert result.exit_code == 0
    assert "Part of the log could not be read (1 torn, 1 bad)." in result.stdout


def test_an_unknown_message_that_the_log_covers_was_never_here(
    log: HopLog, ask: Callable[..., Result]
) -> None:
    log.append("heartbeat")
    for number in range(10):
        log.append("published", smuid=f"{SMUID}{number}", topic="news")
    born_later = f"alpha.example/{BORN_US // 1000 + 5:012x}-1-ffff"
    result = ask(born_later)
    assert result.exit_code == 1
    assert result.stdout.startswith("No record of it, though the log covers its birth, 2026-11-18 ")


def test_an_unknown_message_from_before_the_log_may_have_been_here(
    log: HopLog, ask: Callable[..., Result]
) -> None:
    log.append("heartbeat")
    result = ask(f"alpha.example/{BORN_US // 1000 - 86_400_000:012x}-1-1")
    assert result.exit_code == 1
    assert "the log only goes back to 2026-11-18 " in result.stdout
    assert json.loads(ask(f"alpha.example/{1:012x}-1-1", "--json").stdout)["covered"] is False


def test_an_unknown_message_from_after_the_log_is_said_to_be(log: HopLog, ask: Callable[..., Result]) -> None:
    log.append("heartbeat")
    result = ask("alpha.example/ffffffffffff-1-1")
    assert result.exit_code == 1
    assert "after the last record of the log" in result.stdout


def test_an_empty_log_is_said_to_be_empty(ask: Callable[..., Result]) -> None:
    result = ask(SMUID)
    assert result.exit_code == 1
    assert "is empty" in result.stdout


def test_what_is_no_smuid_is_wrong_usage(ask: Callable[..., Result]) -> None:
    result = ask("no\x1bsmuid")
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 2
    assert "\x1b" not in str(result.exception)


def test_what_had_no_guarantee_is_not_held_by_a_site_that_does_not_run(
    log: HopLog, ask: Callable[..., Result], ask_once_down: Callable[..., Result]
) -> None:
    log.append("published", smuid=SMUID, topic="news", account="ada:desk@alpha.example", guarantee=False)
    assert json.loads(ask(SMUID, "--json").stdout)["state"] == "waiting"
    found = json.loads(ask_once_down(SMUID, "--json").stdout)
    assert (found["state"], " was dropped as the daemon ended" in found["verdict"]) == ("gone", True)


def test_what_a_daemon_that_was_killed_wrote_last_may_never_have_come_true(
    log: HopLog, ask: Callable[..., Result], ask_once_down: Callable[..., Result]
) -> None:
    log.append("published", smuid=SMUID, topic="news", account="ada:desk@alpha.example")
    log.append("committed", smuid=SMUID, topic="news", subscription="bob:desk@alpha.example", final=True)
    came_true = ask(SMUID).stdout.splitlines()[-1]
    assert came_true.endswith("Finished 1 ms later: committed by bob:desk@alpha.example.")
    assert ask_once_down(SMUID).stdout.splitlines()[-1] == (
        f"{came_true} But the log was not closed when its daemon ended: the last of it may never have come"
        " true, which the next start takes back."
    )
    log.close()
    assert ask_once_down(SMUID).stdout.splitlines()[-1] == came_true


def test_while_the_log_of_a_site_that_runs_is_not_written_nothing_is_known_of_what_has_no_end(
    log: HopLog,
    ask: Callable[..., Result],
    ask_once_down: Callable[..., Result],
    now_us: Callable[[int], None],
) -> None:
    held, ended, never = (f"alpha.example/{BORN_US // 1000:012x}-1-{number}" for number in "123")
    for smuid in (held, ended):
        log.append("published", smuid=smuid, topic="news")
    log.append("expired", smuid=ended, topic="news", final=True)
    now_us(BORN_US + 180_000_000)
    assert [json.loads(ask(smuid, "--json").stdout)["state"] for smuid in (held, ended)] == [
        "waiting",
        "expired",
    ]
    now_us(BORN_US + 181_000_000)
    found = [json.loads(ask(smuid, "--json").stdout) for smuid in (held, ended, never)]
    assert [one["state"] for one in found] == ["unknown", "expired", "unknown"]
    assert [one["covered"] for one in found] == [False, True, False]
    assert "nothing was written to its log after 2026-11-18 " in found[0]["verdict"]
    assert "does not say that this site never had it: nothing was written" in found[2]["verdict"]
    assert json.loads(ask_once_down(held, "--json").stdout)["state"] == "waiting"


def test_once_the_clock_was_set_back_a_log_that_is_not_written_since_is_not_believed(
    log: HopLog,
    ask: Callable[..., Result],
    ask_once_down: Callable[..., Result],
    now_us: Callable[[int], None],
) -> None:
    """The clock is behind the last record for hours, which says nothing of the disk."""
    log.append("published", smuid=SMUID, topic="news")
    now_us(BORN_US - 59_000_000)
    assert json.loads(ask(SMUID, "--json").stdout)["state"] == "waiting"
    now_us(BORN_US - 3_600_000_000)
    found = json.loads(ask(SMUID, "--json").stdout)
    assert (found["state"], "and the site may have gone on" in found["verdict"]) == ("unknown", True)
    assert json.loads(ask_once_down(SMUID, "--json").stdout)["state"] == "waiting"


def test_who_may_not_know_whether_a_site_runs_is_not_told_that_it_does(
    log: HopLog, ask_once_down: Callable[..., Result], now_us: Callable[[int], None], tmp_path: Path
) -> None:
    """As one of a group that may read the hop log, and not open the lock."""
    (tmp_path / "state" / "lock").mkdir()
    log.append("published", smuid=SMUID, topic="news")
    assert json.loads(ask_once_down(SMUID, "--json").stdout)["state"] == "waiting"
    now_us(BORN_US + 181_000_000)
    found = json.loads(ask_once_down(SMUID, "--json").stdout)
    assert (found["state"], "and the site may have gone on" in found["verdict"]) == ("unknown", True)
