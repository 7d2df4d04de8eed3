"""What a site measures: times in their buckets, refusals by their codes, pauses of the event loop."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemon.broker.ages import APART_S, KEPT_MAX, Ages
from daemon.metrics import LONG_PAUSE_S, REASONS_MAX, STEPS_S, Histogram, LoopWatch, Metrics
from routing.errors import Refusal
from tests.support.broker import virtual_site


def buckets(histogram: Histogram) -> dict[float, int]:
    steps = (*STEPS_S, float("inf"))
    return {step: count for step, count in zip(steps, histogram.counts, strict=True) if count}


@pytest.mark.parametrize(
    ("seconds", "step"), [(0.0, 0.0005), (0.0005, 0.0005), (0.3, 0.5), (11.0, float("inf"))]
)
def test_a_time_falls_into_the_first_bucket_that_holds_it(seconds: float, step: float) -> None:
    histogram = Histogram()
    histogram.note(seconds, 3)
    assert buckets(histogram) == {step: 3}
    assert histogram.sum_s == pytest.approx(3 * seconds)


def test_times_that_end_together_are_noted_as_each_by_itself() -> None:
    began_at = [0.0, 5.0, 9.0, 9.7, 9.7, 9.96, 9.9999, 10.0]
    one_by_one, together = Histogram(), Histogram()
    for at in began_at:
        one_by_one.note(20.0 - at)
    together.note_since(began_at, 20.0)
    assert together.counts == one_by_one.counts
    assert together.sum_s == pytest.approx(one_by_one.sum_s)


def test_the_age_of_a_message_is_that_of_its_transaction() -> None:
    ages = Ages(7, 100.0)
    for transaction in range(1, 4):
        ages.stored(7 + 10 * transaction, 100.0 + transaction)
    assert [ages.stored_at(id) for id in (3, 7, 8, 17, 18, 37)] == [100, 100, 101, 101, 102, 103]


def test_ages_take_no_more_memory_the_longer_a_site_runs() -> None:
    ages = Ages(0, 0.0)
    for transaction in range(1, 4 * KEPT_MAX):
        ages.stored(transaction, transaction * 2 * APART_S)
    assert len(ages._ids) <= 2 * KEPT_MAX
    newest = 4 * KEPT_MAX - 1
    assert ages.stored_at(newest) == newest * 2 * APART_S
    assert ages.stored_at(1) > 2 * APART_S


def test_reasons_without_number_are_counted_as_others() -> None:
    metrics = Metrics()
    for number in range(REASONS_MAX + 10):
        metrics.turn_away("dropped", f"reason {number}")
    assert metrics.turned_away["dropped", "other"] == 10


async def test_a_pause_of_the_event_loop_is_noticed(autojump_clock: MockClock) -> None:
    metrics = Metrics()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(metrics.watch_pauses)
        await trio.sleep(1.05)
        autojump_clock.jump(0.75)  # as if something had held it up
        await trio.sleep(1.0)
        nursery.cancel_scope.cancel()
    assert metrics.longest_pause_s == pytest.approx(0.7)
    assert metrics.pause_s.count > 15


@pytest.fixture
def no_collection() -> Iterator[None]:
    """A collection of all objects of a long run of tests is work, too, and takes a long turn by itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_a_long_turn_of_the_event_loop_is_counted_by_what_took_so_long() -> None:
    metrics = Metrics()

    async def turns() -> None:
        await trio.sleep(0.001)
        time.sleep(1.5 * LONG_PAUSE_S)  # holds the loop up, and does no work
        await trio.sleep(0.001)
        waited = metrics.long_pauses["wait"]
        worked_until = time.thread_time() + 1.5 * LONG_PAUSE_S
        while time.thread_time() < worked_until:
            pass
        await trio.sleep(0.001)
        assert (waited > 0, metrics.long_pauses["work"]) == (True, 1)

    trio.run(turns, instruments=[LoopWatch(metrics)])


async def test_messages_are_measured_from_their_coming_to_their_first_delivery(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        metrics = site.broker.metrics
        publisher = site.login("ada")
        await publisher.publish("jobs", delivery="ONE")
        assert metrics.stored_s.count == 1
        assert metrics.delivered_s.count == 0
        mock_clock.jump(3.0)
        worker = await site.login("bob").subscribe("jobs")
        (waited,) = await worker.delivered()
        assert buckets(metrics.delivered_s) == {5.0: 1}
        await publisher.publish("jobs", delivery="ONE")
        await worker.delivered()
        assert metrics.delivered_s.count == 2
        assert metrics.delivered_s.sum_s < 4.0
        worker.session.give_back([waited.number])
        await worker.delivered()
        assert metrics.delivered_s.count == 2, "a second attempt says nothing of how long a message waited"
        assert metrics.commit_s.count > 2


async def test_requests_that_are_refused_are_counted_by_their_code(tmp_path: Path) -> None:
    async with virtual_site(tmp_path, queue_messages_max=1) as site:
        ada = site.login("ada")
        await ada.publish("jobs", delivery="ONE")
        with pytest.raises(Refusal):
            await ada.publish("jobs", delivery="ONE")
        with pytest.raises(Refusal):
            ada.send("no topic")
        ada.session.commit([4711], 99)
        with pytest.raises(Refusal):
            await ada.answer(99)
        assert dict(site.broker.metrics.refused) == {"queue-full": 1, "bad-topic": 1, "lock-lost": 1}
        assert dict(site.broker.metrics.turned_away) == {("denied", "queue-full"): 1}


async def test_unguaranteed_messages_that_are_dropped_are_counted_with_their_reason(tmp_path: Path) -> None:
    async with virtual_site(tmp_path, unguaranteed_bytes_max=10_000) as site:
        ada = site.login("ada")
        for _ in range(12):
            ada.send("jobs", b"x" * 1_000, guarantee=False, delivery="ONE")
        await ada.publish("other")
        (counted,) = site.broker.metrics.turned_away.items()
        assert counted[0] == ("dropped", "unguaranteed, and memory for such messages is full")
        assert counted[1] >= 3
