"""Smuids of other servers that have been here; each is looked up when a copy comes."""

from collections.abc import Callable, Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import SiteTime, SmuidText
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Depth, Number
from routing.peering.copies import Seen
from routing.peering.decisions import StoreSeen

CREATE: Final = (
    "CREATE TABLE seen (smuid TEXT PRIMARY KEY, entry INTEGER NOT NULL, depth INTEGER NOT NULL,"
    " custody INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
)
CREATE_INDEX: Final = "CREATE INDEX seen_until ON seen (until)"


class SeenRow(Row):
    """See `routing.peering.copies.Seen`; `entry` is its `entry_id`."""

    smuid: SmuidText
    entry: Number
    depth: Depth
    custody: Count
    until: SiteTime


TABLE: Final = Table("seen", SeenRow, key=("smuid",))

EXPIRED_MAX: Final = 20_000
"""Rows forgotten at a time where no new ones come."""

EXPIRED_PER_NEW: Final = 2
"""Rows forgotten with each new one, so that the table grows no faster than it can shrink."""

_EXPIRE: Final = (
    "DELETE FROM seen WHERE smuid IN (SELECT smuid FROM seen WHERE until < ? ORDER BY until LIMIT ?)"
)


class SeenChanges(Changes):
    """Smuids that have been here; with them goes what can no longer be on its way."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._put: dict[str, Values] = {}
        self._expired: list[Values] = []
        super().__init__(self._put, self._expired)
        self.handlers = {StoreSeen: self._store}

    def _store(self, d: StoreSeen) -> None:
        seen = d.seen
        self._put[d.smuid] = (d.smuid, seen.entry_id, seen.depth, seen.custody, seen.until)

    def expire(self) -> None:
        """Forget what has expired, also where nothing is new."""
        self._expired.append(())

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, self._put.values()
        if self:
            rows_max = EXPIRED_PER_NEW * len(self._put) + (EXPIRED_MAX if self._expired else 0)
            yield _EXPIRE, [(self._now(), rows_max)]


def recall(tables: Tables, smuid: str) -> Seen | None:
    """What is remembered of a Smuid; None also where that is damaged: a copy twice is better than none."""
    for row in tables.rows(TABLE, "WHERE smuid = ?", (smuid,)):
        return Seen(row.entry, row.depth, row.custody, row.until)
    return None
