"""Smuids of messages that were removed."""

from collections.abc import Callable, Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import SiteTime, SmuidText, TopicText
from daemon.store.table import Row, Table, Tables
from routing.peering.decisions import DiscardRemoval, StoreRemoval
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE removal (smuid TEXT PRIMARY KEY, topic TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID"
)


class RemovalRow(Row):
    """`at` is site time; one whose time is damaged is the first to be forgotten."""

    smuid: SmuidText
    topic: TopicText
    at: SiteTime = 0.0


TABLE: Final = Table("removal", RemovalRow, key=("smuid",))

_EXPIRE: Final = "DELETE FROM removal WHERE at < ?"


class RemovalChanges(Changes):
    """Those that are new, and those that are forgotten."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._put: list[Values] = []
        self._dropped: list[Values] = []
        self._expired: list[Values] = []
        super().__init__(self._put, self._dropped, self._expired)
        self.handlers = {StoreRemoval: self._store, DiscardRemoval: self._discard}

    def _store(self, d: StoreRemoval) -> None:
        self._put.append((d.smuid, d.topic, self._now()))

    def _discard(self, d: DiscardRemoval) -> None:
        self._dropped.append((d.smuid,))

    def expire(self, before: float) -> None:
        """Forget those of before a time."""
        self._expired.append((before,))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, self._put
        yield TABLE.delete, self._dropped
        yield _EXPIRE, self._expired


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them, oldest first."""
    for row in tables.rows(TABLE, "ORDER BY at"):
        restore.removal(row.smuid, row.topic, row.at)
