"""What each site wants, as it has said it itself: the buckets of its leaves."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from daemon.store.changes import Changes, Statement, Values
from daemon.store.table import Row, Table, Tables
from routing.errors import Refusal
from routing.names import is_server_name
from routing.peering.decisions import DiscardWants, StoreWants
from routing.peering.leaves import BUCKETS, NumberedBucket, read_bucket
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE wants (site TEXT NOT NULL, bucket INTEGER NOT NULL, leaves BLOB NOT NULL,"
    " PRIMARY KEY (site, bucket)) WITHOUT ROWID"
)


class WantsRow(Row):
    """Peers have it, too: what is damaged, or is not what the site has signed, is asked for again."""

    site: str
    bucket: Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS)]
    leaves: bytes


def _is_bucket(data: bytes) -> bool:
    try:
        read_bucket(data)
    except Refusal:
        return False
    return True


TABLE: Final = Table(
    "wants", WantsRow, key=("site", "bucket"), checks={"site": is_server_name, "leaves": _is_bucket}
)

_FORGET: Final = "DELETE FROM wants WHERE site = ?"


class WantsChanges(Changes):
    """In the order in which it came: a site may be forgotten and heard of again."""

    def __init__(self) -> None:
        self._told: list[tuple[str, Values]] = []
        super().__init__(self._told)
        self.handlers = {StoreWants: self._store, DiscardWants: self._discard}

    def _store(self, d: StoreWants) -> None:
        index, data = d.bucket.index, d.bucket.data
        if data:
            self._told.append((TABLE.put, TABLE.stored(WantsRow(d.site, index, data))))
        else:
            self._told.append((TABLE.delete, (d.site, index)))

    def _discard(self, d: DiscardWants) -> None:
        self._told.append((_FORGET, (d.site,)))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        return ((sql, (row,)) for sql, row in self._told)


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of it, after the news of the sites."""
    for row in tables.rows(TABLE):
        restore.wants(row.site, NumberedBucket(row.bucket, row.leaves))
