"""What a site does with a disk that is full: it takes no messages, and finishes those that it has.

The room for that comes from the reserve (`daemon.store.reserve`), which is given up at the first write that
finds none; what is finished gives room back, bit by bit, while the write-ahead log is kept short. Once there
is room for the reserve again, messages are taken again.
"""

import logging
import math
from typing import Final

import trio

from daemon.store.reserve import Reserve
from routing.errors import Refusal

_log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
"""Whether there is room again."""

SHORT_S: Final = 5.0
"""At least, once the disk was full."""

CALM_S: Final = 60.0
"""A disk that is full and has room in turns is said to be full this often."""

SHORT_WAL_BYTES: Final = 2**20
"""While the disk is full, the write-ahead log is emptied this soon."""

SHORT_PAGES: Final = 16
PAGES_PER_FREE_BYTE: Final = 1 / 32_768
"""While the disk is full, so many free pages of the store are given back with each transaction, and more as
there is more room: to move others into their place takes some, too."""


class DiskRoom:
    """Owned by the broker; without a reserve it knows of no full disk."""

    def __init__(self, reserve: Reserve | None) -> None:
        self._reserve = reserve
        self._full_at = self._told_at = -math.inf
        if self.short:
            self._tell()

    def _tell(self) -> None:
        self._full_at = trio.current_time()
        if self._full_at - self._told_at >= CALM_S:
            self._told_at = self._full_at
            _log.error("the disk is full: no messages are taken until there is room, those held are finished")

    @property
    def short(self) -> bool:
        """Whether the disk is full, as far as is known."""
        return self._reserve is not None and self._reserve.given_up

    def check(self) -> None:
        """Raises Refusal where no message is taken."""
        if self.short:
            text = "the disk of the site is full; it takes messages again once there is room"
            raise Refusal(Refusal.STORE_FAILED, text)

    def make(self) -> bool:
        """Give up the reserve, since something could not be written; whether that may help."""
        reserve = self._reserve
        if reserve is None or not reserve.held or reserve.free_bytes >= reserve.size_bytes:
            return False
        self._tell()
        return reserve.give_up()

    async def look(self) -> None:
        """Take the reserve again if there is room for it."""
        reserve = self._reserve
        assert reserve is not None
        if trio.current_time() - self._full_at < SHORT_S:
            return
        try:
            if await trio.to_thread.run_sync(reserve.take) and self._full_at == self._told_at:
                _log.warning("there is room on the disk again: messages are taken")
        except OSError as error:
            _log.error("the reserve on the disk cannot be taken: %s", error)

    def wal_bytes_max(self, usual: int) -> int:
        """Bytes from which on the write-ahead log is to be emptied; `usual` where there is room enough."""
        if self._reserve is None:
            return usual
        size_bytes = self._reserve.size_bytes
        return min(SHORT_WAL_BYTES, size_bytes // 8) if self.short else min(usual, size_bytes * 2 // 3)

    def returned_pages(self, growth_bytes: int) -> int:
        """How many free pages of the store to give back with a transaction: none before the log is moved."""
        if not self.short or self._reserve is None or growth_bytes:
            return 0
        return max(SHORT_PAGES, int(self._reserve.free_bytes * PAGES_PER_FREE_BYTE))

    def wants_back(self, unused_bytes: int) -> bool:
        """Whether to give back more free pages of the store at once, of which there are so many bytes."""
        if not self.short or self._reserve is None:
            return False
        return unused_bytes > 0 and self._reserve.free_bytes < 2 * self._reserve.size_bytes

    def could_move(self, growth_bytes: int) -> bool:
        """Whether there is room, with the reserve, for a file that grows by so much, and for more commits.

        What is in the log when the disk is full has to be moved before anything gives room back.
        """
        reserve = self._reserve
        if reserve is None or growth_bytes <= reserve.size_bytes // 4:
            return True
        return growth_bytes + reserve.size_bytes // 2 <= reserve.room_bytes

    def lets_grow(self, growth_bytes: int) -> bool:
        """Whether a file may grow by so much: half done, that would take the room and give back none."""
        return not self.short or self._reserve is None or growth_bytes < self._reserve.free_bytes
