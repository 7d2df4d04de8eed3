"""When messages expire: deadlines gathered into slots, so that a million of them cost a list each few.

A slot is as wide as a thousandth of the time that is left (never under a millisecond), or as `width_s_max`:
an expiry is late by at most that, and never early. `inf` is no deadline and is not kept. Most messages are
finished long before they expire; so that those do not stay here until then, they are swept out once they are
half of what is here.
"""

import heapq
import math
from typing import Final

from routing.queue import GONE, Entry

SLOT_SHARE: Final = 1024
SLOT_MIN_S: Final = 1 / 1024
SWEEP_MIN: Final = 10_000
"""Finished entries that are worth a sweep."""


class Deadlines:
    """Entries by the time at which they expire."""

    __slots__ = ("_count", "_gone", "_slots", "_times", "_width_s_max")

    def __init__(self, width_s_max: float = math.inf) -> None:
        self._width_s_max = width_s_max
        self._count = 0
        self._gone = 0
        self._slots: dict[float, list[Entry]] = {}
        self._times: list[float] = []

    def add(self, entry: Entry, now: float) -> None:
        """Note an entry's deadline."""
        left = entry.deadline - now
        if left == math.inf:
            return
        # a power of two keeps slots of messages with nearly the same deadline the same slots
        width = SLOT_MIN_S
        if left > SLOT_MIN_S * SLOT_SHARE:
            width = min(math.ldexp(1.0, math.frexp(left / SLOT_SHARE)[1] - 1), self._width_s_max)
        slot = math.ceil(entry.deadline / width) * width
        entries = self._slots.get(slot)
        if entries is None:
            entries = self._slots[slot] = []
            heapq.heappush(self._times, slot)
        entries.append(entry)
        self._count += 1

    def forget(self) -> None:
        """Note that one entry in here has become GONE."""
        self._gone += 1
        if self._gone < SWEEP_MIN or self._gone * 2 < self._count:
            return
        slots = {}
        for slot, entries in self._slots.items():
            if left := [entry for entry in entries if not entry.flags & GONE]:
                slots[slot] = left
        self._slots = slots
        self._times = sorted(slots)
        self._count = sum(map(len, slots.values()))
        self._gone = 0

    def expired(self, now: float) -> list[Entry]:
        """Take out all entries whose slot has ended and that are not finished already."""
        out: list[Entry] = []
        while self._times and self._times[0] <= now:
            entries = self._slots.pop(heapq.heappop(self._times))
            waiting = [entry for entry in entries if not entry.flags & GONE]
            self._count -= len(entries)
            self._gone -= len(entries) - len(waiting)
            out += waiting
        return out

    def next(self) -> float:
        """Site time of the next expiry; `inf` for none."""
        return self._times[0] if self._times else math.inf
