"""How much goes through a topic: counted as it happens.

Counts begin at a start of the site, or once something is known of the topic. A plain class: its counts rise
with every message, and those of a msgspec Struct would take twice as long for it.
"""


class Traffic:
    """Of one topic, or of all that have been forgotten: those are written by the router alone.

    Attributes:
        came: messages accepted, from clients and from peers.
        delivered: handed to a subscription, each time.
        committed: finished by a subscription.
        expired, removed, dropped: copies that ended so.
        unwanted: copies that ended before their timeout, due to nobody, or to nobody any more: as those of
            mode ALL do to which nobody subscribes here or elsewhere, which others call unrouted.
        dead: moved to the dead-letter topic, once for each subscription that could not take it.
    """

    __slots__ = (
        "came",
        "committed",
        "dead",
        "delivered",
        "dropped",
        "expired",
        "removed",
        "unwanted",
    )

    def __init__(self) -> None:
        self.came = self.delivered = self.committed = 0
        self.expired = self.unwanted = self.removed = self.dropped = self.dead = 0

    @property
    def has_counted(self) -> bool:
        """Whether anything has come, or ended: of what came before a start the end alone is counted."""
        return bool(
            self.came or self.delivered or self.expired or self.unwanted or self.removed or self.dropped
        )

    def add(self, other: "Traffic") -> None:
        """Count what another has counted, too."""
        self.came += other.came
        self.delivered += other.delivered
        self.committed += other.committed
        self.expired += other.expired
        self.unwanted += other.unwanted
        self.removed += other.removed
        self.dropped += other.dropped
        self.dead += other.dead
