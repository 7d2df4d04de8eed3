"""The way up and down of a broker."""

from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.broker_of_ada import broker_of_ada
from tests.support.patience import PATIENCE_S
from tests.support.threads import no_thread_left


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
