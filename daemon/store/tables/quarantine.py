"""Messages that were set aside: they cannot be read, or not be handled, and what is left of them is kept.

A message goes there in the transaction that ends it at this site. The quarantine is bounded: with each that
comes, the oldest beyond the bounds are forgotten for good. `daemon.store.quarantine` shows it to operators.
"""

from collections.abc import Callable, Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from routing.decisions import DropSetAside, SetAside

CREATE: Final = (
    "CREATE TABLE quarantine (id INTEGER PRIMARY KEY, smuid TEXT NOT NULL, topic TEXT NOT NULL,"
    " account TEXT NOT NULL, at_us INTEGER NOT NULL, reason TEXT NOT NULL, wire BLOB NOT NULL)"
)

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
