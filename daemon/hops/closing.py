"""The line that closes a file of the hop log: what is before it, and a checksum of that.

A file gets it last of all, then it is synced and renamed. A power cut in between leaves a file that is open
by its name, with part of the line, or all of it: the next start cuts that off and closes the file anew.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from daemon.hops.files import read_line
from routing.hops import Closing

LINE_BYTES_MAX: Final = 1_024
"""Above the longest: a server's name has at most 261 characters."""

_decoder: Final = msgspec.json.Decoder(Closing)


def append(descriptor: int, size_bytes: int, closing: Closing) -> None:
    """Write the line behind the `size_bytes` of a file.

    A disk that has no room for it leaves a file without: its name still tells which records are in it.
    """
    rest = memoryview(msgspec.json.encode(closing) + b"\n")
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size_bytes)


def find(path: Path) -> tuple[Closing, int] | None:
    """The closing line and the bytes before it; None for a file without. Raises OSError."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(size_bytes - LINE_BYTES_MAX, 0))
        tail = file.read(LINE_BYTES_MAX)
    start = tail.rfind(b"\n", 0, len(tail) - 1) + 1
    closing = decode(tail[start:])
    return None if closing is None else (closing, size_bytes - len(tail) + start)


def decode(line: bytes) -> Closing | None:
    """The closing line; None for any other."""
    return read_line(_decoder, line)
