"""The part of a transaction that is about links; see `daemon.store.batch`. Empty where there are no peers."""

import math
from typing import Any, Final

import msgspec

from routing.federation.copies import Copy, Seen
from routing.federation.decisions import StoreInterest
from routing.queue import COMMITTED_STATES
from routing.receipts import Receipt

Row = tuple[Any, ...]

SEEN_EXPIRED_MAX: Final = 20_000
"""Rows forgotten at a time where no new ones come."""

SEEN_EXPIRED_PER_NEW: Final = 2
"""Rows forgotten with each new one, so that the table grows no faster than it can shrink."""

_PUT_COPY: Final = "INSERT OR REPLACE INTO copy VALUES (?,?,?,?)"
_DISCARD_COPY: Final = "DELETE FROM copy WHERE id = ?"
_PUT_SEEN: Final = "INSERT OR REPLACE INTO seen VALUES (?,?,?,?,?)"
_PUT_REMOVAL: Final = "INSERT OR REPLACE INTO removal VALUES (?,?,?)"
_DISCARD_REMOVAL: Final = "DELETE FROM removal WHERE smuid = ?"
_FORGET_INTEREST: Final = "DELETE FROM interest WHERE peer = ?"
_END_INTEREST: Final = "DELETE FROM interest WHERE peer = ? AND kind = ? AND name = ?"
_PUT_INTEREST: Final = "INSERT OR REPLACE INTO interest VALUES (?,?,?,?)"
_PUT_RECEIPT: Final = "INSERT OR REPLACE INTO receipt VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_DISCARD_RECEIPT: Final = "DELETE FROM receipt WHERE id = ?"
_PUT_ANSWER: Final = "INSERT OR REPLACE INTO answer VALUES (?,?,?,?)"
_DISCARD_ANSWER: Final = "DELETE FROM answer WHERE peer = ? AND query = ?"
_EXPIRE_SEEN: Final = (
    "DELETE FROM seen WHERE smuid IN (SELECT smuid FROM seen WHERE until < ? ORDER BY until LIMIT ?)"
)
_EXPIRE_REMOVALS: Final = "DELETE FROM removal WHERE at < ?"


class LinkBatch:
    """Rows of one transaction.

    Attributes:
        copies, receipts: by entry id, what is stored as it is when the transaction is written; None deletes.
        answers: rows, by peer and question; None deletes.
        interest: statements in their order: what is wanted changes back and forth.
        expired: by statement, its row: what to forget.
    """

    __slots__ = (
        "answers",
        "copies",
        "dropped_removals",
        "expired",
        "interest",
        "receipts",
        "removals",
        "seen",
    )

    def __init__(self) -> None:
        self.copies: dict[int, Copy | None] = {}
        self.seen: dict[str, Row] = {}
        self.removals: list[Row] = []
        self.dropped_removals: list[Row] = []
        self.interest: list[tuple[str, Row]] = []
        self.receipts: dict[int, Receipt | None] = {}
        self.answers: dict[tuple[str, int], Row | None] = {}
        self.expired: dict[str, Row] = {}

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in LinkBatch.__slots__)

    def put_seen(self, smuid: str, seen: Seen, now: float) -> None:
        """A Smuid has been here; with it goes what can no longer be on its way."""
        self.seen[smuid] = (smuid, seen.entry_id, seen.depth, seen.custody, seen.until)
        self.expired[_EXPIRE_SEEN] = (now, SEEN_EXPIRED_PER_NEW * len(self.seen))

    def expire(self, now: float, removals_from: float) -> None:
        """Forget what can no longer be on its way, and what was removed before a time."""
        self.expired[_EXPIRE_SEEN] = (now, SEEN_EXPIRED_MAX + SEEN_EXPIRED_PER_NEW * len(self.seen))
        self.expired[_EXPIRE_REMOVALS] = (removals_from,)

    def put_interest(self, told: StoreInterest) -> None:
        """A peer has told what it wants."""
        if told.whole:
            self.interest.append((_FORGET_INTEREST, (told.peer,)))
        for change in told.changes:
            if change.distance is None:
                self.interest.append((_END_INTEREST, (told.peer, change.kind, change.name)))
            else:
                self.interest.append((_PUT_INTEREST, (told.peer, change.kind, change.name, change.distance)))

    def statements(self) -> list[tuple[str, list[Row]]]:
        """What to execute, in order."""
        out = [
            (_PUT_COPY, [_copy_row(copy) for copy in self.copies.values() if copy is not None]),
            (_DISCARD_COPY, [(id,) for id, copy in self.copies.items() if copy is None]),
            (_PUT_SEEN, list(self.seen.values())),
            (_PUT_REMOVAL, self.removals),
            (_DISCARD_REMOVAL, self.dropped_removals),
            *((sql, [row]) for sql, row in self.interest),
            (_PUT_RECEIPT, [_receipt_row(one) for one in self.receipts.values() if one is not None]),
            (_DISCARD_RECEIPT, [(id,) for id, one in self.receipts.items() if one is None]),
            (_PUT_ANSWER, [row for row in self.answers.values() if row is not None]),
            (_DISCARD_ANSWER, [key for key, row in self.answers.items() if row is None]),
        ]
        out += ((sql, [row]) for sql, row in self.expired.items())
        return [(sql, rows) for sql, rows in out if rows]


def _copy_row(copy: Copy) -> Row:
    forwards = {
        name: (f.depth, f.query, f.unacknowledged, f.attempts, f.earlier) for name, f in copy.forwards.items()
    }
    return (copy.entry.id, copy.depth, ",".join(copy.hops), _json(forwards))


def _receipt_row(receipt: Receipt) -> Row:
    entry = receipt.entry
    children = {
        query: (due, have, query in receipt.waiting) for query, (due, have) in receipt.children.items()
    }
    return (
        entry.id,
        entry.topic.name,
        entry.origin,
        entry.priority,
        entry.size,
        entry.flags & COMMITTED_STATES,
        None if entry.deadline == math.inf else entry.deadline,
        receipt.mode,
        receipt.publisher,
        receipt.cmuid,
        receipt.due,
        receipt.have,
        receipt.parent,
        receipt.query,
        _json(children),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
