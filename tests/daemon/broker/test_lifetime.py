"""The way up and down of a broker."""

from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.broker_of_ada import broker_of_ada
from tests.support.patience import PATIENCE_S


async def test_a_start_that_is_cancelled_in_its_first_commit_ends_with_it(tmp_path: Path) -> None:
    """A site may be told to stop as soon as it has been told to start."""
    threads = trio.to_thread.current_default_thread_limiter()
    with trio.fail_after(PATIENCE_S):
        async with broker_of_ada(tmp_path / "site", "a.example") as opened:
            opened.broker.commits.in_place_s = 0.0
            taken = [object() for _ in range(int(threads.total_tokens))]
            for each in taken:
                threads.acquire_on_behalf_of_nowait(each)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.start)
                await wait_all_tasks_blocked()
                waiting = threads.statistics().tasks_waiting
                nursery.cancel_scope.cancel()
                for each in taken:
                    threads.release_on_behalf_of(each)
            assert waiting  # for a thread to commit in
        assert not opened.broker.door.view.untaken
    async with broker_of_ada(tmp_path / "site", "a.example") as opened:
        await opened.start()
        assert opened.boot == 2
