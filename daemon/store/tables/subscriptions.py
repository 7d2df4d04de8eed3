"""Durable subscriptions."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from daemon.store.changes import Changes, Statement, Values
from daemon.store.columns import AddressText, Flag, Seconds, SiteTime, WantedText
from daemon.store.table import Row, Table, Tables
from routing.decisions import DiscardSubscription, StoreSubscription
from routing.numbers import Count, Number
from routing.options import Accepts, SubscribeOptions
from routing.restore import Restore
from routing.targets import Pattern

CREATE: Final = (
    "CREATE TABLE subscription (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, owner TEXT NOT NULL,"
    " name TEXT NOT NULL, credit INTEGER NOT NULL, accepts TEXT NOT NULL, ordered INTEGER NOT NULL,"
    " lock_s REAL, since INTEGER NOT NULL, used_at REAL NOT NULL)"
)
ADD_ALLOWED_SINCE: Final = "ALTER TABLE subscription ADD COLUMN allowed_since TEXT"
"""NULL for subscriptions that were there before."""
END_OF_ACCOUNT: Final = "DELETE FROM subscription WHERE substr(owner, 1, length(:owners)) = :owners"
"""`owners`: how their addresses begin."""


class SubscriptionRow(Row):
    """What says whose it is, and of what, cannot be mended; for the rest stands what loses nothing.

    Attributes:
        topic: or the pattern that it is to.
        since: see `routing.subscription.Subscription`; by default all that is held is due to it.
        used_at: site time without the stops of the site, in which nobody could use it; UNSET where it cannot
            be read.
        allowed_since: see `routing.targets.Pattern`; None of a topic, and where it cannot be read.
    """

    id: Number
    topic: WantedText
    owner: AddressText
    name: str
    credit: Count = 100
    accepts: Accepts = "BOTH"
    ordered: Flag = 0
    lock_s: Seconds | None = None
    since: Number = 0
    used_at: SiteTime | UnsetType = UNSET
    allowed_since: dict[str, Number] | None = None


TABLE: Final = Table("subscription", SubscriptionRow, json=("allowed_since",))


class SubscriptionChanges(Changes):
    """Those that are new, have changed or have ended."""

    def __init__(self, stopped_s: Callable[[], float]) -> None:
        self._stopped_s = stopped_s
        self._put: list[Values] = []
        self._ended: list[Values] = []
        super().__init__(self._put, self._ended)
        self.handlers = {StoreSubscription: self._store, DiscardSubscription: self._discard}

    def _store(self, d: StoreSubscription) -> None:
        subscription, options, target = d.subscription, d.subscription.options, d.subscription.target
        row = SubscriptionRow(
            id=subscription.id,
            topic=target.name,
            owner=subscription.owner,
            name=options.name,
            credit=options.credit,
            accepts=options.accepts,
            ordered=1 if options.ordered else 0,
            lock_s=options.lock_s,
            since=subscription.since,
            used_at=subscription.used_at - self._stopped_s(),
            allowed_since=dict(target.allowed_since) if isinstance(target, Pattern) else None,
        )
        self._put.append(TABLE.stored(row))

    def _discard(self, d: DiscardSubscription) -> None:
        self._ended.append((d.subscription_id,))

    def statements(self) -> Iterator[Statement]:
        """What to execute, in order."""
        yield TABLE.put, self._put
        yield TABLE.delete, self._ended


def restore_into(restore: Restore, tables: Tables, now: float, stopped_s: float) -> None:
    """Give the index all of them; `stopped_s`: how long the site has not run, all its stops together."""
    for row in tables.rows(TABLE, "ORDER BY id"):
        options = SubscribeOptions(
            name=row.name,
            credit=row.credit,
            accepts=row.accepts,
            ordered=bool(row.ordered),
            lock_s=row.lock_s,
            durable=True,
        )
        if row.used_at is UNSET:
            row.used_at = now - stopped_s
        used_at = min(row.used_at + stopped_s, now)
        restore.subscription(row.id, row.topic, row.owner, options, row.since, used_at, row.allowed_since)
