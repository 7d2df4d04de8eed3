"""What a start does with the files that the last boot left open: cut, end, sync, rename.

After a SIGKILL the file is ahead of the store by what was written and not committed, and may end in part
of a line; after a power loss it may also be behind, and blocks in its middle may be zeros or never written.
These stay, as evidence; the closed name and the closing line tell of the records that are there. Doing it
twice, or being killed in between, changes nothing.
"""

import logging
import os
import zlib
from pathlib import Path

import msgspec

from daemon.hops import closing
from daemon.hops.files import LogFile, closed_name, list_files, read_line
from daemon.system.private_files import sync_directory
from routing.hops import FORMAT_VERSION, Closing, HopRecord
from routing.names import is_server_name

_log = logging.getLogger(__name__)


class _TruePart(msgspec.Struct):
    """What is kept of a file: up to its last record that had come true.

    Attributes:
        bad: lines in it that are no records.
    """

    first: HopRecord
    last: HopRecord
    size_bytes: int
    records: int
    crc32: int
    bad: int


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
    part = _true_part(file.path, true_until)
    if part is None:
        file.path.unlink()
        return
    first, last = part.first.record, part.last.record
    missing = max(last - first + 1 - part.records, 0)  # none, where a record is there twice
    if missing or part.bad:
        _log.warning(
            "the hop log has lost records: of %d to %d in %s %d are missing, and %d lines cannot be read",
            *(first, last, file.path.name, missing, part.bad),
        )
    line = Closing(
        version=FORMAT_VERSION,
        server=part.last.server,
        boot=part.last.boot,
        first=first,
        last=last,
        records=part.records,
        crc32=part.crc32,
    )
    status = file.path.stat()
    with file.path.open("r+b") as opened:
        opened.truncate(part.size_bytes)
        opened.seek(part.size_bytes)
        closing.append(opened.fileno(), part.size_bytes, line)
        # its records are as old as they were: retention takes none that follow for older
        os.utime(opened.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(opened.fileno())
    file.path.rename(file.path.with_name(closed_name(part.last.server, part.last.boot, first, last)))


def _true_part(path: Path, true_until: int) -> _TruePart | None:
    """What to keep; None for nothing."""
    decoder = msgspec.json.Decoder(HopRecord)
    position = crc32 = bad = 0
    part: _TruePart | None = None
    with path.open("rb") as lines:
        for line in lines:
            position += len(line)
            crc32 = zlib.crc32(line, crc32)
            record = read_line(decoder, line)
            if record is None or not is_server_name(record.server):
                bad += 1
                continue
            if record.record > true_until or not line.endswith(b"\n"):
                break
            if part is None:
                part = _TruePart(record, record, position, 1, crc32, bad)
                continue
            part.last, part.size_bytes, part.crc32, part.bad = record, position, crc32, bad
            part.records += 1
    return part
