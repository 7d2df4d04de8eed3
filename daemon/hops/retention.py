"""Deletes the oldest files of a hop log by age and by total size.

Which are older the order of the records tells, where the clock was set: a file that is missing between two
others is a loss of records.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from daemon.hops.files import LogFile, list_files
from daemon.settings import HopSettings

_log = logging.getLogger(__name__)


def delete_old(directory: Path, settings: HopSettings, now_s: float) -> int:
    """Delete files that are too old, then the oldest until the rest fits; returns how many.

    The open file counts but is never deleted; one that could not be closed, and lies open among closed ones,
    is. A file that cannot be deleted is reported and passed over.
    """
    files = list_files(directory)
    total_bytes = sum(file.size_bytes for file in files)
    deleted = 0
    closed = max((at for at, file in enumerate(files) if not file.is_open), default=-1)
    for file, written_s in zip(files[: closed + 1], _written(files, now_s), strict=False):
        too_old = now_s - written_s > settings.retention_s
        if not (too_old or total_bytes > settings.retention_bytes_max):
            continue
        try:
            file.path.unlink(missing_ok=True)
        except OSError as error:
            _log.error("an old file of the hop log cannot be deleted: %s", error)
            continue
        total_bytes -= file.size_bytes
        deleted += 1
    return deleted


def _written(files: Iterable[LogFile], now_s: float) -> list[float]:
    """When each file was last written, by their order where the clock does not agree with that.

    None was written before those in front of it. What the clock says to be still to come was written when the
    next file was, or is new.
    """
    found: list[float | None] = []
    newest_s = 0.0
    for file in files:
        is_to_come = file.written_s > now_s
        newest_s = newest_s if is_to_come else max(newest_s, file.written_s)
        found.append(None if is_to_come else newest_s)
    next_s = now_s
    times = []
    for time_s in reversed(found):
        next_s = next_s if time_s is None else time_s
        times.append(next_s)
    return times[::-1]
