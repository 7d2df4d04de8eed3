"""Receipts that peers have a part in; they outlive their message."""

from typing import Any, Final, Literal

from daemon.store.columns import BirthMs, SiteTime, SmuidText, TopicText, deadline_of
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Number
from routing.queue import Entry
from routing.receipts import Receipt
from routing.restore import Restore


class ReceiptRow(Row):
    """Of the message, and of `routing.receipts.Receipt`.

    Attributes:
        children: (Y, X, not answered for good) by the number of each of our own questions.
    """

    id: Number
    topic: TopicText
    origin: BirthMs | SmuidText
    priority: Count
    size: Count
    flags: Count
    deadline: SiteTime | None
    mode: Literal["ONE", "ALL"]
    publisher: str
    cmuid: str
    due: Count
    have: Count
    parent: str
    query: Number
    children: dict[int, tuple[Count, Count, bool]]


TABLE: Final = Table("receipt", ReceiptRow, json=("children",))


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them. Of one that is damaged nobody is told: better none than a wrong one."""

    def lost(columns: dict[str, Any], damaged: list[str]) -> None:
        restore.receipt_lost(columns["id"])

    for row in tables.rows(TABLE, "ORDER BY id", mend=lost):
        entry = Entry(
            row.id,
            restore.topic_of(row.topic),
            row.origin,
            row.priority,
            row.size,
            row.flags,
            0,
            deadline_of(row.deadline),
        )
        children = row.children.items()
        receipt = Receipt(
            entry,
            row.mode,
            row.publisher,
            row.cmuid,
            row.due,
            row.have,
            0,
            parent=row.parent,
            query=row.query,
            children={query: (due, have) for query, (due, have, _) in children},
            waiting={query for query, (_, _, waits) in children if waits},
            stored=True,
        )
        restore.receipt(receipt)
