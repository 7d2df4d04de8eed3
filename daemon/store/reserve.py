"""Room on the disk that a site keeps for the day when there is none left.

To finish a message takes room before it gives any back: the write-ahead log grows, and so does the hop log.
So a file of nothing lies beside the store. Once the disk is full it is given up but for its last part, and
with the room that it had the site answers, delivers and finishes what it holds; it takes no messages until
there is room for the file again. The last part is for a start, which has to write before anything can be
finished.
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

LAST_SHARE: Final = 4
"""One part in so many of the file is the last one."""

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

    @property
    def last_bytes(self) -> int:
        """What a start needs to have free."""
        return self.size_bytes // LAST_SHARE

    @property
    def room_bytes(self) -> int:
        """What there is with what giving it up gives."""
        return self.free_bytes + (self.size_bytes - self.last_bytes if self.held else 0)

    def take(self) -> bool:
        """Have the file, as far as there is room for it and as much more, so that it is not given up at once.

        Where there is not, have its last part. Raises OSError where the disk can have no such file.
        """
        there = self._there()
        self.held = there >= self.size_bytes or self._make(self.size_bytes, there)
        self.given_up = not self.held
        if self.given_up and there < self.last_bytes:
            self._make(self.last_bytes, there)
        return self.held

    def _there(self) -> int:
        try:
            return self._path.stat().st_blocks * 512
        except FileNotFoundError:
            return 0

    def _make(self, size_bytes: int, there: int) -> bool:
        if self.free_bytes + there < 2 * size_bytes:
            return False
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError as error:
            self._path.unlink()
            if error.errno in FULL:
                return False
            raise
        finally:
            os.close(descriptor)
        return True

    def give_room(self) -> None:
        """Give all of it up where a start could not write what every start writes."""
        if self.free_bytes < self.last_bytes:
            self.given_up, self.held = True, False
            self._path.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """Let go of all but the last part; whether there was more, so that there is room now."""
        self.given_up, self.held = True, False
        if self._there() <= self.last_bytes:
            return False
        os.truncate(self._path, self.last_bytes)
        return True
