"""Last answers to the questions of peers for receipts, until the peer has them."""

from typing import Final

from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Number
from routing.restore import Restore


class AnswerRow(Row):
    """Y and X; the peer that hears nothing ends its receipt with the timeout of the message."""

    peer: str
    query: Number
    due: Count
    have: Count


TABLE: Final = Table("answer", AnswerRow, key=("peer", "query"))


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE, "ORDER BY query"):
        restore.answer(row.peer, row.query, row.due, row.have)
