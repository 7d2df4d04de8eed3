"""Looks into a store without changing it, whether a daemon has it open or none does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the store at `path` that can only read, without transactions of its own.

    Nothing is written beside a store that no daemon has open, which may be on a read-only file system. Raises
    FileNotFoundError; sqlite3.Error, also at the end where a daemon has opened such a store meanwhile, and
    what was read may not belong together.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    # Without a write-ahead log nobody writes; SQLite would make an empty one, of whoever only looks.
    rests = not _log(path).exists()
    before = _state(path)
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if rests else ''}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        yield connection
    if rests and (_log(path).exists() or _state(path) != before):
        raise sqlite3.OperationalError("a daemon began to write to the store meanwhile; try again")


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size
