"""Topics with settings of their own."""

from collections.abc import Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import Seconds, TopicText
from daemon.store.table import Row, Table, Tables
from routing.decisions import StoreTopic
from routing.message import DeliveryMode
from routing.restore import Restore

CREATE: Final = "CREATE TABLE topic (name TEXT PRIMARY KEY, mode TEXT, timeout_s REAL) WITHOUT ROWID"


class TopicRow(Row):
    """NULL where the topic has no such setting."""

    name: TopicText
    mode: DeliveryMode | None = None
    timeout_s: Seconds | None = None


TABLE: Final = Table("topic", TopicRow, key=("name",))

_FORGET: Final = "DELETE FROM topic WHERE name = ? AND mode IS NULL AND timeout_s IS NULL"


class TopicChanges(Changes):
    """Topics whose settings have changed."""

    def __init__(self) -> None:
        self._put: list[Values] = []
        super().__init__(self._put)
        self.handlers = {StoreTopic: self._store}

    def _store(self, d: StoreTopic) -> None:
        topic = d.topic
        self._put.append((topic.name, topic.mode, topic.timeout_s))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, self._put
        yield _FORGET, [row[:1] for row in self._put]


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE):
        restore.topic(row.name, row.mode, row.timeout_s)
