"""Topics with settings of their own."""

from typing import Final

from daemon.store.columns import Seconds, TopicText
from daemon.store.table import Row, Table, Tables
from routing.message import DeliveryMode
from routing.restore import Restore


class TopicRow(Row):
    """NULL where the topic has no such setting."""

    name: TopicText
    mode: DeliveryMode | None = None
    timeout_s: Seconds | None = None


TABLE: Final = Table("topic", TopicRow, key=("name",))


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE):
        restore.topic(row.name, row.mode, row.timeout_s)
