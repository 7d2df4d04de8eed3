"""How far held messages may go, by which servers they came, which peers and sites have to have them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from daemon.store.changes import Changes, Statement
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Depth, Number
from routing.peering.copies import UNKNOWN, Copy, Forward, Open
from routing.peering.decisions import StoreCopy
from routing.queue import Entry
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE copy (id INTEGER PRIMARY KEY, depth INTEGER NOT NULL, hops TEXT NOT NULL,"
    " forwards TEXT NOT NULL)"
)

ADD_DESTINATIONS: Final = "ALTER TABLE copy ADD COLUMN destinations TEXT"
"""NULL for copies that have none."""


_are_hops: Final = re.compile(r"[!-~]*").fullmatch
"""Servers, with commas between them."""


class ForwardColumn(msgspec.Struct, array_like=True):
    """As `routing.peering.copies.Forward`; a store of an earlier version may not have the last.

    There all questions were for wherever the copy is wanted.
    """

    depth: Depth
    query: Number
    unacknowledged: Count
    attempts: Count
    earlier: list[Number] = []
    earlier_for: list[tuple[str, ...]] = []
    settled: tuple[str, ...] = ()
    is_wide: bool = True
    asked_for: tuple[str, ...] = ()


class OpenColumn(msgspec.Struct, array_like=True):
    """As `routing.peering.copies.Open`, but what it has been refused."""

    via: str
    asked_by: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    is_late: bool = False


class DestinationsColumn(msgspec.Struct, array_like=True):
    """Those that are open, by site, and all others that there ever were."""

    open: dict[str, OpenColumn] = {}
    seen_to: tuple[str, ...] = ()


class CopyRow(Row):
    """See `routing.peering.copies.Copy`. One whose depth cannot be read goes no further.

    Attributes:
        forwards: UNSET where they cannot be read.
        destinations: None where it has none; UNSET where they cannot be read: they are found anew.
    """

    id: Number
    depth: Depth = 0
    hops: str = ""
    forwards: dict[str, ForwardColumn] | UnsetType = UNSET
    destinations: DestinationsColumn | UnsetType | None = UNSET


_HAS_MESSAGE: Final = "SELECT 1 FROM message WHERE id = ?"

TABLE: Final = Table(
    "copy", CopyRow, json=("forwards", "destinations"), checks={"hops": _are_hops}, in_place=False
)


class CopyChanges(Changes):
    """By entry id, what is stored as it is when the transaction is written; None deletes."""

    def __init__(self, copies: Mapping[int, Copy]) -> None:
        self._held = copies
        self._by_id: dict[int, Copy | None] = {}
        super().__init__(self._by_id)
        self.handlers = {StoreCopy: self._store}

    def begin(self, entry: Entry) -> None:
        """Store with a new message that may cross links how far it may go."""
        if (copy := self._held.get(entry.id)) is not None:
            self._by_id[entry.id] = copy

    def end(self, entry: Entry) -> None:
        """Forget how far a message that has ended may go."""
        self._by_id[entry.id] = None

    def _store(self, d: StoreCopy) -> None:
        # one that has ended since is deleted by what follows
        if (copy := self._held.get(d.entry_id)) is not None:
            self._by_id[copy.entry.id] = copy

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, [TABLE.stored(_row(copy)) for copy in self._by_id.values() if copy is not None]
        yield TABLE.delete, [(id,) for id, copy in self._by_id.items() if copy is None]


def _row(copy: Copy) -> CopyRow:
    forwards = {
        name: ForwardColumn(**msgspec.structs.asdict(forward)) for name, forward in copy.forwards.items()
    }
    destinations = None
    if copy.seen_to is not None:
        open = {
            site: OpenColumn(each.via, each.asked_by, each.asked, each.is_late)
            for site, each in copy.destinations.items()
        }
        destinations = DestinationsColumn(open, tuple(sorted(copy.seen_to.difference(open))))
    return CopyRow(copy.entry.id, copy.depth, ",".join(copy.hops), forwards, destinations)


def _forward(column: ForwardColumn) -> Forward:
    forward = Forward(**msgspec.structs.asdict(column))
    if len(forward.earlier_for) != len(forward.earlier):
        forward.earlier_for = [()] * len(forward.earlier)
    return forward


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them; the router stores one again that is mended, once it has judged it."""
    mended: set[int] = set()

    def mend(columns: dict[str, Any], damaged: list[str]) -> CopyRow | None:
        row = TABLE.mend(columns, damaged)
        if row is None or tables.first(_HAS_MESSAGE, row.id) is None:
            return None
        mended.add(row.id)
        return row

    for row in tables.rows(TABLE, mend=mend):
        forwards = None
        if row.forwards is not UNSET:
            forwards = {name: _forward(column) for name, column in row.forwards.items()}
        destinations, seen_to = None, None
        if row.destinations is UNSET:
            destinations, seen_to = {UNKNOWN: Open()}, frozenset[str]()
        elif row.destinations is not None:
            destinations = {
                site: Open(open.via, open.asked_by, open.asked, is_late=open.is_late)
                for site, open in row.destinations.open.items()
            }
            seen_to = frozenset(row.destinations.seen_to)
        restore.copy(
            row.id,
            row.depth,
            tuple(row.hops.split(",")) if row.hops else (),
            forwards,
            destinations,
            seen_to,
            is_whole=row.id not in mended,
        )
