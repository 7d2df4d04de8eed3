"""What subscriptions have left on messages; that of subscription 0 counts returns of mode ONE."""

from collections.abc import Iterator
from typing import Final

from daemon.store.columns import Flag
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Number
from routing.restore import StoredMark


class MarkRow(Row):
    """Without its mark a message comes again, so what of it is not damaged stays."""

    message: Number
    subscription: Number
    received: Flag = 0
    done: Flag = 0
    has_it: Flag = 0
    attempts: Count = 0


TABLE: Final = Table("mark", MarkRow, key=("message", "subscription"))


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
