"""What waits in many topics, in one order: for subscriptions to patterns that take messages of mode ONE.

A message waits in the queue of its topic alone. Here is only, for each topic, what was first in that queue
when it was last looked at, or came since and is before that: never behind what is first now. So what is first
of all is found by looking again at the topics that seem to have it.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from routing.queue import Entry, PriorityQueue

_Rank = tuple[int, int]


class WaitingTopics:
    """The queues of topics, as one.

    Args:
        queue_of: the queue of a topic; None where the topic is not there.
    """

    __slots__ = ("_first", "_queue_of", "_standing")

    def __init__(self, queue_of: Callable[[str], PriorityQueue | None]) -> None:
        self._queue_of = queue_of
        self._standing: dict[str, _Rank] = {}
        self._first: list[tuple[_Rank, str]] = []

    def note(self, topic: str, entry: Entry) -> None:
        """Note that a message waits in a topic."""
        rank = -entry.priority, entry.id
        standing = self._standing.get(topic)
        if standing is None or rank < standing:
            self._standing[topic] = rank
            heappush(self._first, (rank, topic))

    def peek(self) -> Entry | None:
        """The most urgent message of all, and of these the oldest; None where nothing waits."""
        first, standing = self._first, self._standing
        while first:
            rank, topic = first[0]
            if standing.get(topic) != rank:
                heappop(first)  # one that came later is before it
                continue
            queue = self._queue_of(topic)
            entry = queue.peek() if queue is not None else None
            if entry is None:
                heappop(first)
                del standing[topic]
                continue
            now = -entry.priority, entry.id
            if now == rank:
                return entry
            standing[topic] = now
            heapreplace(first, (now, topic))
        return None

    def pop(self) -> Entry:
        """Take the message that `peek` has just shown."""
        queue = self._queue_of(self._first[0][1])
        assert queue is not None
        return queue.pop()
