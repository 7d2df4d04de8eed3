"""What is known of each site, as it has said it itself."""

from collections.abc import Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import SiteTime
from daemon.store.table import Row, Table, Tables
from routing.errors import Refusal
from routing.names import is_server_name
from routing.peering.decisions import DiscardNews, StoreNews
from routing.peering.news import KnownNews, SignedNews, read_statement
from routing.restore import Restore

CREATE: Final = (
    "CREATE TABLE news (site TEXT PRIMARY KEY, said_at REAL NOT NULL, source TEXT NOT NULL,"
    " statement BLOB NOT NULL, certificate BLOB NOT NULL, signature BLOB NOT NULL) WITHOUT ROWID"
)


class NewsRow(Row):
    """Peers have it, too: what is damaged, or has a wrong signature, is soon there again."""

    site: str
    statement: bytes
    certificate: bytes
    signature: bytes
    said_at: SiteTime = 0.0
    source: str = ""


def _is_statement(statement: bytes) -> bool:
    try:
        read_statement(statement)
    except Refusal:
        return False
    return True


TABLE: Final = Table(
    "news",
    NewsRow,
    key=("site",),
    checks={
        "site": is_server_name,
        "statement": _is_statement,
        "source": lambda source: not source or is_server_name(source),
    },
)


class NewsChanges(Changes):
    """In the order in which it came: a site may be forgotten and heard of again."""

    def __init__(self) -> None:
        self._told: list[tuple[str, Values]] = []
        super().__init__(self._told)
        self.handlers = {StoreNews: self._store, DiscardNews: self._discard}

    def _store(self, d: StoreNews) -> None:
        news, signed = d.news, d.news.signed
        row = NewsRow(
            news.statement.site,
            signed.statement,
            signed.certificate,
            signed.signature,
            max(news.said_at, 0.0),
            news.source,
        )
        self._told.append((TABLE.put, TABLE.stored(row)))

    def _discard(self, d: DiscardNews) -> None:
        self._told.append((TABLE.delete, (d.site,)))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        return ((sql, (row,)) for sql, row in self._told)


def restore_into(restore: Restore, tables: Tables) -> None:
    """Give the index all of it."""
    for row in tables.rows(TABLE):
        signed = SignedNews(row.statement, row.certificate, row.signature)
        restore.news(row.site, KnownNews(read_statement(row.statement), signed, row.said_at, row.source))
