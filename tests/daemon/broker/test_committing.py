"""The pace of transactions, over a store that is real and a clock that is not."""

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
import trio.testing
from trio.testing import MockClock

from daemon.broker.committing import DISTRUST_S, FEW_DECISIONS, GATHER_MAX_S, STALL_S, Commits
from daemon.metrics import Histogram
from daemon.store.batch import Batch
from daemon.store.changes import Surroundings
from daemon.store.store import Store
from tests.support.broker import virtual_site

EMPTY = Batch(Surroundings("a.example", lambda: 0.0, lambda: 0.0, lambda: 0, {}))
CLOCK_MARK = (0.0, 0.0, "", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "smqpd.db")) as opened:
        yield opened


async def waited_after(commits: Commits, store: Store, decisions: int) -> float:
    """Seconds from the beginning of a transaction of so many decisions until the next may begin."""
    store.write(EMPTY, 0, CLOCK_MARK)
    began = trio.current_time()
    await commits.commit(decisions)
    await commits.gather()
    return trio.current_time() - began


async def test_few_decisions_delay_nothing_and_many_only_so_long(
    store: Store, autojump_clock: MockClock
) -> None:
    commits = Commits(store, Histogram(), trio.to_thread.run_sync, in_place_s=math.inf)
    assert await waited_after(commits, store, FEW_DECISIONS) == 0
    some = await waited_after(commits, store, 2 * FEW_DECISIONS)
    many = await waited_after(commits, store, 100 * FEW_DECISIONS)
    assert 0 < some < many
    assert many == pytest.approx(commits.gather_max_s)


async def test_the_transaction_is_committed_in_place_and_by_a_thread_alike(store: Store) -> None:
    commits = Commits(store, Histogram(), trio.to_thread.run_sync)
    for in_place_s, record in ((0.0, 7), (1000.0, 8)):
        commits.in_place_s = in_place_s
        store.write(EMPTY, record, CLOCK_MARK)
        await commits.commit(1)
        with closing(sqlite3.connect(store.path)) as reader:
            assert reader.execute("SELECT last_record FROM site").fetchone() == (record,)


class Watched:
    """Commits that a disk is fast enough to be waited for in place; `in_threads` is how many were not."""

    def __init__(self, store: Store) -> None:
        self.commits = Commits(
            store, Histogram(), self._in_thread, in_place_s=1000.0, preempted=lambda: self.preempted()
        )
        self.preempted: Callable[[], int] = lambda: 0
        self.in_threads = 0
        self._store = store

    async def commit(self) -> int:
        self._store.write(EMPTY, 0, CLOCK_MARK)
        await self.commits.commit(1)
        return self.in_threads

    async def _in_thread(self, commit: Callable[[], float]) -> float:
        self.in_threads += 1
        return commit()


@pytest.fixture
def watched(store: Store) -> Watched:
    return Watched(store)


@contextmanager
def late(store: Store, error: Exception | None = None) -> Iterator[None]:
    """Each commit takes long, and may fail then."""
    in_time = store.commit

    def commit() -> None:
        time.sleep(2 * STALL_S)  # a disk that is slow: the commit is to have taken so long
        if error is not None:
            raise error
        in_time()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "commit", commit)
        yield


async def test_no_commit_is_waited_for_in_place_while_something_large_is_synced(
    watched: Watched, mock_clock: MockClock
) -> None:
    assert await watched.commit() == 0
    with watched.commits.beside(), watched.commits.beside():
        assert await watched.commit() == 1
    mock_clock.jump(DISTRUST_S)  # in case that the disk is slow just now
    assert await watched.commit() == 1


async def test_after_a_commit_that_took_long_none_is_waited_for_in_place_for_a_while(
    watched: Watched, store: Store, mock_clock: MockClock
) -> None:
    with late(store):
        assert await watched.commit() == 0
    assert await watched.commit() == 1
    mock_clock.jump(DISTRUST_S)
    assert await watched.commit() == 1


async def test_a_commit_in_which_the_processor_was_taken_away_says_nothing_of_the_disk(
    watched: Watched, store: Store, mock_clock: MockClock
) -> None:
    watched.preempted = count().__next__
    with late(store):
        for _ in range(2):
            assert await watched.commit() == 0


async def test_a_commit_that_waited_for_other_threads_says_nothing_of_the_disk(
    watched: Watched, store: Store, mock_clock: MockClock
) -> None:
    watched.commits.in_place_s = 0.0
    with late(store):
        assert await watched.commit() == 1
    watched.commits.in_place_s = 1000.0
    assert await watched.commit() == 1


async def test_a_commit_that_took_long_and_failed_counts_as_one_that_took_long(
    watched: Watched, store: Store, mock_clock: MockClock
) -> None:
    with late(store, sqlite3.OperationalError("disk I/O error")), pytest.raises(sqlite3.OperationalError):
        await watched.commit()
    assert watched.in_threads == 0
    await watched.commits.commit(1)  # what was written is still to be
    assert watched.in_threads == 1


async def test_an_acknowledgement_shares_the_transaction_of_the_next_message(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", delivery="ONE")
        [got] = await ada.delivered()
        site.broker.commits.gather_max_s = GATHER_MAX_S
        ada.session.commit([got.number])
        await trio.testing.wait_all_tasks_blocked()
        assert site.broker.door.view.untaken > 0
        await eva.publish("jobs", delivery="ONE")
        assert site.broker.door.view.untaken == 0
        assert "committed" in {record.event for record in site.records()}


async def test_an_acknowledgement_that_no_message_follows_is_stored_soon(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", delivery="ONE")
        [got] = await ada.delivered()
        site.broker.commits.gather_max_s = GATHER_MAX_S
        ada.session.commit([got.number])
        await trio.testing.wait_all_tasks_blocked()
        assert site.broker.door.view.untaken > 0
        mock_clock.jump(site.broker.commits.patience_s)
        await trio.testing.wait_all_tasks_blocked()
        assert site.broker.door.view.untaken == 0
