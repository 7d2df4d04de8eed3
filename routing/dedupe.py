"""Publishing exactly once: which Cmuids of a publisher are known, and the Smuid each was given.

The window is bounded by time, by number for each publisher (account and channel), and by number for all: a
publisher that lost its connection repeats what was unanswered, and a session may have no more unanswered
than `CMUIDS_PER_PUBLISHER` holds twice over. Where there are too many in all, publishers lose their oldest in
turn. Source: routing contract 1, Cmuid.
"""

from collections import OrderedDict
from typing import Final

import msgspec

CMUIDS_PER_PUBLISHER: Final = 20_000
CMUIDS_MAX: Final = 1_000_000
"""About 300 MB; as many as the store keeps."""


class _Known(msgspec.Struct, gc=False):
    smuid: str
    at: float


class Publications:
    """The Cmuids that are known."""

    __slots__ = ("_count", "_publishers")

    def __init__(self) -> None:
        self._count = 0
        self._publishers: OrderedDict[str, OrderedDict[str, _Known]] = OrderedDict()

    def known(self, publisher: str, cmuid: str) -> str | None:
        """The Smuid that was given to this Cmuid, or None where it is new."""
        cmuids = self._publishers.get(publisher)
        found = cmuids.get(cmuid) if cmuids else None
        return found.smuid if found else None

    def add(self, publisher: str, cmuid: str, smuid: str, now: float) -> None:
        """Remember a publication."""
        cmuids = self._publishers.get(publisher)
        if cmuids is None:
            cmuids = self._publishers[publisher] = OrderedDict()
        self._count += cmuid not in cmuids
        cmuids[cmuid] = _Known(smuid, now)
        if len(cmuids) > CMUIDS_PER_PUBLISHER:
            self._forget_oldest(publisher, cmuids)
        elif self._count > CMUIDS_MAX:
            turn = next(iter(self._publishers))
            self._publishers.move_to_end(turn)
            self._forget_oldest(turn, self._publishers[turn])

    def add_older(self, publisher: str, cmuid: str, smuid: str, at: float) -> None:
        """Remember a publication that came before all that are known, where there is room for it."""
        cmuids = self._publishers.get(publisher) or OrderedDict()
        if cmuid in cmuids or len(cmuids) >= CMUIDS_PER_PUBLISHER or self._count >= CMUIDS_MAX:
            return
        self._publishers[publisher] = cmuids
        cmuids[cmuid] = _Known(smuid, at)
        cmuids.move_to_end(cmuid, last=False)
        self._count += 1

    def forget(self, publisher: str, cmuid: str) -> None:
        """Undo `add`: the publication did not come true."""
        cmuids = self._publishers.get(publisher)
        if cmuids and cmuids.pop(cmuid, None) is not None:
            self._count -= 1
            if not cmuids:
                del self._publishers[publisher]

    def expire(self, before: float) -> None:
        """Forget what was published before a time."""
        for publisher, cmuids in list(self._publishers.items()):
            while cmuids and next(iter(cmuids.values())).at < before:
                self._forget_oldest(publisher, cmuids)

    def _forget_oldest(self, publisher: str, cmuids: "OrderedDict[str, _Known]") -> None:
        cmuids.popitem(last=False)
        self._count -= 1
        if not cmuids:
            del self._publishers[publisher]
