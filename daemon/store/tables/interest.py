"""What each peer wants, by its own word."""

from collections.abc import Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import WantedText
from daemon.store.table import Row, Table, Tables
from routing.peering.decisions import StoreInterest
from routing.peering.wants import Distance, InterestChange, WantKind
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE interest (peer TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " distance INTEGER NOT NULL, PRIMARY KEY (peer, kind, name)) WITHOUT ROWID"
)


class InterestRow(Row):
    """The peer tells it again when its link comes up, so one that is damaged is soon there again."""

    peer: str
    kind: WantKind
    name: WantedText
    distance: Distance


TABLE: Final = Table("interest", InterestRow, key=("peer", "kind", "name"))

_FORGET: Final = "DELETE FROM interest WHERE peer = ?"


class InterestChanges(Changes):
    """What peers have told, in the order in which they did: what is wanted changes back and forth."""

    def __init__(self) -> None:
        self._told: list[tuple[str, Values]] = []
        super().__init__(self._told)
        self.handlers = {StoreInterest: self._store}

    def _store(self, d: StoreInterest) -> None:
        if d.whole:
            self._told.append((_FORGET, (d.peer,)))
        for change in d.changes:
            if change.distance is None:
                self._told.append((TABLE.delete, (d.peer, change.kind, change.name)))
            else:
                self._told.append((TABLE.put, (d.peer, change.kind, change.name, change.distance)))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        return ((sql, (row,)) for sql, row in self._told)


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of it."""
    for row in tables.rows(TABLE):
        restore.interest(row.peer, InterestChange(row.kind, row.name, row.distance))
