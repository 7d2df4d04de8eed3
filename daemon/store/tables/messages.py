"""Guaranteed messages that are held; `wire` stands behind all that a start reads."""

from collections.abc import Iterator
from functools import lru_cache
from math import inf
from typing import Annotated, Any, Final

import msgspec

from daemon.store.changes import Changes, Statement, Values
from daemon.store.checksum import checksum
from daemon.store.columns import BirthMs, SiteTime, SmuidText
from daemon.store.table import Row, Table, Tables
from daemon.store.tables import marks
from routing.decisions import MarkReceipted, MarkRouted, StoreMessage
from routing.errors import Refusal
from routing.frames import decode_message
from routing.message import Message, ReceiptMode
from routing.names import is_topic, parse_address
from routing.numbers import Count, Number
from routing.queue import (
    COMMITTED_STATES,
    ENDS_GROUP,
    GROUPED,
    GUARANTEED,
    RECEIPT,
    Entry,
    of_group,
    shared,
)
from routing.restore import Restore, readable
from routing.targets import Topic

CREATE: Final = (
    "CREATE TABLE message (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, origin NOT NULL,"
    " priority INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, deadline REAL,"
    " receipt_due INTEGER NOT NULL, receipt_mode TEXT NOT NULL, sequence INTEGER NOT NULL,"
    " publisher TEXT NOT NULL, cmuid TEXT NOT NULL, wire BLOB NOT NULL)"
)
ADD_CHECKSUM: Final = "ALTER TABLE message ADD COLUMN checksum INTEGER"
"""NULL for messages that were there before."""


UNKNOWN_TOPIC: Final = "unknown"
"""Where a message stands that is set aside and whose topic cannot be read."""


class IndexRow(Row):
    """What the index needs of a message.

    Attributes:
        receipt_due: Y, as it was when the message was routed; 0 where no receipt is pending.
        sequence: 0 for none.
        damage: why the message is to be set aside, "" where it is not; no column.
    """

    id: int
    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    origin: BirthMs | SmuidText
    priority: Count
    size: Count
    flags: Count
    deadline: SiteTime | None
    receipt_due: Count
    receipt_mode: ReceiptMode
    sequence: Number
    publisher: str
    cmuid: str
    damage: str = ""


class MessageRow(IndexRow):
    """All columns: see `MessageChanges.begin`."""

    wire: bytes = b""
    checksum: int | None = None


def _are_flags(flags: int) -> bool:
    return flags & COMMITTED_STATES == flags and bool(flags & GUARANTEED)


@lru_cache(maxsize=2**17)
def _is_name(topic: str) -> bool:
    return is_topic(topic) or is_topic(readable(topic))


@lru_cache(maxsize=4096)
def _is_publisher(text: str) -> bool:
    try:
        parse_address(text)
    except Refusal:
        return not text
    return True


INDEX: Final = Table(
    "message",
    IndexRow,
    checks={"flags": _are_flags, "topic": _is_name, "publisher": _is_publisher},
    besides=("damage",),
    in_place=False,
)
TABLE: Final = Table("message", MessageRow, besides=("damage",), in_place=False)

ROUTED: Final = "UPDATE message SET flags = ?, deadline = ? WHERE id = ?"
RECEIPTED: Final = f"UPDATE message SET flags = flags & ~{RECEIPT} WHERE id = ?"


def _deadline(entry: Entry) -> float | None:
    return None if entry.deadline == inf else entry.deadline


class MessageChanges(Changes):
    """Those that are new, by id, and those that have ended; one that ends before it is written never is.

    Attributes:
        new_bytes: of those that are new.
        ended_bytes: of those that have ended; to delete them writes little.
    """

    def __init__(self) -> None:
        self._new: dict[int, Values] = {}
        self._routed: list[Values] = []
        self._receipted: list[Values] = []
        self._discarded: list[Values] = []
        self.new_bytes = self.ended_bytes = 0
        super().__init__(self._new, self._routed, self._receipted, self._discarded)
        self.handlers = {MarkReceipted: self._mark_receipted, MarkRouted: self._mark_routed}

    def begin(self, d: StoreMessage, wire: bytes) -> None:
        """Store a new message; as a plain tuple, since it is on the path of every message."""
        entry, message = d.entry, d.message
        topic: str = entry.topic.name
        self.new_bytes += len(wire)
        self._new[entry.id] = (
            entry.id,
            topic,
            entry.origin,
            entry.priority,
            entry.size,
            entry.flags & COMMITTED_STATES,
            _deadline(entry),
            d.receipt_due if entry.flags & RECEIPT else 0,
            message.receipt,
            message.sequence or 0,
            message.account,
            message.cmuid,
            wire,
            checksum(entry.id, topic.encode(), wire),
        )

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.new_bytes = self.ended_bytes = 0

    def end(self, id: int, size: int, *, is_copied: bool) -> bool:
        """End a message; whether it is stored: before, or now, to be copied into the quarantine."""
        self.ended_bytes += size
        is_stored = is_copied or self._new.pop(id, None) is None
        if is_stored:
            self._discarded.append((id,))
        return is_stored

    def _mark_receipted(self, d: MarkReceipted) -> None:
        self._receipted.append((d.entry_id,))

    def _mark_routed(self, d: MarkRouted) -> None:
        entry = d.entry
        if entry.flags & GUARANTEED:
            self._routed.append((entry.flags & COMMITTED_STATES, _deadline(entry), entry.id))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.insert, self._new.values()
        yield ROUTED, self._routed
        yield RECEIPTED, self._receipted

    def endings(self) -> Iterator[Statement]:
        """What to execute once what is set aside has been copied."""
        yield TABLE.delete, self._discarded


