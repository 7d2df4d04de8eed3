"""Durable subscriptions."""

from typing import Final

from daemon.store.columns import AddressText, Flag, Seconds, SiteTime, TopicText
from daemon.store.table import Row, Table, Tables
from routing.numbers import Count, Number
from routing.restore import Restore
from routing.subscription import Accepts, SubscribeOptions


class SubscriptionRow(Row):
    """What says whose it is, and of what, cannot be mended; for the rest stands what loses nothing.

    Attributes:
        since: see `routing.subscription.Subscription`; by default all that is held is due to it.
        used_at: None where it cannot be read.
    """

    id: Number
    topic: TopicText
    owner: AddressText
    name: str
    credit: Count = 100
    accepts: Accepts = "BOTH"
    ordered: Flag = 0
    lock_s: Seconds | None = None
    since: Number = 0
    used_at: SiteTime | None = None

    def wrong(self) -> list[str]:
        """The columns that hold what they cannot."""
        return ["used_at"] if self.used_at is None else []


TABLE: Final = Table("subscription", SubscriptionRow)


def restore_into(restore: Restore, tables: Tables, now: float) -> None:
    """Give the index all of them."""
    for row in tables.rows(TABLE, "ORDER BY id"):
        options = SubscribeOptions(
            name=row.name,
            credit=row.credit,
            accepts=row.accepts,
            ordered=bool(row.ordered),
            lock_s=row.lock_s,
            durable=True,
        )
        if row.used_at is None:
            row.used_at = now
        restore.subscription(row.id, row.topic, row.owner, options, row.since, row.used_at)
