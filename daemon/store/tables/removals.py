"""Smuids of messages that were removed."""

from typing import Final

from daemon.store.columns import SiteTime, SmuidText, TopicText
from daemon.store.table import Row, Table, Tables
from routing.restore import Restore


class RemovalRow(Row):
    """`at` is site time; one whose time is damaged is the first to be forgotten."""

    smuid: SmuidText
    topic: TopicText
    at: SiteTime = 0.0


TABLE: Final = Table("removal", RemovalRow, key=("smuid",))


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them, oldest first."""
    for row in tables.rows(TABLE, "ORDER BY at"):
        restore.removal(row.smuid, row.topic, row.at)
