"""`smqpd top` at terminals."""

import os
import signal
from pathlib import Path

import pytest

from daemon.terminal.failure import INTERRUPTED
from plugins.smqp.client import Client
from tests.support import forked
from tests.support.process import PRETENCES, daemon, environment
from tests.support.running import SiteProcess, message
from tests.support.terminal import CTRL_C, terminal

ON, OFF = "\x1b[?1049h", "\x1b[?1049l"
"""The terminal shows another screen, and again what it showed before."""
CURSOR = "\x1b[?25h"
"""It shows a cursor again."""


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


def top(site: SiteProcess, *words: str) -> list[str]:
    return [
        "-P",
        "-c",
        "from daemon.cli.main import main; main()",
        *("top", "--every", "0.2", "--site", str(site.config.parent), *words),
    ]


async def publish_to_long_names(eve: Client) -> None:
    for topic in ("w" * 250, "weather." + "日本" * 40):
        await eve.publish(topic, message(b"x", delivery="ONE"))


async def test_every_column_is_seen_however_long_names_are_and_however_wide_it_becomes(
    site: SiteProcess,
) -> None:
    async with daemon(site.config), site.eve() as eve:
        await publish_to_long_names(eve)
        async with terminal(top(site), environment(site.config.parent)) as at:
            await at.shows("subs")
            assert "w" * 80 not in at.shown
            at.resize(50, 200)
            await at.shows("w" * 100)
            at.type(b"q")
            assert await at.exit_code() == 0
    assert at.shown.count(ON) == at.shown.count(OFF) == 1


async def test_an_interrupt_gives_the_terminal_back(site: SiteProcess) -> None:
    async with daemon(site.config), terminal(top(site), environment(site.config.parent)) as at:
        await at.shows("topic")
        at.type(CTRL_C)
        assert await at.exit_code() == INTERRUPTED
    assert at.shown.endswith(OFF)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM])
async def test_a_signal_that_ends_it_gives_the_terminal_back(
    site: SiteProcess, number: signal.Signals
) -> None:
    async with daemon(site.config), terminal(top(site), environment(site.config.parent)) as at:
        await at.shows("topic")
        assert not at.echoes
        at.process.send_signal(number)
        assert await at.exit_code() == 128 + number
        assert at.shown.endswith(CURSOR + OFF)
        assert at.echoes


async def test_while_it_is_stopped_the_terminal_is_as_it_was(site: SiteProcess) -> None:
    async with daemon(site.config), terminal(top(site), environment(site.config.parent)) as at:
        await at.shows("topic")
        # a process without a shell above it is not stopped by the keyboard: POSIX, orphaned process groups
        os.kill(at.process.pid, signal.SIGTSTP)
        await at.shows(OFF)
        at.shown = at.shown.partition(OFF)[2]
        await at.shows(ON)
        at.type(b"q")
        assert await at.exit_code() == 0


async def test_without_a_screen_one_look_follows_the_other_and_names_are_whole(site: SiteProcess) -> None:
    async with daemon(site.config), site.eve() as eve:
        await publish_to_long_names(eve)
        async with terminal(top(site, "--count", "2"), environment(site.config.parent), kind="dumb") as at:
            assert await at.exit_code() == 0
        assert "\x1b" not in at.shown
        assert at.shown.count("alpha.example, smqpd") == 2
        assert "".join(at.shown.split()).count("w") >= 2 * 250
        piped = await forked.run(top(site, "--count", "1"), env=environment(site.config.parent))
        assert "w" * 250 in piped.stdout.decode()


@pytest.mark.parametrize("pretence", PRETENCES)
async def test_a_pipe_has_no_screen_whatever_it_passes_for(
    site: SiteProcess, pretence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(pretence, "1")
    env = environment(site.config.parent)
    assert pretence not in env
    async with daemon(site.config):
        piped = await forked.run(top(site, "--count", "1"), env={**env, pretence: "1"})
    assert piped.stdout.startswith(b"alpha.example, smqpd")
    assert b"\x1b[?" not in piped.stdout
