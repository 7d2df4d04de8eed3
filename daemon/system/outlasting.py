"""Memory that outlasts the process, and never the machine; on no disk unless it swaps.

    kept by the service manager    a file without a name (memfd): gone once the service stops
    kept by nobody                 shared memory with a name (shm_overview(7)), which its own user alone can
                                   open: gone with the machine, or with the first start an hour after its use

What is read from it was written by an earlier process, perhaps of an earlier version, and perhaps not to its
end: each record has a checksum, and reading ends at the first that is wrong.
"""

import fcntl
import hashlib
import os
import stat
import struct
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 16 * 1024 * 1024
"""More is neither written nor read."""

SHARED_MEMORY: Final = Path("/dev/shm")
"""Anybody may make files there, so one that is found is looked at."""

PREFIX: Final = "smqpd-memory-"

UNUSED_S: Final = 3_600.0
"""Named memory that was not written for so long, and that no process has, is removed."""

_HEAD: Final = struct.Struct(">II")  # length, CRC-32


class OutlastingMemory:
    """Records, in the order in which they were appended. Owns its file descriptor."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of memory that is there, or of what `create` has made."""
        self.descriptor = descriptor
        self._length = min(os.fstat(descriptor).st_size, BYTES_MAX)

    @classmethod
    def create(cls) -> "OutlastingMemory":
        """Empty memory. Raises OSError where the system gives none."""
        return cls(os.memfd_create("smqpd", os.MFD_CLOEXEC))

    @classmethod
    def named(cls, owner: Path, directory: Path = SHARED_MEMORY) -> "OutlastingMemory | None":
        """The memory that an earlier process had for `owner`, a path, or new memory.

        It is this process's alone as long as that runs. None where the system has no shared memory, or
        somebody else has made a file of that name.
        """
        if not _is_in_memory(directory):
            return None
        _remove_unused(directory)
        name = PREFIX + hashlib.blake2b(os.fsencode(owner.resolve()), digest_size=16).hexdigest()
        try:
            descriptor = _open_alone(directory / name)
        except OSError:
            return None
        return None if descriptor is None else cls(descriptor)

    def read(self) -> list[bytes]:
        """All records that are whole; what is appended from now on follows them."""
        data, records, at = os.pread(self.descriptor, self._length, 0), [], 0
        while at + _HEAD.size <= len(data):
            length, checksum = _HEAD.unpack_from(data, at)
            record = data[at + _HEAD.size : at + _HEAD.size + length]
            if len(record) != length or zlib.crc32(record) != checksum:
                break
            records.append(record)
            at += _HEAD.size + length
        self._length = at
        return records

    def append(self, record: bytes) -> bool:
        """Write a record behind the others; False where there is no room for it."""
        data = _HEAD.pack(len(record), zlib.crc32(record)) + record
        if self._length + len(data) > BYTES_MAX:
            return False
        try:
            written = os.pwrite(self.descriptor, data, self._length)
        except OSError:  # no memory left
            return False
        if written < len(data):
            return False
        self._length += written
        return True

    def replace(self, records: Iterable[bytes]) -> None:
        """Forget all records, and write these. Who is killed meanwhile leaves the first ones."""
        os.ftruncate(self.descriptor, 0)
        self._length = 0
        for record in records:
            if not self.append(record):
                return


def _is_in_memory(directory: Path) -> bool:
    """Whether this is where a file system in memory begins: a container may have made a directory of it."""
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return any(mount.split()[4] == str(directory) and " - tmpfs " in mount for mount in mounts)
    return False


def _open_alone(path: Path, flags: int = os.O_CREAT) -> int | None:
    """Open a file that is this user's, private, and open in no other process; None where it is not."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        is_private = stat.S_ISREG(found.st_mode) and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if is_private and found.st_uid == os.geteuid() and found.st_nlink == 1:
            return descriptor
    os.close(descriptor)
    return None


def _remove_unused(directory: Path) -> None:
    """Remove what sites of this user have left there that run no more."""
    for path in directory.glob(PREFIX + "*"):
        with suppress(OSError):
            if path.lstat().st_mtime > time.time() - UNUSED_S:
                continue
            if (descriptor := _open_alone(path, 0)) is not None:
                path.unlink()
                os.close(descriptor)