_MENDED: Final = {
    "priority": 0,
    "size": 0,
    "flags": GUARANTEED,
    "deadline": None,
    "receipt_due": 0,
    "receipt_mode": "NONE",
    "sequence": 0,
    "publisher": "",
    "cmuid": "",
}
READ: Final = "SELECT CAST(wire AS BLOB), CAST(topic AS BLOB), checksum FROM message WHERE id = ?"
_WIRE: Final = "SELECT CAST(wire AS BLOB) FROM message WHERE id = ?"


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them in the order of their ids, each with its marks.

    One that is damaged is set aside, as one whose bytes cannot be read (`daemon.broker.reading`).
    """

    def mend(columns: dict[str, Any], damaged: list[str]) -> IndexRow:
        return _mended(tables, columns, damaged)

    known: dict[str, Topic] = {}
    birth: int | str = 0  # of many in a row, as one object
    every_mark = marks.by_message(tables)
    next_marks = next(every_mark, None)
    for row in tables.rows(INDEX, "ORDER BY id", mend=mend):
        while next_marks is not None and next_marks[0] < row.id:
            next_marks = next(every_mark, None)
        own = next_marks[1] if next_marks is not None and next_marks[0] == row.id else []
        topic = known.get(row.topic)
        if topic is None:
            topic = known[row.topic] = restore.topic_of(readable(row.topic))
        if row.origin != birth:
            birth = row.origin
        entry = Entry(
            row.id,
            topic,
            birth,
            row.priority,
            shared(row.size),
            row.flags,
            0,
            inf if row.deadline is None else row.deadline,
        )
        if row.flags & GROUPED:
            entry = _in_its_group(tables, entry)
        restore.message(
            entry,
            own,
            publisher=row.publisher,
            cmuid=row.cmuid,
            sequence=row.sequence,
            receipt_due=row.receipt_due,
            receipt_mode="ONE" if row.receipt_mode == "ONE" else "ALL",
            damage=row.damage,
        )
    _is_name.cache_clear()


def _mended(tables: Tables, columns: dict[str, Any], damaged: list[str]) -> IndexRow:
    """Enough of a damaged row for the message to end with its own Smuid, and its receipt with it."""
    if {"receipt_mode", "receipt_due", "publisher", "cmuid"} & set(damaged) and "flags" not in damaged:
        columns["flags"] &= ~RECEIPT
    for column in damaged:
        if column == "topic":
            columns[column] = _topic_like(columns[column])
        elif column == "origin":
            columns[column] = _smuid_in(tables.first(_WIRE, columns["id"])) or 0
        else:
            columns[column] = _MENDED[column]
    return IndexRow(**columns, damage=f"damaged in the store: {', '.join(damaged)}")


def _in_its_group(tables: Tables, entry: Entry) -> Entry:
    """The same, as one of its group, which stands in what only a delivery reads.

    Where that cannot be read it has none: it is set aside by whoever is to have it.
    """
    message = _readable(tables.first(_WIRE, entry.id))
    ends = bool(entry.flags & ENDS_GROUP)
    entry.flags &= ~(GROUPED | ENDS_GROUP)
    return entry if message is None or message.group is None else of_group(entry, message.group, ends=ends)


def _topic_like(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else ""
    return text if is_topic(text) else UNKNOWN_TOPIC


def _smuid_in(wire: bytes | None) -> str:
    message = _readable(wire)
    return "" if message is None else message.smuid


def _readable(wire: bytes | None) -> Message | None:
    try:
        return decode_message(wire or b"")
    except Refusal:
        return None
