"""What each peer wants, by its own word."""

from typing import Final

from daemon.store.columns import TopicText
from daemon.store.table import Row, Table, Tables
from routing.federation.interest import Distance, InterestChange, Kind
from routing.restore import Restore


class InterestRow(Row):
    """The peer tells it again when its link comes up, so one that is damaged is soon there again."""

    peer: str
    kind: Kind
    name: TopicText
    distance: Distance


TABLE: Final = Table("interest", InterestRow, key=("peer", "kind", "name"))


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of it."""
    for row in tables.rows(TABLE):
        restore.interest(row.peer, InterestChange(row.kind, row.name, row.distance))
