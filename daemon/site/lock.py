"""One daemon for each state directory: the file `lock` there is held (flock) as long as it runs.

The kernel lets go when the process ends, however it ends. The file holds the process id, by which
`smqpd account` finds the daemon to tell it of a change.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from daemon.store.reserve import Reserve
from daemon.system.private_files import make_directory

LOCK: Final = "lock"
"""In the state directory."""

TRIES: Final = 10
TRY_EVERY_S: Final = 0.05
"""Who looks whether a daemon runs holds the lock for a moment; a start outlasts that."""

PID_MAX: Final = 2**31 - 1


class StateInUseError(Exception):
    """Another daemon runs on this state directory."""


@contextmanager
def state_lock(state_directory: Path) -> Iterator[None]:
    """Hold the lock, and make the directory where there is none. Blocks for half a second at most.

    Raises StateInUseError, which names the process, and OSError.
    """
    make_directory(state_directory)
    descriptor = _opened(state_directory)
    try:
        for attempt in range(TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt == TRIES - 1:
                    raise StateInUseError(
                        f"{state_directory} is in use by process {_pid(descriptor) or '?'}"
                    ) from None
                time.sleep(TRY_EVERY_S)
        os.truncate(descriptor, 0)
        pid = f"{os.getpid()}\n".encode()
        try:
            os.pwrite(descriptor, pid, 0)
        except OSError:  # the disk is full
            Reserve(state_directory).give_room()
            os.pwrite(descriptor, pid, 0)
        yield
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _opened(state_directory: Path) -> int:
    """The file, open to be locked; one that root makes is of whoever has the directory."""
    path = state_directory / LOCK
    flags = os.O_RDWR | os.O_NOFOLLOW  # whoever has the directory may have put a link there
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    owner = state_directory.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def running_pid(state_directory: Path) -> int | None:
    """The process that holds the lock; None where none does. Raises PermissionError."""
    try:
        descriptor = os.open(state_directory / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def signal_running(state_directory: Path, signal: int) -> bool:
    """Send a signal to the daemon of this directory; False where none runs. Raises PermissionError."""
    pid = running_pid(state_directory)
    if pid is None:
        return False
    try:
        os.kill(pid, signal)
    except ProcessLookupError:
        return False
    return True


def _pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() and 1 < int(text) <= PID_MAX else None
