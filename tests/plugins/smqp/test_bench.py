"""`smqpd bench`, against a daemon: what was published came, and is told with its times."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.process import ROOT, daemon, environment
from tests.support.running import RunningSite


@pytest.fixture
def site(tmp_path: Path) -> RunningSite:
    return RunningSite(tmp_path / "site")


RUN = "import typer; from plugins.smqp.commands import bench; typer.run(bench)"


async def run(site: RunningSite, *options: str) -> str:
    """What it prints; it must succeed."""
    command = [sys.executable, "-c", RUN, *options, "--site", str(site.config)]
    done = await trio.run_process(command, env=environment(site.config.parent), cwd=ROOT, capture_stdout=True)
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
    site: RunningSite, options: tuple[str, ...], deliveries: int
) -> None:
    async with daemon(site.config):
        result: Any = json.loads(await run(site, "--messages", "40", "--window", "10", "--json", *options))
        assert (result["messages"], result["deliveries"], result["lost"]) == (40, deliveries, 0)
        assert (result["published"] is None) == ("--no-guarantee" in options)
        assert (result["delivered"] is None) == (not deliveries)
        for latency in filter(None, (result["published"], result["delivered"])):
            assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        lines = await run(site, "--messages", "5", "--size", "1000")
        assert lines.startswith("published  5 messages of 1 kB: ")
        assert "delivered  5 deliveries: " in lines
        assert (await site.asked("topics"))["total"] == 0
