"""Cmuids of the last minutes in which the site ran, oldest first."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import SiteTime, is_smuid
from daemon.store.table import Row, Table, Tables
from routing.decisions import StorePublication
from routing.dedupe import CMUIDS_MAX, CMUIDS_PER_PUBLISHER
from routing.numbers import Number
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE publication (id INTEGER PRIMARY KEY, publisher TEXT NOT NULL, cmuid TEXT NOT NULL,"
    " smuid TEXT NOT NULL, at REAL NOT NULL)"
)


class PublicationRow(Row):
    """`publisher` is an Account, or what tells publishers apart for the router.

    `at` is site time without the stops of the site.
    """

    id: Number
    publisher: str
    cmuid: str
    smuid: str
    at: SiteTime


TABLE: Final = Table("publication", PublicationRow, checks={"smuid": is_smuid})
_PUBLISHER: Final = TABLE.columns.index("publisher")

_INSERT: Final = "INSERT INTO publication (publisher, cmuid, smuid, at) VALUES (?,?,?,?)"
_EXPIRE: Final = (
    "DELETE FROM publication WHERE id <= max((SELECT coalesce(max(id), 0) FROM publication) - ?,"
    " (SELECT coalesce(min(id) - 1, 9223372036854775807) FROM publication WHERE at > ?))"
)


class PublicationChanges(Changes):
    """Cmuids that are new; and those that are too old, where they are to be forgotten."""

    def __init__(self, now: Callable[[], float], stopped_s: Callable[[], float]) -> None:
        self._now = now
        self._stopped_s = stopped_s
        self._new: list[Values] = []
        self._expired: list[Values] = []
        super().__init__(self._new, self._expired)
        self.handlers = {StorePublication: self._store}

    def _store(self, d: StorePublication) -> None:
        self._new.append((d.publisher, d.cmuid, d.smuid, self._now() - self._stopped_s()))

    def expire(self, until: float) -> None:
        """Forget those that are older, in site time, or too many."""
        self._expired.append((CMUIDS_MAX, until - self._stopped_s()))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield _INSERT, self._new
        yield _EXPIRE, self._expired


def restore_into(restore: Restore, tables: Tables, after: float, stopped_s: float) -> None:
    """Give the index those that came after a time, newest first, and of each publisher what it keeps.

    `stopped_s`: how long the site has not run, all its stops together.
    """
    counts: dict[Any, int] = {}

    def is_known(values: tuple[Any, ...]) -> bool:
        publisher = values[_PUBLISHER]
        counts[publisher] = count = counts.get(publisher, 0) + 1
        return count <= CMUIDS_PER_PUBLISHER

    # those without a time are damaged; what is none sorts behind all times
    query = "WHERE (at <= ?) IS NOT TRUE ORDER BY id DESC"
    for row in tables.rows(TABLE, query, (after - stopped_s,), is_needed=is_known):
        restore.publication(row.publisher, row.cmuid, row.smuid, row.at + stopped_s)
