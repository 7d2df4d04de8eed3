"""Receipts that peers have a part in; they outlive their message."""

from collections.abc import Iterator
from typing import Any, Final, Literal

from daemon.store.changes import Changes, Statement
from daemon.store.columns import BirthMs, SiteTime, SmuidText, TopicText, deadline_column, deadline_of
from daemon.store.table import Row, Table, Tables
from daemon.store.tables.messages import RECEIPTED
from routing.numbers import Count, Number
from routing.peering.decisions import DiscardReceipt, StoreReceipt
from routing.queue import COMMITTED_STATES, Entry
from routing.receipt import Receipt
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE receipt (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, origin NOT NULL,"
    " priority INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, deadline REAL,"
    " mode TEXT NOT NULL, publisher TEXT NOT NULL, cmuid TEXT NOT NULL, due INTEGER NOT NULL,"
    " have INTEGER NOT NULL, parent TEXT NOT NULL, query INTEGER NOT NULL, children TEXT NOT NULL)"
)


class ReceiptRow(Row):
    """Of the message, and of `routing.receipt.Receipt`.

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


TABLE: Final = Table("receipt", ReceiptRow, json=("children",), left_out=RECEIPTED)


class ReceiptChanges(Changes):
    """By entry id, what is stored as it is when the transaction is written; None deletes."""

    def __init__(self) -> None:
        self._by_id: dict[int, Receipt | None] = {}
        super().__init__(self._by_id)
        self.handlers = {StoreReceipt: self._store, DiscardReceipt: self._discard}

    def _store(self, d: StoreReceipt) -> None:
        self._by_id[d.entry.id] = d.receipt

    def _discard(self, d: DiscardReceipt) -> None:
        self._by_id[d.entry_id] = None

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, [TABLE.stored(_row(one)) for one in self._by_id.values() if one is not None]
        yield TABLE.delete, [(id,) for id, one in self._by_id.items() if one is None]


def _row(receipt: Receipt) -> ReceiptRow:
    entry = receipt.entry
    return ReceiptRow(
        id=entry.id,
        topic=entry.topic.name,
        origin=entry.origin,
        priority=entry.priority,
        size=entry.size,
        flags=entry.flags & COMMITTED_STATES,
        deadline=deadline_column(entry.deadline),
        mode=receipt.mode,
        publisher=receipt.publisher,
        cmuid=receipt.cmuid,
        due=receipt.due,
        have=receipt.have,
        parent=receipt.parent,
        query=receipt.query,
        children={
            query: (due, have, query in receipt.waiting) for query, (due, have) in receipt.children.items()
        },
    )


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
