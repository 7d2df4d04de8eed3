"""Copies from peers for which there is no room: deferred, in memory and unacknowledged, until there is.

That is the back-pressure across a link. A sender has only so many copies unacknowledged (its window, which
this site has told it), so no more than that many wait here for each peer; then the peer holds the rest, which
are on its disk, and its publishers are refused when it is full in turn. Nothing is lost: a copy that waits
here is still the sender's. While its window has room, copies to other topics pass those that wait.

Copies from one peer to one topic keep their order: once one waits, so do those that follow it. Those that
take no room, since the message is or was here, are answered at once.

One that had room, as far as was known, and then found none on the disk, comes back here with all that were
taken with it, and they are tried little by little: see `daemon.broker.retries`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from daemon.broker.retries import Retries
from routing.peering.copies import Arrival


class _Deferred(msgspec.Struct, frozen=True):
    arrival: Arrival
    since: float


class DeferredCopies:
    """Owned by the broker's side of the links.

    Args:
        has_room: whether there is room for a copy now.
        would_hold: whether it takes any; one that does not never waits.
    """

    def __init__(self, has_room: Callable[[Arrival], bool], would_hold: Callable[[Arrival], bool]) -> None:
        self._has_room = has_room
        self._would_hold = would_hold
        self._queues: dict[tuple[str, str], deque[_Deferred]] = {}  # by peer and topic
        self._retries = Retries()

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._queues.values())

    @property
    def again_at(self) -> float:
        """Site time from which on copies are tried again that found no room on the disk; `inf` for none."""
        return self._retries.again_at

    def defer(self, arrival: Arrival, now: float) -> bool:
        """Keep a copy for which there is no room. False where it does not have to wait, and is not kept.

        One without a guarantee never waits.
        """
        queue = (arrival.peer, arrival.topic)
        passes = queue not in self._queues and not self._retries.waiting
        if arrival.unit is None or (passes and self._has_room(arrival)):
            return False
        if not self._would_hold(arrival):
            return False
        self._queues.setdefault(queue, deque()).append(_Deferred(arrival, now))
        return True

    def put_back(self, arrivals: Sequence[Arrival], now: float) -> None:
        """Keep copies again that were taken, in order; for the first there was no room on the disk."""
        self._retries.found_no_room(now)
        for arrival in reversed(arrivals):
            queue = self._queues.setdefault((arrival.peer, arrival.topic), deque())
            queue.appendleft(_Deferred(arrival, now))
        first = (arrivals[0].peer, arrivals[0].topic)
        self._queues[first] = self._queues.pop(first)  # behind the others

    def admit(self, now: float) -> Iterator[Arrival]:
        """Yield, and forget, the copies for which there is room now; each is to be held before the next.

        Their `timeout_left_s` is what is left of it now.
        """
        tried = False
        for arrival in islice(self._admit(now), self._retries.due(now)):
            tried = True
            yield arrival
        for queue in [queue for queue, waiting in self._queues.items() if not waiting]:
            del self._queues[queue]
        if not self._queues:
            self._retries.none_left()
        elif tried:
            self._retries.tried(now)

    def _admit(self, now: float) -> Iterator[Arrival]:
        for waiting in list(self._queues.values()):
            while waiting and self._may_leave(waiting[0].arrival):
                one = waiting.popleft()
                arrival = one.arrival
                if arrival.timeout_left_s is not None:
                    left_s = max(arrival.timeout_left_s - (now - one.since), 0.0)
                    arrival = msgspec.structs.replace(arrival, timeout_left_s=left_s)
                yield arrival

    def _may_leave(self, arrival: Arrival) -> bool:
        return self._has_room(arrival) or not self._would_hold(arrival)

    def forget(self, peer: str) -> None:
        """Forget the copies of a peer whose link is gone: it sends them again by the next."""
        for queue in [queue for queue in self._queues if queue[0] == peer]:
            del self._queues[queue]
