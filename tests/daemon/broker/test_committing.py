"""The pace of transactions, over a store that is real and a clock that is not."""

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
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

EMPTY = Batch(Surroundings("a.example", lambda: 0.0, lambda: 0, {}))
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
    commits = Commits(store, Histogram())
    commits.in_place_s = math.inf
    assert await waited_after(commits, store, FEW_DECISIONS) == 0
    some = await waited_after(commits, store, 2 * FEW_DECISIONS)
    many = await waited_after(commits, store, 100 * FEW_DECISIONS)
    assert 0 < some < many
    assert many == pytest.approx(commits.gather_max_s)


async def test_the_transaction_is_committed_in_place_and_by_a_thread_alike(store: Store) -> None:
    commits = Commits(store, Histogram())
    for in_place_s, record in ((0.0, 7), (1000.0, 8)):
        commits.in_place_s = in_place_s
        store.write(EMPTY, record, CLOCK_MARK)
        await commits.commit(1)
        with closing(sqlite3.connect(store.path)) as reader:
            assert reader.execute("SELECT last_record FROM site").fetchone() == (record,)


async def test_no_commit_is_waited_for_in_place_while_something_large_is_synced(
    store: Store, mock_clock: MockClock
) -> None:
    commits, threads = Commits(store, Histogram()), []
    commits.in_place_s = 1000.0

    async def in_thread(commit: Callable[[], float]) -> float:
        threads.append(commit)
        return commit()

    async def commit() -> int:
        store.write(EMPTY, 0, CLOCK_MARK)
        await commits.commit(1)
        return len(threads)

    commits.in_thread = in_thread
    assert await commit() == 0
    with commits.beside(), commits.beside():
        assert await commit() == 1
    mock_clock.jump(DISTRUST_S)  # in case that the disk is slow just now
    assert await commit() == 1


async def test_after_a_commit_that_took_long_none_is_waited_for_in_place_for_a_while(
    store: Store, mock_clock: MockClock
) -> None:
    commits, threads = Commits(store, Histogram()), []
    commits.in_place_s = 1000.0
    commits.preempted = lambda: 0

    async def in_thread(commit: Callable[[], float]) -> float:
        threads.append(commit)
        return commit() / 1000

    async def commit() -> int:
        store.write(EMPTY, 0, CLOCK_MARK)
        await commits.commit(1)
        return len(threads)

    commits.in_thread = in_thread
    in_time = store.commit

    def late() -> None:
        time.sleep(2 * STALL_S)  # a disk that is slow: the commit is to have taken so long
        in_time()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "commit", late)
        assert await commit() == 0
    assert await commit() == 1
    mock_clock.jump(DISTRUST_S)
    assert await commit() == 1


async def test_a_commit_in_which_the_processor_was_taken_away_says_nothing_of_the_disk(
    store: Store, mock_clock: MockClock
) -> None:
    commits, threads = Commits(store, Histogram()), []
    commits.in_place_s = 1000.0
    commits.preempted = count().__next__

    async def in_thread(commit: Callable[[], float]) -> float:
        threads.append(commit)
        return commit()

    def late() -> None:
        time.sleep(2 * STALL_S)  # a machine that is busy: the commit is to have taken so long

    commits.in_thread = in_thread
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "commit", late)
        for _ in range(2):
            await commits.commit(1)
    assert threads == []


async def test_a_commit_that_waited_for_other_threads_says_nothing_of_the_disk(
    store: Store, mock_clock: MockClock
) -> None:
    commits, threads = Commits(store, Histogram()), []
    commits.preempted = lambda: 0

    async def in_thread(commit: Callable[[], float]) -> float:
        threads.append(commit)
        commit()
        return 2 * STALL_S

    commits.in_thread = in_thread
    for in_place_s in (0.0, 1000.0):
        commits.in_place_s = in_place_s
        store.write(EMPTY, 0, CLOCK_MARK)
        await commits.commit(1)
    assert len(threads) == 1


async def test_a_commit_that_took_long_and_failed_counts_as_one_that_took_long(
    store: Store, mock_clock: MockClock
) -> None:
    commits, threads = Commits(store, Histogram()), []
    commits.in_place_s = 1000.0
    commits.preempted = lambda: 0

    async def in_thread(commit: Callable[[], float]) -> float:
        threads.append(commit)
        return commit()

    def fail_after(seconds: float) -> Callable[[], None]:
        def fail() -> None:
            time.sleep(seconds)  # a disk that is slow: the commit is to have taken so long
            raise sqlite3.OperationalError("disk I/O error")

        return fail

    commits.in_thread = in_thread
    for seconds, in_threads in ((2 * STALL_S, 0), (0.0, 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "commit", fail_after(seconds))
            with pytest.raises(sqlite3.OperationalError):
                await commits.commit(1)
        assert len(threads) == in_threads


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
