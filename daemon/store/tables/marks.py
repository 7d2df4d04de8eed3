"""What subscriptions have left on messages; that of subscription 0 counts returns of mode ONE."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import Flag
from daemon.store.table import Row, Table, Tables
from routing.decisions import MarkDone, MarkDue, MarkReceived, MarkReturned
from routing.numbers import SMALL_MAX, Number
from routing.restore import NOT_YET, StoredMark

CREATE: Final = (
    "CREATE TABLE mark (message INTEGER NOT NULL, subscription INTEGER NOT NULL,"
    " received INTEGER NOT NULL, done INTEGER NOT NULL, has_it INTEGER NOT NULL,"
    " attempts INTEGER NOT NULL, PRIMARY KEY (message, subscription)) WITHOUT ROWID"
)


class MarkRow(Row):
    """Without its mark a message comes again, so what of it is not damaged stays."""

    message: Number
    subscription: Number
    received: Flag = 0
    done: Flag = 0
    has_it: Flag = 0
    attempts: Annotated[int, msgspec.Meta(ge=NOT_YET, le=SMALL_MAX)] = 0


TABLE: Final = Table("mark", MarkRow, key=("message", "subscription"))

_DUE: Final = f"INSERT INTO mark VALUES (?,?,0,0,0,{NOT_YET}) ON CONFLICT DO NOTHING"
_RECEIVED: Final = (
    "INSERT INTO mark VALUES (?,?,1,0,0,0)"
    " ON CONFLICT (message, subscription) DO UPDATE SET received = 1, attempts = max(attempts, 0)"
)
_RETURNED: Final = (
    "INSERT INTO mark VALUES (?,?,0,0,0,?)"
    " ON CONFLICT (message, subscription) DO UPDATE SET received = 0, attempts = excluded.attempts"
)
_RETURNED_ONE: Final = "UPDATE mark SET received = 0 WHERE message = ?"
_DONE: Final = (
    "INSERT INTO mark VALUES (?,?,0,1,?,0)"
    " ON CONFLICT (message, subscription) DO UPDATE SET received = 0, done = 1, has_it = excluded.has_it"
)
FORGET: Final = (
    "DELETE FROM mark WHERE subscription <> 0 AND subscription NOT IN (SELECT id FROM subscription)"
    " AND NOT EXISTS (SELECT 1 FROM message WHERE id = mark.message AND flags & ?)"
)
"""At a start, those of subscriptions that have ended, unless a pending receipt (its flag) counts them."""
_DISCARD: Final = "DELETE FROM mark WHERE message = ?"


class MarkChanges(Changes):
    """What subscriptions have said of messages, and messages that have ended.

    Within one transaction the marks on a message can only have come in the order received, returned, done,
    since a message is delivered again only after the transaction in which it came back. That it is due is
    first: what else there is says so, too.
    """

    def __init__(self) -> None:
        self._due: list[Values] = []
        self._received: list[Values] = []
        self._returned: list[Values] = []
        self._returned_one: list[Values] = []
        self._done: list[Values] = []
        self._discarded: list[Values] = []
        super().__init__(
            self._due, self._received, self._returned, self._returned_one, self._done, self._discarded
        )
        self.handlers = {
            MarkDue: self._mark_due,
            MarkReceived: self._mark_received,
            MarkReturned: self._mark_returned,
            MarkDone: self._mark_done,
        }

    @property
    def some_are_new(self) -> bool:
        """Whether a message that is new in this transaction may have one."""
        return bool(self._due or self._received or self._returned or self._done)

    def _mark_due(self, d: MarkDue) -> None:
        self._due.append((d.entry_id, d.subscription_id))

    def _mark_received(self, d: MarkReceived) -> None:
        self._received.append((d.entry_id, d.subscription_id))

    def _mark_returned(self, d: MarkReturned) -> None:
        self._returned.append((d.entry_id, d.subscription_id, d.attempts))
        if not d.subscription_id:
            self._returned_one.append((d.entry_id,))

    def _mark_done(self, d: MarkDone) -> None:
        self._done.append((d.entry_id, d.subscription_id, d.has_it))

    def discard(self, message: int) -> None:
        """Forget the marks of a message that has ended."""
        self._discarded.append((message,))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield _DUE, self._due
        yield _RECEIVED, self._received
        yield _RETURNED, self._returned
        yield _RETURNED_ONE, self._returned_one
        yield _DONE, self._done

    def endings(self) -> Iterator[Statement]:
        """What to execute once messages are stored."""
        yield _DISCARD, self._discarded


def by_message(tables: Tables) -> Iterator[tuple[int, list[StoredMark]]]:
    """The marks of each message that has any, in the order of the messages."""
    current: tuple[int, list[StoredMark]] | None = None
    for row in tables.rows(TABLE, "ORDER BY message"):
        mark = StoredMark(
            subscription_id=row.subscription,
            received=bool(row.received),
            done=bool(row.done),
            has_it=bool(row.has_it),
            attempts=row.attempts,
        )
        if current is not None and current[0] == row.message:
            current[1].append(mark)
            continue
        if current is not None:
            yield current
        current = (row.message, [mark])
    if current is not None:
        yield current
