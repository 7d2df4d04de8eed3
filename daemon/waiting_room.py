"""Copies from peers that there is no room for: they wait in memory, unacknowledged, until there is.

That is the back-pressure across a link. A sender has only so many copies unacknowledged (its window, which
this site has told it), so no more than that many wait here for each peer; then the peer holds the rest, which
are on its disk, and its publishers are refused when it is full in turn. Nothing is lost: a copy that waits
here is still the sender's. While its window has room, copies to other topics pass those that wait.

Copies to one topic keep their order: once one waits, so do those that follow it.
"""

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from routing.federation.copies import Arrival


class _Waiting(msgspec.Struct, frozen=True):
    arrival: Arrival
    since: float


class WaitingRoom:
    """Owned by the broker's side of the links.

    Args:
        has_room: whether a copy of so many bytes to a topic can be held now.
    """

    def __init__(self, has_room: Callable[[str, int], bool]) -> None:
        self._has_room = has_room
        self._topics: dict[str, deque[_Waiting]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._topics.values())

    def takes(self, arrival: Arrival, now: float) -> bool:
        """Whether the copy has to wait, and does from now on. One without a guarantee never does."""
        topic = arrival.topic
        if not arrival.number or (
            topic not in self._topics and self._has_room(topic, arrival.message.size_bytes)
        ):
            return False
        self._topics.setdefault(topic, deque()).append(_Waiting(arrival, now))
        return True

    def leaving(self, now: float) -> Iterator[Arrival]:
        """The copies for which there is room, as they would come now; each is to be held before the next."""
        for topic in list(self._topics):
            waiting = self._topics[topic]
            while waiting and self._has_room(topic, waiting[0].arrival.message.size_bytes):
                one = waiting.popleft()
                arrival = one.arrival
                if arrival.timeout_left_s is not None:
                    left_s = max(arrival.timeout_left_s - (now - one.since), 0.0)
                    arrival = msgspec.structs.replace(arrival, timeout_left_s=left_s)
                yield arrival
            if not waiting:
                del self._topics[topic]

    def forget(self, peer: str) -> list[int]:
        """The link with a peer is gone: it sends its copies again by the next. Returns their numbers."""
        forgotten: list[int] = []
        for topic, waiting in list(self._topics.items()):
            kept = deque(one for one in waiting if one.arrival.peer != peer)
            forgotten += (one.arrival.number for one in waiting if one.arrival.peer == peer)
            if kept:
                self._topics[topic] = kept
            else:
                del self._topics[topic]
        return forgotten
