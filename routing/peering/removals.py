"""Tombstones: which messages have been removed, so that no copy that was late on its way brings one back.

They are kept for a year, by site time, and at most `REMOVALS_MAX` of them: a site that was cut off for longer
may still hold what was removed. Each has a number, rising, so that a peer need not be told again what it has.

Where there are too many, the oldest goes of whoever has told most since this site was started: a peer that
tells of removals without end drives out its own.
"""

import math
from collections.abc import Iterator
from typing import Final

import msgspec

KEPT_S: Final = 366 * 86_400.0
REMOVALS_MAX: Final = 200_000


class Removal(msgspec.Struct, frozen=True, gc=False):
    """A tombstone; `at` is site time, `source` the peer that told it, "" for this site and earlier boots."""

    smuid: str
    topic: str
    number: int
    at: float
    source: str


class Removals:
    """What has been removed, oldest first."""

    def __init__(self) -> None:
        self._by_smuid: dict[str, Removal] = {}
        self._by_source: dict[str, dict[str, None]] = {}  # Smuids
        self._last_number = 0

    def __contains__(self, smuid: object) -> bool:
        """Whether a message has been removed."""
        return smuid in self._by_smuid

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._by_smuid)

    @property
    def oldest_at(self) -> float:
        """Site time of the oldest that is remembered; `inf` where there is none."""
        return next(iter(self._by_smuid.values())).at if self._by_smuid else math.inf

    def note(self, smuid: str, topic: str, at: float, source: str = "") -> Removal:
        """Remember a removal, later than all before it; `make_room` is to follow."""
        self._last_number += 1
        removal = self._by_smuid[smuid] = Removal(smuid, topic, self._last_number, at, source)
        self._by_source.setdefault(source, {})[smuid] = None
        return removal

    def make_room(self) -> str | None:
        """Drop one where there are too many; its Smuid, None where there are not."""
        if len(self._by_smuid) <= REMOVALS_MAX:
            return None
        most = max(self._by_source.values(), key=len)
        smuid = next(iter(most))
        self._drop(smuid)
        return smuid

    def _drop(self, smuid: str) -> None:
        removal = self._by_smuid.pop(smuid)
        of_source = self._by_source[removal.source]
        del of_source[smuid]
        if not of_source:
            del self._by_source[removal.source]

    def after(self, number: int) -> Iterator[Removal]:
        """The removals with greater numbers, in order."""
        newest_first = reversed(self._by_smuid.values())
        found = []
        for removal in newest_first:
            if removal.number <= number:
                break
            found.append(removal)
        return reversed(found)

    def forget(self, now: float) -> None:
        """Drop those that are too old."""
        while self._by_smuid:
            oldest = next(iter(self._by_smuid.values()))
            if oldest.at >= now - KEPT_S:
                return
            self._drop(oldest.smuid)
