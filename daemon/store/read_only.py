"""Looks into a store without changing it, whether a daemon has it open or none does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

_NO_PLACE: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
"""Primary codes of SQLite where it cannot make the files beside a store that reading it takes."""


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the store at `path` that can only read, without transactions of its own.

    What is read in one transaction belongs together, whatever a daemon begins to write meanwhile, and nothing
    is left beside a store that no daemon has open. Where no files can be made beside such a store, nothing
    keeps the two apart: then sqlite3.Error says that a daemon has begun to write, also in the place of what
    the body raises. Raises FileNotFoundError and sqlite3.Error.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    if _log(path).exists():
        with closing(_connected(path, "mode=ro")) as connection:
            yield connection
        return
    before = _state(path)
    # Whoever reads makes a log where there is none. Opened to write, SQLite takes it away again at the end.
    with closing(_connected(path, "mode=rw")) as connection:
        connection.execute("PRAGMA query_only = ON")
        if _can_guard(connection):
            yield connection
            return
    with closing(_connected(path, "mode=ro&immutable=1")) as connection:
        try:
            yield connection
        except Exception:
            _check_rested(path, before)
            raise
    _check_rested(path, before)


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)


def _can_guard(connection: sqlite3.Connection) -> bool:
    """Whether SQLite can make what keeps a reader apart from who writes."""
    with suppress(sqlite3.DatabaseError):  # what else is wrong is told to whoever reads
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode & 0xFF not in _NO_PLACE
    return True


def _check_rested(path: Path, before: tuple[int, int]) -> None:
    if _log(path).exists() or _state(path) != before:
        raise sqlite3.OperationalError("a daemon began to write to the store meanwhile; try again")


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size
