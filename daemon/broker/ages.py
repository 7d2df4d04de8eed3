"""When messages were stored: about, and only of those of lately, since a million of them may wait."""

from bisect import bisect_left
from typing import Final

APART_S: Final = 0.005
"""What was stored within so long is one."""

KEPT_MAX: Final = 4_096
"""At least 20 s of them, which is longer than any step of a histogram."""


class Ages:
    """Told of each transaction; ids of messages rise."""

    def __init__(self, newest_id: int, now: float) -> None:
        """What is there already, up to this id, counts from `now`."""
        self.newest_id = newest_id
        self._ids = [newest_id]
        self._stored_at = [now]

    def stored(self, newest_id: int, now: float) -> None:
        """Note that messages up to this id are on disk, at `now`."""
        self.newest_id = newest_id
        if now - self._stored_at[-1] < APART_S:
            self._ids[-1] = newest_id
            return
        self._ids.append(newest_id)
        self._stored_at.append(now)
        if len(self._ids) > 2 * KEPT_MAX:
            del self._ids[:KEPT_MAX], self._stored_at[:KEPT_MAX]

    def stored_at(self, id: int) -> float:
        """When a message was stored; of one that has long been there, a time that was later."""
        return self._stored_at[min(bisect_left(self._ids, id), len(self._ids) - 1)]
