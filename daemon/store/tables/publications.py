"""Cmuids of the last minutes, oldest first."""

from typing import Final

from daemon.store.columns import SiteTime, SmuidText
from daemon.store.table import Row, Table, Tables
from routing.numbers import Number
from routing.restore import Restore


class PublicationRow(Row):
    """`publisher` is an Account, or what tells publishers apart for the router; `at` is site time."""

    id: Number
    publisher: str
    cmuid: str
    smuid: SmuidText
    at: SiteTime


TABLE: Final = Table("publication", PublicationRow)


def restore_into(restore: Restore, tables: Tables, after: float) -> None:
    """Give the index those that came after a time."""
    # those without a time are damaged; what is none sorts behind all times
    for row in tables.rows(TABLE, "WHERE (at <= ?) IS NOT TRUE ORDER BY id", (after,)):
        restore.publication(row.publisher, row.cmuid, row.smuid, row.at)
