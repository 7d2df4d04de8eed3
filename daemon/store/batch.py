"""What one transaction of the store holds: rows gathered by the broker, written in a fixed order.

Within one transaction the marks on a message can only have come in the order received, returned, done,
since a message is delivered again only after the transaction in which it came back.
"""

import math

from daemon.store.checksum import checksum
from daemon.store.link_batch import LinkBatch, Row
from routing.message import Message
from routing.queue import COMMITTED_STATES, RECEIPT, Entry
from routing.subscription import Subscription, Topic


class Batch:
    """Rows of one transaction.

    Attributes:
        messages: new ones by id; one that ends before it is written is never written.
        links: what is about links.
        returned_pages: how many free pages to give back to the file system.
        publications_until: delete the Cmuids that are older, in site time; None for none.
    """

    __slots__ = (
        "discards",
        "done",
        "dropped",
        "ended_subscriptions",
        "links",
        "messages",
        "publications",
        "publications_until",
        "receipted",
        "received",
        "returned",
        "returned_one",
        "returned_pages",
        "set_aside",
        "subscriptions",
        "topics",
    )

    def __init__(self) -> None:
        self.messages: dict[int, Row] = {}
        self.publications: list[Row] = []
        self.received: list[Row] = []
        self.returned: list[Row] = []
        self.returned_one: list[Row] = []
        self.done: list[Row] = []
        self.receipted: list[Row] = []
        self.set_aside: list[Row] = []
        self.dropped: list[Row] = []
        self.discards: list[Row] = []
        self.subscriptions: list[Row] = []
        self.ended_subscriptions: list[Row] = []
        self.topics: list[Row] = []
        self.links = LinkBatch()
        self.publications_until: float | None = None
        self.returned_pages = 0

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in Batch.__slots__)

    def add_message(
        self,
        entry: Entry,
        wire: bytes,
        message: Message,
        receipt_due: int,
    ) -> None:
        """A new message."""
        self.messages[entry.id] = (
            entry.id,
            entry.topic.name,
            entry.origin,
            entry.priority,
            entry.size,
            entry.flags & COMMITTED_STATES,
            None if entry.deadline == math.inf else entry.deadline,
            receipt_due if entry.flags & RECEIPT else 0,
            message.receipt,
            message.sequence or 0,
            message.account,
            message.cmuid,
            wire,
            checksum(entry.id, entry.topic.name.encode(), wire),
        )

    def discard(self, entry: Entry) -> None:
        """A message has ended."""
        if self.set_aside and any(id == entry.id for *_, id in self.set_aside):
            self.discards.append((entry.id,))  # stored first, to be copied
            return
        is_stored = self.messages.pop(entry.id, None) is None
        if is_stored or self.received or self.returned or self.done:
            self.discards.append((entry.id,))

    def add_returned(self, entry_id: int, subscription_id: int, attempts: int) -> None:
        """A message came back; nobody has it."""
        self.returned.append((entry_id, subscription_id, attempts, attempts))
        if not subscription_id:
            self.returned_one.append((entry_id,))

    def add_subscription(self, subscription: Subscription) -> None:
        """A durable subscription is new or changed."""
        options = subscription.options
        self.subscriptions.append(
            (
                subscription.id,
                subscription.topic.name,
                subscription.owner,
                options.name,
                options.credit,
                options.accepts,
                options.ordered,
                options.lock_s,
                subscription.since,
                subscription.used_at,
            )
        )

    def add_topic(self, topic: Topic) -> None:
        """A topic's own settings have changed."""
        self.topics.append((topic.name, topic.mode, topic.timeout_s))
