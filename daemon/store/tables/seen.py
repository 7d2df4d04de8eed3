"""Smuids of other servers that have been here; each is looked up when a copy comes."""

from typing import Final

from daemon.store.columns import SiteTime, SmuidText
from daemon.store.table import Row, Table, Tables
from routing.federation.copies import Seen
from routing.numbers import Count, Depth, Number


class SeenRow(Row):
    """See `routing.federation.copies.Seen`; `entry` is its `entry_id`."""

    smuid: SmuidText
    entry: Number
    depth: Depth
    custody: Count
    until: SiteTime


TABLE: Final = Table("seen", SeenRow, key=("smuid",))


def recall(tables: Tables, smuid: str) -> Seen | None:
    """What is remembered of a Smuid; None also where that is damaged: a copy twice is better than none."""
    for row in tables.rows(TABLE, "WHERE smuid = ?", (smuid,)):
        return Seen(row.entry, row.depth, row.custody, row.until)
    return None
