"""Files that hold secrets: nobody but their owner, and a group that may read, gets at them."""

import os
import stat
from pathlib import Path


def refuse_loose(path: Path) -> None:
    """Raise PermissionError, saying what to do, where others may read the file or its group may write it."""
    mode = path.stat().st_mode
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise PermissionError(f"is open to others (mode {stat.S_IMODE(mode):04o}); do: chmod 600 {path}")


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Create a file that is private from its first byte. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """Put `data` in the place of the file, which keeps its owner, and its mode as far as that is private.

    A reader, or a crash, sees the old file or the new one and nothing between.
    """
    before = path.stat()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        write_new(new, data, before.st_mode & 0o640)
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(new, before.st_uid, before.st_gid)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make what was created, renamed or removed in it survive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
