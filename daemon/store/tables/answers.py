"""Last answers to the questions of peers for receipts, until the peer has them."""

from collections.abc import Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Number
from routing.peering.decisions import DiscardAnswer, StoreAnswer
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE answer (peer TEXT NOT NULL, query INTEGER NOT NULL, due INTEGER NOT NULL,"
    " have INTEGER NOT NULL, PRIMARY KEY (peer, query)) WITHOUT ROWID"
)


class AnswerRow(Row):
    """Y and X; the peer that hears nothing ends its receipt with the timeout of the message."""

    peer: str
    query: Number
    due: Count
    have: Count


TABLE: Final = Table("answer", AnswerRow, key=("peer", "query"))


class AnswerChanges(Changes):
    """Answers that peers are to have, and that they have."""

    def __init__(self) -> None:
        self._by_question: dict[tuple[str, int], Values | None] = {}
        super().__init__(self._by_question)
        self.handlers = {StoreAnswer: self._store, DiscardAnswer: self._discard}

    def _store(self, d: StoreAnswer) -> None:
        self._by_question[d.peer, d.query] = (d.peer, d.query, d.due, d.have)

    def _discard(self, d: DiscardAnswer) -> None:
        self._by_question[d.peer, d.query] = None

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, [row for row in self._by_question.values() if row is not None]
        yield TABLE.delete, [key for key, row in self._by_question.items() if row is None]


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE, "ORDER BY query"):
        restore.answer(row.peer, row.query, row.due, row.have)
