"""Smuids of other servers that have been here; each is looked up when a copy comes.

They are remembered for so long while the site runs: what the clock of a machine that has just started says of
a stop may be wrong, and peers may still have the message. So `until` is stored without the stops of the site.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import SiteTime, SmuidText
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Depth, Number
from routing.peering.copies import Seen
from routing.peering.decisions import StoreSeen

CREATE: Final = (
    "CREATE TABLE seen (smuid TEXT PRIMARY KEY, entry INTEGER NOT NULL, depth INTEGER NOT NULL,"
    " custody INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
)
ADD_COUNTS: Final = (
    "ALTER TABLE seen ADD COLUMN due INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE seen ADD COLUMN have INTEGER NOT NULL DEFAULT 0",
)
CREATE_INDEX: Final = "CREATE INDEX seen_until ON seen (until)"


class SeenRow(Row):
    """See `routing.peering.copies.Seen`; `entry` is its `entry_id`, and `until` less by all stops."""

    smuid: SmuidText
    entry: Number
    depth: Depth
    custody: Count
    until: SiteTime
    due: Count
    have: Count


TABLE: Final = Table("seen", SeenRow, key=("smuid",))

EXPIRED_MAX: Final = 20_000
"""Rows forgotten at a time where no new ones come."""

EXPIRED_PER_NEW: Final = 2
"""Rows forgotten with each new one, so that the table grows no faster than it can shrink."""

SERVERS_MAX: Final = 10_000
"""Of which it is kept in memory what came last: peers may name any. Of others each Smuid is looked up."""

AFTER_ALL: Final = "\U0010ffff"
"""It sorts after any Smuid."""

_LAST: Final = "SELECT CAST(max(smuid) AS BLOB) FROM seen WHERE smuid > ? AND smuid < ?"  # "0" follows "/"

_EXPIRE: Final = (
    "DELETE FROM seen WHERE smuid IN (SELECT smuid FROM seen WHERE until < ? ORDER BY until LIMIT ?)"
)


class SeenChanges(Changes):
    """Smuids that have been here; with them goes what can no longer be on its way."""

    def __init__(self, now: Callable[[], float], stopped_s: Callable[[], float]) -> None:
        self._now = now
        self._stopped_s = stopped_s
        self._put: dict[str, Values] = {}
        self._expired: list[Values] = []
        super().__init__(self._put, self._expired)
        self.handlers = {StoreSeen: self._store}

    def _store(self, d: StoreSeen) -> None:
        seen = d.seen
        counted, until = (seen.due, seen.have), seen.until - self._stopped_s()
        self._put[d.smuid] = (d.smuid, seen.entry_id, seen.depth, seen.custody, until, *counted)

    @property
    def smuids(self) -> Iterable[str]:
        """Those that are new, or of which something new is remembered."""
        return self._put

    def expire(self) -> None:
        """Forget what has expired, also where nothing is new."""
        self._expired.append(())

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, self._put.values()
        if self:
            rows_max = EXPIRED_PER_NEW * len(self._put) + (EXPIRED_MAX if self._expired else 0)
            yield _EXPIRE, [(self._now() - self._stopped_s(), rows_max)]


class Recollection:
    """What is remembered of Smuids, looked up in a store to which only this process writes.

    Most that are asked for are new. Smuids of a server begin with its name and the moment of their birth, so
    one that sorts after all that have been here of its server has not been, and nothing is looked up.
    """

    def __init__(self, tables: Tables, stopped_s: Callable[[], float]) -> None:
        self._tables = tables
        self._stopped_s = stopped_s
        self._last: dict[str, str] = {}

    def note(self, smuids: Iterable[str]) -> None:
        """Note that these are being stored."""
        for smuid in smuids:
            server = smuid.partition("/")[0]
            if smuid > self._last_of(server):
                self._last[server] = smuid

    def find(self, smuid: str) -> Seen | None:
        """What is remembered of a message; None also where it is damaged: two copies are better than none."""
        if smuid > self._last_of(smuid.partition("/")[0]):
            return None
        for row in self._tables.rows(TABLE, "WHERE smuid = ?", (smuid,)):
            until = row.until + self._stopped_s()
            return Seen(row.entry, row.depth, row.custody, until, row.due, row.have)
        return None

    def _last_of(self, server: str) -> str:
        last = self._last.get(server)
        if last is None:
            if len(self._last) >= SERVERS_MAX:
                return AFTER_ALL
            found = self._tables.first(_LAST, f"{server}/", f"{server}0")
            last = self._last[server] = "" if found is None else found.decode(errors="replace")
        return last
