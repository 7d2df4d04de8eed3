"""What a start does with the files that the last boot left open: cut, sync, rename.

After a SIGKILL the file is ahead of the store by what was written and not committed, and may end in part
of a line; after a power loss it may also be behind. Doing it twice, or being killed in between, changes
nothing.
"""

import os
from pathlib import Path

import msgspec

from daemon.hops.files import LogFile, closed_name, list_files
from daemon.private_files import sync_directory


class _Mark(msgspec.Struct):
    """Of a record, what names the file that holds it."""

    server: str
    boot: int
    record: int


def close_left_open(directory: Path, committed_record: int) -> None:
    """Close every open file, without the records that never came true.

    Those are the ones beyond `committed_record`, and beyond every closed file: only what had come true was
    ever closed. A file of which nothing is left is deleted.
    """
    files = list_files(directory)
    true_until = max([committed_record, *(file.last or 0 for file in files)])
    left_open = [file for file in files if file.is_open]
    for file in left_open:
        _close(file, true_until)
    if left_open:
        sync_directory(directory)


def _close(file: LogFile, true_until: int) -> None:
    kept_bytes, last = _true_part(file.path, true_until)
    if last is None:
        file.path.unlink()
        return
    with file.path.open("r+b") as opened:
        opened.truncate(kept_bytes)
        os.fsync(opened.fileno())
    file.path.rename(file.path.with_name(closed_name(last.server, last.boot, file.first, last.record)))


def _true_part(path: Path, true_until: int) -> tuple[int, _Mark | None]:
    """How many bytes to keep, and the last record in them."""
    decoder = msgspec.json.Decoder(_Mark)
    position = kept_bytes = 0
    last = None
    with path.open("rb") as lines:
        for line in lines:
            position += len(line)
            try:
                mark = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if mark.record > true_until or not line.endswith(b"\n"):
                break
            kept_bytes, last = position, mark
    return kept_bytes, last
