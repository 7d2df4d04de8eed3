"""How commands end that are interrupted, or whose output nobody takes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.support.command_line import CommandLine
from tests.support.process import SMQPD_RUN, environment
from tests.support.terminal import CTRL_C, terminal


@pytest.fixture
def smqpd(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
async def config(tmp_path: Path, smqpd: CommandLine) -> Path:
    (tmp_path / "smqpd.toml").write_text(
        '[site]\nserver_name = "alpha.example"\n[plugins.smqp]\nlisten = ["127.0.0.1:0"]\n'
    )
    (tmp_path / "accounts.toml").write_text("")
    (tmp_path / "accounts.toml").chmod(0o600)
    return tmp_path / "smqpd.toml"


async def test_an_interrupt_while_a_command_is_still_loaded_ends_it_without_a_word(
    smqpd: CommandLine, tmp_path: Path
) -> None:
    """A package of somebody's adds a command, and the interrupt comes when that is imported."""
    (tmp_path / "commands" / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    (tmp_path / "commands" / "smqpd_smqp-1.dist-info" / "entry_points.txt").write_text(
        "[smqpd.commands]\nslow = slow:slow\n"
    )
    ended = await smqpd("slow")
    assert (ended.exit_code, ended.out, ended.error) == (130, b"", "")


@pytest.mark.parametrize("words", [("config", "show", "--defaults"), ("--help",), ("config", "--help"), ()])
async def test_output_that_nobody_reads_ends_a_command_without_a_word(
    smqpd: CommandLine, words: tuple[str, ...]
) -> None:
    command = smqpd.in_shell(*words)
    ended = await trio.run_process(
        ["sh", "-c", f"{{ {command}; echo $? >&2; }} | true"], capture_stderr=True, env=smqpd.environment
    )
    assert ended.stderr == b"141\n"


@pytest.mark.parametrize("words", [("config", "show", "--defaults"), ("--version",), ("--help",)])
async def test_output_that_cannot_be_written_is_one_line_and_a_failure(
    smqpd: CommandLine, words: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        ended = await smqpd(*words, stdout=full.fileno())
    said = "smqpd: standard output cannot be written: No space left on device\n"
    assert (ended.exit_code, ended.error) == (1, said)


async def test_a_file_that_takes_only_a_part_is_a_failure_also_where_nothing_is_buffered(
    smqpd: CommandLine, tmp_path: Path
) -> None:
    """As a disk that is nearly full does; containers often have Python use no buffer."""
    command = smqpd.in_shell("config", "show", "--defaults")
    ended = await trio.run_process(
        ["sh", "-c", f"ulimit -f 1; {command} > {tmp_path / 'shown'}"],
        capture_stderr=True,
        check=False,
        # the limit holds for all files, those too in which Python keeps modules
        env=smqpd.environment | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    said = b"smqpd: standard output cannot be written: File too large\n"
    assert (ended.returncode, ended.stderr) == (1, said)
    assert (tmp_path / "shown").stat().st_size


async def test_a_home_that_completion_cannot_be_installed_in_is_told_in_one_line(
    smqpd: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("")
    command = smqpd.in_shell("--install-completion")
    ended = await trio.run_process(
        ["bash", "-c", f"{command}; exit $?"],  # a bash that stays is the shell that is found
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=smqpd.environment | {"HOME": str(tmp_path / "home")},
    )
    assert (ended.returncode, ended.stdout) == (1, b"")
    said = f"smqpd: completion cannot be installed: {tmp_path / 'home'}".encode()
    assert ended.stderr.startswith(said)
    assert ended.stderr.count(b"\n") == 1


async def test_closed_streams_are_no_files_of_somebody_else(smqpd: CommandLine) -> None:
    command = smqpd.in_shell("config", "show", "--defaults")
    ended = await trio.run_process(
        ["sh", "-c", f"{command} <&- >&-"], capture_stderr=True, check=False, env=smqpd.environment
    )
    said = b"smqpd: standard output cannot be written: Bad file descriptor\n"
    assert (ended.returncode, ended.stderr) == (1, said)


async def test_a_password_that_is_to_come_from_a_closed_stdin_is_told_in_one_line(
    smqpd: CommandLine, tmp_path: Path
) -> None:
    site = str(tmp_path / "site")
    assert (await smqpd("init", site, "--server-name", "alpha.example")).exit_code == 0
    command = smqpd.in_shell("account", "add", "ann", "--site", site)
    ended = await trio.run_process(
        ["sh", "-c", f"{command} <&-"], capture_stderr=True, check=False, env=smqpd.environment
    )
    said = b"smqpd: no password can be read from standard input: Bad file descriptor\n"
    assert (ended.returncode, ended.stderr) == (1, said)


async def test_several_quick_interrupts_end_a_site_cleanly(config: Path) -> None:
    async with terminal([*SMQPD_RUN, str(config)], environment(config.parent)) as site:
        await site.shows("runs the site alpha.example")
        site.type(5 * CTRL_C)
        assert await site.exit_code() == 0
    assert "Traceback" not in site.shown
    assert site.shown.rstrip().endswith("stopped")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_while_the_interpreter_ends_does_not_change_how_a_site_has_ended(
    config: Path, number: signal.Signals
) -> None:
    """Of several quick interrupts the last may come so late; a service manager would call it killed."""
    ending = (
        "import os\n"
        "class Last:\n"
        f"    def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, {number:d})\n"
        "last = Last()\n"
        "from daemon.__main__ import main; main()"
    )
    process = await trio.run_process(
        [sys.executable, "-c", ending, str(config.parent / "none.toml")],
        stdin=subprocess.DEVNULL,
        capture_stderr=True,
        check=False,
        env=environment(config.parent),
    )
    assert process.returncode == 1


async def test_an_interrupt_before_a_site_has_begun_is_not_lost_with_the_interpreter_that_it_came_to(
    config: Path,
) -> None:
    """The command line becomes the daemon, whose interpreter starts anew."""
    interrupted = (
        "import os, signal; from daemon.cli import run; execv = os.execv\n"
        "def interrupt_and_become(*what): os.kill(os.getpid(), signal.SIGINT); execv(*what)\n"
        "run.os.execv = interrupt_and_become\n"
        "from daemon.cli.main import main; main()"
    )
    process = await trio.run_process(
        [sys.executable, "-c", interrupted, "run", "--config", str(config)],
        stdin=subprocess.DEVNULL,
        capture_stderr=True,
        check=False,
        env=environment(config.parent),
    )
    assert (process.returncode, process.stderr) == (128 + signal.SIGINT, b"")
    assert not os.path.exists(config.parent / "state" / "smqpd.db")
