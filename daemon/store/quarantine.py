"""Messages that were set aside: they cannot be read, or not be handled, and what is left of them is kept.

A message goes there in the transaction that ends it at this site. The quarantine is bounded: with each that
comes, the oldest beyond the bounds are forgotten for good.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from daemon.store.changes import Changes, Statement, Values
from routing.decisions import DropSetAside, SetAside
from routing.numbers import TIME_US_MAX

MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 256 * 2**20
QUARANTINE_MAX: Final = (MESSAGES_MAX, BYTES_MAX)

SET_ASIDE: Final = (
    "INSERT OR REPLACE INTO quarantine (smuid, reason, at_us, id, topic, account, wire)"
    " SELECT ?, ?, ?, id, coalesce(topic, ''), coalesce(publisher, ''), coalesce(wire, x'')"
    " FROM message WHERE id = ?"
)
DROP: Final = "DELETE FROM quarantine WHERE smuid = ?1 OR ?1 = ''"
FORGET_OLDEST: Final = (
    "DELETE FROM quarantine WHERE id IN (SELECT id FROM (SELECT id,"
    " row_number() OVER newest AS messages, sum(length(wire)) OVER newest AS bytes"
    " FROM quarantine WINDOW newest AS (ORDER BY at_us DESC, id DESC)) WHERE messages > ? OR bytes > ?)"
)

_TEXTS: Final = ("smuid", "topic", "account", "reason")


class QuarantineChanges(Changes):
    """What is set aside, and what of that is forgotten."""

    def __init__(self, server: str, wall_us: Callable[[], int]) -> None:
        self._server = server
        self._wall_us = wall_us
        self._aside: dict[int, Values] = {}
        self._dropped: list[Values] = []
        super().__init__(self._aside, self._dropped)
        self.handlers = {SetAside: self._set_aside, DropSetAside: self._drop}

    def takes(self, id: int) -> bool:
        """Whether this message is copied in this transaction."""
        return id in self._aside

    def _set_aside(self, d: SetAside) -> None:
        id = d.entry.id
        self._aside[id] = (d.entry.smuid(self._server), d.reason, self._wall_us(), id)

    def _drop(self, d: DropSetAside) -> None:
        self._dropped.append((d.smuid,))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        if self._aside:
            yield SET_ASIDE, self._aside.values()
            yield FORGET_OLDEST, (QUARANTINE_MAX,)
        yield DROP, self._dropped


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
    if not path.is_file():
        raise FileNotFoundError(f"there is no store at {path}")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if not _has_quarantine(connection):
            return reading(lambda *_: connection.execute("SELECT 1 WHERE 0"))
        return reading(connection.execute)


def _has_quarantine(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'quarantine'").fetchone() is not None
