"""`smqpd bench`, against a daemon: what was published came, and is told with its times."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from daemon.frontend import SubscribeOptions
from daemon.terminal.failure import REFUSED, UNREACHABLE, Failure
from plugins.smqp.bench import ONE_TIMEOUT_S, BenchPlan, bench
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from routing.message import INFINITE, Message, Section
from tests.support import forked
from tests.support.patience import PATIENCE_S
from tests.support.process import daemon, environment, inherited
from tests.support.running import SiteProcess
from tests.support.site import PASSWORD, BrokerSite, running_site
from tests.support.smqp_peer import serve_connection


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


PLAN = BenchPlan(
    topic="t",
    messages=40,
    size=100,
    publishers=2,
    subscribers=2,
    window=10,
    mode="ALL",
    guarantee=True,
)


@pytest.fixture
async def broker_site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path / "broker") as site:
        yield site


@pytest.fixture
def profile(broker_site: BrokerSite, nursery: trio.Nursery) -> Any:
    """Connects to it, as `plugins.smqp.profile.Profile` does."""

    def connect(channel: str) -> Any:
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(serve_connection, broker_site, theirs, "127.0.0.1:1")
        return session(ours, "ada", PASSWORD, channel=channel)

    return SimpleNamespace(connect=connect)


def of_others(**headers: Any) -> Message:
    return Message(sections=(Section("text/plain", b"1" * 100),), **headers)


async def test_what_others_have_on_the_topic_does_not_count(profile: Any) -> None:
    async with profile.connect("other") as other:
        await other.subscribe("t")
        kept = [await other.publish("t", of_others(timeout_s=INFINITE)) for _ in range(3)]
        empty = await other.publish("t", Message(timeout_s=INFINITE))
        result = await bench(profile, PLAN)
        assert (result.messages, result.deliveries, result.lost) == (40, 80, 0)
        taken: list[Any] = []
        while len(taken) < 44:
            taken += await other.take()
        assert [delivery.message.smuid for delivery in taken[:4]] == [*kept, empty]


async def test_two_runs_on_one_topic_count_each_their_own(profile: Any) -> None:
    results = []

    async def run() -> None:
        results.append(await bench(profile, PLAN))

    async with trio.open_nursery() as runs:
        runs.start_soon(run)
        runs.start_soon(run)
    assert [(result.deliveries, result.lost) for result in results] == [(80, 0), (80, 0)]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
async def test_what_is_for_one_subscriber_is_not_taken_from_others(profile: Any, mode: Any) -> None:
    async with profile.connect("other") as other:
        kept = await other.publish("t", of_others(delivery="ONE"))
        with pytest.raises(Failure, match="others have messages for one subscriber on t"):
            await bench(profile, msgspec.structs.replace(PLAN, mode=mode))
        await other.subscribe("t", SubscribeOptions(accepts="ONE"))
        assert (await other.take())[0].message.smuid == kept


async def test_the_last_messages_for_one_subscriber_are_committed_before_it_ends(
    profile: Any, broker_site: BrokerSite, monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    commit = Client.commit

    async def commit_late(client: Any, deliveries: Any) -> None:
        await trio.sleep(1)
        await commit(client, deliveries)

    monkeypatch.setattr(Client, "commit", commit_late)
    result = await bench(profile, msgspec.structs.replace(PLAN, mode="ONE"))
    assert (result.deliveries, result.lost) == (40, 0)
    assert broker_site.broker.door.view.held == 0


async def test_messages_for_one_subscriber_do_not_wait_for_ever_where_none_takes_them(profile: Any) -> None:
    await bench(profile, msgspec.structs.replace(PLAN, mode="ONE", subscribers=0))
    async with profile.connect("other") as other:
        await other.subscribe("t")
        taken = await other.take()
    assert {delivery.message.timeout_s for delivery in taken} == {ONE_TIMEOUT_S}


async def test_a_machine_that_has_run_for_months_is_measured_as_any_other(
    profile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 17 digits of nanoseconds the reader took 16."""
    counter, counter_ns, up_s = time.perf_counter, time.perf_counter_ns, 120 * 86_400
    monkeypatch.setattr(time, "perf_counter", lambda: counter() + up_s)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: counter_ns() + up_s * 1_000_000_000)
    result = await bench(profile, PLAN)
    assert result.lost == 0
    assert result.delivered is not None
    assert 0 < result.delivered.p50 < up_s
