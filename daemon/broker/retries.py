"""What found no room on the disk is tried again, but not so that others would have to wait for it.

One after half a second, and each half second twice as many, as long as they find room.
"""

from math import inf
from typing import Final

RETRY_S: Final = 0.5
"""Between tries of what failed."""


class Retries:
    """Of one kind of things, which whoever owns them keeps meanwhile.

    Attributes:
        again_at: site time from which on some are to be tried; `inf` where none waits.
    """

    def __init__(self) -> None:
        self.again_at = inf
        self._count = 1

    @property
    def waiting(self) -> bool:
        """Whether something has found no room, so that all that comes waits behind it."""
        return self.again_at != inf

    def found_no_room(self, now: float) -> None:
        """Begin with one again, later."""
        self.again_at = now + RETRY_S
        self._count = 1

    def due(self, now: float) -> int | None:
        """How many are to be tried now; None for all that there are."""
        if not self.waiting:
            return None
        return self._count if now >= self.again_at else 0

    def tried(self, now: float) -> None:
        """Note that those which were `due` have been tried: twice as many are, later, if more wait."""
        if self.waiting:
            self.again_at = now + RETRY_S
            self._count *= 2

    def none_left(self) -> None:
        """Note that nothing waits any more."""
        self.again_at = inf
