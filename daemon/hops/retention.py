"""Deletes the oldest closed files of a hop log by age and by total size."""

import logging
from pathlib import Path

from daemon.hops.files import list_files
from daemon.settings import HopSettings

_log = logging.getLogger(__name__)


def delete_old(directory: Path, settings: HopSettings, now_s: float) -> int:
    """Delete closed files that are too old, then the oldest until the rest fits; returns how many.

    The open file counts but is never deleted. A file that cannot be deleted is reported and passed over.
    """
    files = list_files(directory)
    total_bytes = sum(file.size_bytes for file in files)
    deleted = 0
    for file in files:
        too_old = now_s - file.written_s > settings.retention_s
        if file.is_open or not (too_old or total_bytes > settings.retention_bytes_max):
            continue
        try:
            file.path.unlink(missing_ok=True)
        except OSError as error:
            _log.error("an old file of the hop log cannot be deleted: %s", error)
            continue
        total_bytes -= file.size_bytes
        deleted += 1
    return deleted
