"""When messages expire: deadlines gathered into slots, so that a million of them cost a list each few.

A slot is as wide as a thousandth of the time that is left (never under a millisecond): an expiry is
late by at most that. `inf` is no deadline and is not kept.
"""

import heapq
import math
from typing import Final

from routing.queue import GONE, Entry

SLOT_SHARE: Final = 1024
SLOT_MIN_S: Final = 1 / 1024


class Deadlines:
    """Entries by the time at which they expire."""

    __slots__ = ("_slots", "_times")

    def __init__(self) -> None:
        self._slots: dict[float, list[Entry]] = {}
        self._times: list[float] = []

    def add(self, entry: Entry, now: float) -> None:
        """Note an entry's deadline."""
        left = entry.deadline - now
        if left == math.inf:
            return
        # a power of two keeps slots of messages with nearly the same deadline the same slots
        width = max(SLOT_MIN_S, 2.0 ** math.floor(math.log2(max(left, SLOT_MIN_S) / SLOT_SHARE)))
        slot = math.ceil(entry.deadline / width) * width
        entries = self._slots.get(slot)
        if entries is None:
            entries = self._slots[slot] = []
            heapq.heappush(self._times, slot)
        entries.append(entry)

    def expired(self, now: float) -> list[Entry]:
        """Take out all entries whose slot has ended and that are not finished already."""
        out: list[Entry] = []
        while self._times and self._times[0] <= now:
            out += [e for e in self._slots.pop(heapq.heappop(self._times)) if not e.flags & GONE]
        return out

    def next(self) -> float:
        """Site time of the next expiry; `inf` for none."""
        return self._times[0] if self._times else math.inf
