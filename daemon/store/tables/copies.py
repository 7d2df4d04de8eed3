"""How far held messages may go, by which servers they came, which peers have to have them."""

from typing import Annotated, Final

import msgspec

from daemon.store.table import Row, Table, Tables
from routing.federation.copies import Forward
from routing.numbers import Count, Depth, Number
from routing.restore import Restore

Hops = Annotated[str, msgspec.Meta(pattern=r"^[!-~]*\Z")]
"""Servers, with commas between them."""


class ForwardColumn(msgspec.Struct, array_like=True):
    """As `routing.federation.copies.Forward`; a store of an earlier version may not have the last."""

    depth: Depth
    query: Number
    unacknowledged: Count
    attempts: Count
    earlier: list[Number] = []


class CopyRow(Row):
    """See `routing.federation.copies.Copy`. One whose depth cannot be read goes no further.

    Attributes:
        forwards: None where they cannot be read.
    """

    id: Number
    depth: Depth = 0
    hops: Hops = ""
    forwards: dict[str, ForwardColumn] | None = None

    def wrong(self) -> list[str]:
        """The columns that hold what they cannot."""
        return ["forwards"] if self.forwards is None else []


TABLE: Final = Table("copy", CopyRow, json=("forwards",), in_place=False)


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE):
        forwards = None
        if row.forwards is not None:
            forwards = {
                name: Forward(*msgspec.structs.astuple(forward)) for name, forward in row.forwards.items()
            }
        restore.copy(row.id, row.depth, tuple(row.hops.split(",")) if row.hops else (), forwards)
