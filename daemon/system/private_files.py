"""Files of a site that people and commands change: whole or not at all, private unless said otherwise."""

import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TRY_EVERY_S: Final = 0.05
"""Of a lock that is not waited for without end."""

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_renameat2: Final[Callable[..., int] | None] = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


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


def replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put `data` in the place of the file, which keeps its owner.

    A reader, or a crash, sees the old file or the new one and nothing between. One that is not there is made,
    by root for the owner of its directory: who runs the daemon has to read it. `mode`: None to keep what it
    is, as far as that is private.
    """
    is_there = path.exists()
    owner = (path if is_there else path.parent).stat()
    if mode is None:
        mode = owner.st_mode & 0o640 if is_there else 0o600
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    is_ours = (owner.st_uid, owner.st_gid) == (os.geteuid(), os.getegid())
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if not is_ours and (is_there or os.geteuid() == 0):  # of this file, whatever its name is by now
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Have two files or directories of one file system change places in one step; False where that cannot be.

    Raises OSError where it fails for another reason. Source: renameat2(2), RENAME_EXCHANGE.
    """
    if _renameat2 is None:
        return False
    if not _renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def give_to_owner_of(directory: Path, made: Path) -> None:
    """Give a directory that root has made, and the files in it, to the owner of another."""
    owner = directory.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        for path in (made, *made.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def give_to(owner: os.stat_result, made: Path) -> None:
    """Give all that root has made to somebody else; others cannot, and need not."""
    if os.geteuid() == 0 and owner.st_uid != 0:
        for path in (made, *made.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


@contextmanager
def alone(directory: Path, patience_s: float | None = None) -> Iterator[None]:
    """Be the only one who changes files of the directory; blocks while somebody else does.

    Raises BlockingIOError after `patience_s`; None to wait as long as that takes.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if patience_s is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            _lock_within(descriptor, patience_s)
        yield
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, patience_s: float) -> None:
    gives_up_at = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= gives_up_at:
                raise
            time.sleep(TRY_EVERY_S)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory, with those above it that are missing, so that all of them survive a power loss.

    One that is there stays as it is. Those above it get the usual mode.
    """
    missing = [path for path in (directory.absolute(), *directory.absolute().parents) if not path.exists()]
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_directory(made.parent)


def sync_directory(directory: Path) -> None:
    """Make what was created, renamed or removed in it survive a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
