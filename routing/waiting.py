"""What waits in many queues, in one order: in topics, for subscriptions to patterns; in groups of messages.

A message waits in its own queue alone. Here is only, for each queue, what was first in it when it was last
looked at, or came since and is before that: never behind what is first now. So what is first of all is found
by looking again at the queues that seem to have it.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

from routing.queue import Entry, PriorityQueue

SWEPT_FROM: Final = 1_000
"""Notes that may be of queues in which nothing waits any more; more only where as many are of others."""

_Rank = tuple[int, int]
_Key = TypeVar("_Key")


class WaitingQueues(Generic[_Key]):
    """Queues, as one.

    Args:
        queue_of: the queue of this name; None where it is not there, or not to be taken from.
    """

    __slots__ = ("_first", "_queue_of", "_standing", "_sweep_at")

    def __init__(self, queue_of: Callable[[_Key], PriorityQueue | None]) -> None:
        self._queue_of = queue_of
        self._standing: dict[_Key, _Rank] = {}
        self._first: list[tuple[_Rank, _Key]] = []
        self._sweep_at = SWEPT_FROM

    def note(self, key: _Key, entry: Entry) -> None:
        """Note that a message waits in a queue."""
        rank = -entry.priority, entry.id
        standing = self._standing.get(key)
        if standing is None or rank < standing:
            self._standing[key] = rank
            heappush(self._first, (rank, key))
            if len(self._first) > self._sweep_at:
                self._sweep()

    def note_found(self, key: _Key, entry: Entry) -> None:
        """Note as `note` does, where it is looked for what waits: of that, nothing can be forgotten."""
        self._sweep_at = max(self._sweep_at, 2 * len(self._first) + 2)
        self.note(key, entry)

    def _sweep(self) -> None:
        """Forget the queues in which nothing waits any more: where nobody takes anything, nobody looks."""
        found = ((key, self._peek_of(key)) for key in self._standing)
        self._standing = {key: (-entry.priority, entry.id) for key, entry in found if entry is not None}
        self._first = [(rank, key) for key, rank in self._standing.items()]
        heapify(self._first)
        self._sweep_at = max(SWEPT_FROM, 2 * len(self._first))

    def _peek_of(self, key: _Key) -> Entry | None:
        queue = self._queue_of(key)
        return queue.peek() if queue is not None else None

    def peek(self) -> Entry | None:
        """The most urgent message of all, and of these the oldest; None where nothing waits."""
        first, standing = self._first, self._standing
        while first:
            rank, key = first[0]
            if standing.get(key) != rank:
                heappop(first)  # one that came later is before it
                continue
            entry = self._peek_of(key)
            if entry is None:
                heappop(first)
                del standing[key]
                continue
            now = -entry.priority, entry.id
            if now == rank:
                return entry
            standing[key] = now
            heapreplace(first, (now, key))
        return None

    def pop(self) -> Entry:
        """Take the message that `peek` has just shown."""
        queue = self._queue_of(self._first[0][1])
        assert queue is not None
        return queue.pop()
