"""`smqpd bench`, against a daemon: what was published came, and is told with its times."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.terminal.failure import REFUSED, UNREACHABLE
from tests.support import forked
from tests.support.patience import PATIENCE_S
from tests.support.process import daemon, environment, inherited
from tests.support.running import SiteProcess


@pytest.fixture
def site(tmp_path: Path) -> SiteProcess:
    return SiteProcess(tmp_path / "site")


RUN = "import typer; from plugins.smqp.commands import bench; typer.run(bench)"


async def run(site: SiteProcess, *options: str) -> str:
    """What it prints; it must succeed."""
    command = ["-c", RUN, *options, "--site", str(site.config)]
    done = await forked.run(command, env=environment(site.config.parent))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("options", "deliveries"),
    [
        (("--subscribers", "2", "--publishers", "2"), 80),
        (("--subscribers", "2", "--delivery", "ONE"), 40),
        (("--no-guarantee",), 40),
        (("--subscribers", "0"), 0),
    ],
)
async def test_all_that_is_published_comes(
    site: SiteProcess, options: tuple[str, ...], deliveries: int
) -> None:
    async with daemon(site.config):
        result: Any = json.loads(await run(site, "--messages", "40", "--window", "10", "--json", *options))
        assert (result["messages"], result["deliveries"], result["lost"]) == (40, deliveries, 0)
        assert (result["published"] is None) == ("--no-guarantee" in options)
        assert (result["delivered"] is None) == (not deliveries)
        for latency in filter(None, (result["published"], result["delivered"])):
            assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        lines = await run(site, "--messages", "5", "--size", "1000")
        assert lines.startswith("published  5 messages of 1,000 B: ")
        assert "delivered  5 deliveries: " in lines
        with trio.fail_after(PATIENCE_S):  # it ends as its connections do
            while (await site.asked("topics"))["total"]:
                await trio.sleep(0.02)


async def ended(site: SiteProcess, *options: str) -> tuple[int, str]:
    """The exit code and what is said on stderr, by the command as it is installed."""
    run_main = "from daemon.cli.main import main; main()"
    command = ["-c", run_main, "bench", *options, "--site", str(site.config.parent)]
    done = await forked.run(command, env=inherited())
    return done.returncode, done.stderr.decode()


async def test_a_site_that_does_not_run_is_said_not_to(site: SiteProcess) -> None:
    code, said = await ended(site, "--publishers", "3", "--subscribers", "2")
    assert (code, said.count("\n")) == (UNREACHABLE, 1)
    assert "does the site run" in said


async def test_what_is_refused_ends_it_in_one_line(site: SiteProcess) -> None:
    async with daemon(site.config):
        code, said = await ended(site, "--messages", "3", "--topic", "dead.x:y@elsewhere.example")
    assert (code, said.count("\n")) == (REFUSED, 1)


async def test_a_login_that_a_quota_refuses_is_a_refused_login(site: SiteProcess) -> None:
    async with daemon(site.config):
        assert (await site.command("account", "quotas", "admin", "--sessions", "1"))[0] == 0
        code, said = await ended(site, "--publishers", "2")
    assert (code, said.count("\n")) == (REFUSED, 1)
    assert "admin is logged in 1 times, as often as it may (sessions_max)" in said
