"""What waits is counted in parts, while others change it; what is kept is found, however much has gone."""

import math
import random
from typing import Any

import pytest

from routing.queue import COUNTED_AT_ONCE, EXPIRED, GONE, Entry, KeptEntries, PriorityQueue

MANY = 5 * COUNTED_AT_ONCE


def queue_of(count: int, gone: int) -> PriorityQueue:
    """So many of two priorities, of which the last have ended since they came."""
    queue = PriorityQueue()
    entries = [Entry(id, None, id, id % 2, 1, 0, 1, math.inf) for id in range(1, count + 1)]
    for entry in entries:
        queue.push(entry)
    for entry in entries[count - gone :]:
        entry.flags |= GONE
        queue.forget()
    return queue


@pytest.mark.parametrize("flag", [GONE, EXPIRED])
def test_what_waits_no_more_is_swept_out_once_it_is_the_half(flag: int) -> None:
    queue = PriorityQueue()
    entries = [Entry(id, None, id, 0, 1, 0, 1, math.inf) for id in range(1, 3_001)]
    for entry in entries:
        queue.push(entry)
    for entry in entries[1_000:2_500]:
        entry.flags |= flag
        queue.forget()
    assert [entry.id for entry in queue] == [*range(1, 1_001), *range(2_501, 3_001)]
    assert sum(map(len, queue._lanes.values())) == 1_500


@pytest.mark.parametrize("flag", [GONE, EXPIRED])
def test_what_waits_no_more_is_passed_over(flag: int) -> None:
    queue = PriorityQueue()
    entries = [Entry(id, "news", id, 0, 1, 0, 1, math.inf) for id in range(1, 5)]
    for entry in entries:
        queue.push(entry)
    for entry in entries[0], entries[2]:
        entry.flags |= flag
        queue.forget()
    assert [entry.id for entry in queue.after(0, 9)] == [2, 4]
    assert [entry.id for entry in queue.before(9, 9)] == [4, 2]
    assert queue.oldest("news") is entries[1]
    assert sum(queue.count_in_steps()) == 2
    assert queue.peek() is queue.pop() is entries[1]
    assert queue.take_out(lambda entry: True) == [entries[3]]
    assert not queue


def test_where_nothing_has_ended_what_waits_is_known_at_once() -> None:
    assert list(queue_of(MANY, 0).count_in_steps()) == [MANY]
    assert list(queue_of(0, 0).count_in_steps()) == [0]


def test_where_something_has_ended_no_part_is_longer_than_may_be_looked_at() -> None:
    parts = list(queue_of(MANY, 7).count_in_steps())
    assert sum(parts) == MANY - 7
    assert len(parts) > MANY // COUNTED_AT_ONCE - 1
    assert max(parts) <= COUNTED_AT_ONCE


def test_what_comes_and_goes_between_two_parts_does_not_end_the_count() -> None:
    queue = queue_of(MANY, 7)
    counted = 0
    for number, part in enumerate(queue.count_in_steps()):
        counted += part
        queue.pop()
        queue.push(Entry(MANY + number + 1, None, 0, 1, 1, 0, 1, math.inf))
    assert MANY - 14 <= counted <= MANY + 7


def kept_entry(id: int) -> Entry:
    return Entry(id, None, id, 0, 1, 0, 1, math.inf)


class LookedUp(dict[int, Entry]):
    """Entries, and how many were asked for."""

    looks = 0

    def get(self, id: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(id, default)


@pytest.mark.parametrize("gone", [range(1, 900), range(101, 1001), range(1000, 100, -1)])
def test_what_has_gone_from_an_end_is_not_looked_at(gone: range) -> None:
    kept = KeptEntries()
    for id in range(1, 1001):
        kept.add(kept_entry(id))
    for id in gone:
        kept.discard(id)
    left = sorted(set(range(1, 1001)) - set(gone))
    kept._by_id = looked_up = LookedUp(kept._by_id)
    assert [entry.id for entry in kept.after(0, 2)] == left[:2]
    assert [entry.id for entry in kept.before(10_000, 2)] == left[:-3:-1]
    assert looked_up.looks == 4


def test_what_comes_and_goes_in_any_order_is_found_by_its_place() -> None:
    chance, kept, there = random.Random(7), KeptEntries(), set[int]()
    for _ in range(5_000):
        id = chance.randrange(40)
        if chance.random() < 0.5:
            kept.add(kept_entry(id))
            there.add(id)
        else:
            kept.discard(id)
            there.discard(id)
        at, count = chance.randrange(40), chance.randrange(1, 40)
        later, earlier = sorted(id for id in there if id > at), sorted(id for id in there if id < at)
        assert [entry.id for entry in kept.after(at, count)] == later[:count]
        assert [entry.id for entry in kept.before(at, count)] == earlier[::-1][:count]
    assert there
