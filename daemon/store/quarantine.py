"""What operators see of the messages that were set aside; see `daemon.store.tables.quarantine`."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from daemon.store.read_only import read_only
from daemon.store.tables.quarantine import DROP
from routing.numbers import TIME_US_MAX

_TEXTS: Final = ("smuid", "topic", "account", "reason")

Execute = Callable[..., sqlite3.Cursor]
Query = Callable[[Execute], Any]


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """One message that was set aside.

    Attributes:
        account: of the publisher.
        at_us: when it was set aside, Unix microseconds.
        size: of what there is of it, headers and bodies.
    """

    smuid: str
    topic: str
    account: str
    at_us: int
    reason: str
    size: int


def quarantined(execute: Execute) -> list[Quarantined]:
    """What there is, the oldest first."""
    rows = execute(
        f"SELECT {', '.join(f'CAST({column} AS BLOB)' for column in _TEXTS)}, at_us, length(wire)"
        " FROM quarantine ORDER BY at_us, id"
    )
    return [
        Quarantined(
            **{column: _text(value) for column, value in zip(_TEXTS, texts, strict=True)},
            at_us=at_us if isinstance(at_us, int) and 0 <= at_us <= TIME_US_MAX else 0,
            size=size or 0,
        )
        for *texts, at_us, size in rows
    ]


def _text(value: bytes | None) -> str:
    """What was damaged was copied as it was."""
    return (value or b"").decode(errors="backslashreplace")


def drop(path: Path, smuid: str) -> int:
    """Forget a message, or all (""), in a store that no daemon has open; how many that were.

    Raises FileNotFoundError and sqlite3.Error.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if not _has_quarantine(connection):
            return 0
        return connection.execute(DROP, (smuid,)).rowcount


def wire_of(execute: Execute, smuid: str) -> bytes | None:
    """The bytes of a message, as they were found in the store; None where it is not there."""
    row = execute(
        "SELECT CAST(wire AS BLOB) FROM quarantine WHERE smuid = ? ORDER BY at_us DESC", (smuid,)
    ).fetchone()
    return None if row is None else row[0] or b""


def read(path: Path, reading: Query) -> Any:
    """Look into the quarantine of a store, whether its daemon runs or not.

    A store that an earlier version wrote last has none, and is like one that is empty. Raises
    FileNotFoundError and sqlite3.Error.
    """
    with read_only(path) as connection:
        if not _has_quarantine(connection):
            return reading(lambda *_: connection.execute("SELECT 1 WHERE 0"))
        return reading(connection.execute)


def _has_quarantine(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'quarantine'").fetchone() is not None
