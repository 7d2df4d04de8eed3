"""Memory that outlasts the process: the service manager keeps it while the service restarts.

A file without a name in memory (memfd), never on a disk unless the machine swaps; it is gone once the service
stops, and with the machine. What is read from it was written by an earlier process, perhaps of an earlier
version, and perhaps not to its end: each record has a checksum, and reading ends at the first that is wrong.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from typing import Final

BYTES_MAX: Final = 16 * 1024 * 1024
"""More is neither written nor read."""

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
        self._length += os.pwrite(self.descriptor, data, self._length)
        return True

    def replace(self, records: Iterable[bytes]) -> None:
        """Forget all records, and write these. Who is killed meanwhile leaves the first ones."""
        os.ftruncate(self.descriptor, 0)
        self._length = 0
        for record in records:
            if not self.append(record):
                return
