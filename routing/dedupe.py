"""Publishing exactly once: which Cmuids of a publisher are known, and the Smuid each was given.

The window is bounded by number for each publisher (account and channel) and by time for all: a
publisher that lost its connection repeats what was unanswered, and a session may have no more
unanswered than `CMUIDS_PER_PUBLISHER` holds twice over. Source: routing contract 1, Cmuid.
"""

from collections import OrderedDict
from typing import Final

import msgspec

CMUIDS_PER_PUBLISHER: Final = 20_000


class _Known(msgspec.Struct, gc=False):
    smuid: str
    at: float


class Publications:
    """The Cmuids of the last `window_s` seconds."""

    __slots__ = ("_publishers", "_window_s")

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._publishers: dict[str, OrderedDict[str, _Known]] = {}

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
        cmuids[cmuid] = _Known(smuid, now)
        if len(cmuids) > CMUIDS_PER_PUBLISHER:
            cmuids.popitem(last=False)

    def forget(self, publisher: str, cmuid: str) -> None:
        """Undo `add`: the publication did not come true."""
        if cmuids := self._publishers.get(publisher):
            cmuids.pop(cmuid, None)

    def expire(self, now: float) -> None:
        """Forget what is older than the window."""
        for publisher, cmuids in list(self._publishers.items()):
            while cmuids and next(iter(cmuids.values())).at < now - self._window_s:
                cmuids.popitem(last=False)
            if not cmuids:
                del self._publishers[publisher]
