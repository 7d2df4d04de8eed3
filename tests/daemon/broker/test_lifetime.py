"""The way up and down of a broker."""

from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.broker.broker import MAINTENANCE_S
from daemon.settings import QueueSettings
from tests.support.broker import VirtualSite, virtual_site
from tests.support.broker_of_ada import broker_of_ada
from tests.support.patience import PATIENCE_S, pass_time
from tests.support.threads import no_thread_left

UNUSED_S: Final = QueueSettings().subscription_unused_s


async def test_a_start_that_is_cancelled_in_its_first_commit_ends_with_it(tmp_path: Path) -> None:
    """A site may be told to stop as soon as it has been told to start."""
    with trio.fail_after(PATIENCE_S):
        async with broker_of_ada(tmp_path / "site", "a.example") as opened:
            opened.broker.commits.in_place_s = 0.0
            async with trio.open_nursery() as nursery:
                with no_thread_left() as threads:
                    nursery.start_soon(opened.start)
                    await wait_all_tasks_blocked()
                    waiting = threads.statistics().tasks_waiting
                    nursery.cancel_scope.cancel()
            assert waiting  # to commit
        assert not opened.broker.door.view.untaken
    async with broker_of_ada(tmp_path / "site", "a.example") as opened:
        await opened.start()
        assert opened.boot == 2


def is_subscribed(site: VirtualSite) -> bool:
    """Whether ada has her subscription."""
    return site.broker.door.view.subscription("news", "ada:desk@a.example", "") is not None


@pytest.mark.parametrize("stops", [[2.0], [2 / 3, 2 / 3, 2 / 3]], ids=["long", "several"])
async def test_while_the_site_does_not_run_nobody_leaves_a_subscription_unused(
    tmp_path: Path, mock_clock: MockClock, stops: list[float]
) -> None:
    """Who comes back some minutes after the last start has what came meanwhile."""
    async with virtual_site(tmp_path) as site:
        await site.login("ada").subscribe("news")
    for stop in stops:
        async with virtual_site(tmp_path, stopped_s=UNUSED_S * stop) as site:
            await pass_time(mock_clock, 2 * MAINTENANCE_S)
            assert is_subscribed(site)
            await site.login("eva").publish("news", b"hello")
    async with virtual_site(tmp_path) as site:
        [delivered] = await (await site.login("ada").subscribe("news")).delivered()
        assert delivered.stored.message.sections[0].body == b"hello"


async def test_what_was_published_is_published_once_whatever_the_clock_says_of_a_stop(tmp_path: Path) -> None:
    """A machine starts with a clock that is hours ahead: the client that repeats has waited for a minute."""
    async with virtual_site(tmp_path) as site:
        first = await site.login("ada").publish("news", b"hello", cmuid="c1")
    for stopped_s in (10_800.0, 1.0, 10_800.0):
        async with virtual_site(tmp_path, stopped_s=stopped_s) as site:
            again = await site.login("ada").publish("news", b"hello", cmuid="c1")
            assert again == first


async def test_a_subscription_that_nobody_uses_while_the_site_runs_ends_however_often_it_is_stopped(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("ada").subscribe("news")
    for is_there in (True, False):
        async with virtual_site(tmp_path, stopped_s=UNUSED_S) as site:
            await pass_time(mock_clock, UNUSED_S / 2)
            await pass_time(mock_clock, MAINTENANCE_S)
            assert is_subscribed(site) == is_there
