"""What front ends keep with topics."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import TopicText
from daemon.store.table import Row, Table, Tables
from routing.decisions import StoreAnnotation
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE annotation (topic TEXT NOT NULL, front_end TEXT NOT NULL, text TEXT NOT NULL,"
    " PRIMARY KEY (topic, front_end)) WITHOUT ROWID"
)


class AnnotationRow(Row):
    """A text that is damaged is empty: that there was one may be all that keeps a topic from everyone."""

    topic: TopicText
    front_end: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    text: str = ""


TABLE: Final = Table("annotation", AnnotationRow, key=("topic", "front_end"))


class AnnotationChanges(Changes):
    """Those that have changed, in the order in which they did."""

    def __init__(self) -> None:
        self._changed: list[tuple[str, Values]] = []
        super().__init__(self._changed)
        self.handlers = {StoreAnnotation: self._store}

    def _store(self, d: StoreAnnotation) -> None:
        if d.text is None:
            self._changed.append((TABLE.delete, (d.topic, d.front_end)))
        else:
            self._changed.append((TABLE.put, (d.topic, d.front_end, d.text)))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        return ((sql, (row,)) for sql, row in self._changed)


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE):
        restore.annotation(row.topic, row.front_end, row.text)
