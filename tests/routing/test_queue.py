"""What waits is counted in parts, while others change it."""

import math

from routing.queue import COUNTED_AT_ONCE, GONE, Entry, PriorityQueue

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
