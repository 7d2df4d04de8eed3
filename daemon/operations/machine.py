"""What the site takes of the machine."""

import os
from pathlib import Path


def memory_bytes() -> int:
    """What the process has in memory; 0 where that cannot be known."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def disk_free_bytes(directory: Path) -> int:
    """Room on the disk of a directory for who is not root; 0 where that cannot be known."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
