"""How a command says that it failed: one line on stderr, and an exit code that scripts can rely on.

0  done            2  wrong usage                    4  refused: login or rights
1  it failed       3  the daemon cannot be reached

And what shells say of programs that a signal ended: 130 interrupted, 143 terminated, 141 nobody reads on.
"""

import os
import pwd
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from daemon.terminal.printable import printable

FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 4
INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
TERMINATED: Final = 143


class Failure(Exception):
    """Ends the command. The text says what went wrong and, where it helps, what to do: `what; what to do`."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def forbidden(path: Path) -> Failure:
    """The failure of a user who may not see what a site has at `path`: says who may."""
    nearest = next(seen for seen in (path, *path.absolute().parents) if _is_seen(seen))
    uid = nearest.stat().st_uid
    if uid == os.geteuid():
        return Failure(f"{nearest} is this user's own, and closed to it; chmod it")
    if uid == 0:
        return Failure(f"{path} is root's, and this user may not use it; only root may ask this site")
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"'#{uid}'"
    may = f"only its user and root may ask this site: `runuser -u {owner} -- smqpd ...`"
    return Failure(f"{path} is not this user's to use; {may}")


def _is_seen(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def because(error: Exception) -> str:
    """What an error says, for people: of the system's without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def ignore_signals() -> None:
    """For a command of which nothing is left to be ended: what it has done is to be said."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def tell(text: str) -> None:
    """Print `text` as one line on stderr; nothing in it acts on a terminal."""
    with suppress(OSError):  # there is nowhere else to say it
        print("smqpd: " + " ".join(map(printable, text.split())), file=sys.stderr, flush=True)


def fail(text: str, exit_code: int = FAILED) -> NoReturn:
    """Print `text` as one line, and exit."""
    tell(text)
    sys.exit(exit_code)
