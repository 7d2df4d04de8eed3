"""Room on the disk that a site keeps for the day when there is none left.

To finish a message takes room before it gives any back: the write-ahead log grows, and so does the hop log.
So a file of nothing lies beside the store. Once the disk is full it is given up, and with the room that it
had the site answers, delivers and finishes what it holds; it takes no messages until there is room for the
file again.
"""

import errno
import os
import shutil
from pathlib import Path
from typing import Final

RESERVE: Final = "reserve"
RESERVE_BYTES_MAX: Final = 96 * 2**20
"""Half as much again as the write-ahead log may hold: moved into the store, that can take its size again."""

DISK_SHARE: Final = 16
"""One part in so many of a small disk."""

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """The file, owned by the broker. Its calls only make and remove it, and may be made in a thread.

    Attributes:
        held: it is there.
        given_up: it was given up, or there was no room for it, and there is still none.
        size_bytes: what it has where it is there.
    """

    def __init__(self, directory: Path) -> None:
        self.held = self.given_up = False
        self._path = directory / RESERVE
        self._directory = directory
        self.size_bytes = min(RESERVE_BYTES_MAX, shutil.disk_usage(directory).total // DISK_SHARE)

    @property
    def free_bytes(self) -> int:
        """What else there is on the disk."""
        return shutil.disk_usage(self._directory).free

    def take(self) -> bool:
        """Have the file, as far as there is room for it and as much more, so that it is not given up at once.

        Raises OSError where the disk can have no such file.
        """
        try:
            there = self._path.stat().st_blocks * 512
        except FileNotFoundError:
            there = 0
        self.held = there >= self.size_bytes or self._make(there)
        self.given_up = not self.held
        return self.held

    def _make(self, there: int) -> bool:
        if self.free_bytes + there < 2 * self.size_bytes:
            return False
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size_bytes)
        except OSError as error:
            self._path.unlink()
            if error.errno in FULL:
                return False
            raise
        finally:
            os.close(descriptor)
        return True

    def give_room(self) -> None:
        """Give it up where a start could not write what every start writes."""
        if self.free_bytes < self.size_bytes // 4:
            self.give_up()

    def give_up(self) -> bool:
        """Let go of the file; whether it was there, so that there is room now."""
        self.given_up, self.held = True, False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True
