"""Topics, and who subscribes to them."""

from typing import Final, Literal

import msgspec

from routing.message import DeliveryMode
from routing.options import Accepts

TopicOrder = Literal["name", "held", "bytes", "oldest", "in", "out", "subscriptions", "expired", "dead"]
"""What topics are sorted by: names rise, all else falls."""

TOPICS_MAX: Final = 1_000
"""On one page."""


TIMEOUT_S_MAX: Final = 1e9
"""Of the timeout of a topic, where it is not INFINITE."""


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A topic.

    Attributes:
        delivery: its own mode; None where each message says.
        timeout_s: its own timeout; None for none, "INFINITE" for state messages.
        held, bytes: all that it holds, also what is with subscribers; `held_guaranteed` are the messages of
            them that have a guarantee.
        oldest_s: how long ago what waits longest for somebody, here or elsewhere, was published; None where
            nothing does, also where all that is held has a delay.
        subscriptions: attached or not.
        in_per_s, out_per_s: messages that come, and deliveries, lately.
        came, delivered, expired, unwanted, dead: since the site started, or since the topic was last empty
            and unused; `dead` were moved to its dead-letter topic.
        dead_letters: held there now.
    """

    name: str
    delivery: DeliveryMode | None
    timeout_s: float | Literal["INFINITE"] | None
    held: int
    held_guaranteed: int
    bytes: int
    oldest_s: float | None
    subscriptions: int
    in_per_s: float
    out_per_s: float
    came: int
    delivered: int
    expired: int
    unwanted: int
    dead: int
    dead_letters: int


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some topics, of so many that were looked for; and of all, without system topics."""

    topics: tuple[TopicSummary, ...]
    matching: int
    total: int


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription, and what is its.

    Attributes:
        topic: what it is to; if that is a pattern, what is said of messages is of all its topics.
        credit: of those who share it, together.
        sessions: ids of those that consume from it now.
        waiting: messages of mode ALL in its queue; those of mode ONE wait for anybody.
        locked: with it, and unanswered; `locked_s`: how long the one that is so for longest, None for none.
        received: RECEIVED, and not committed.
        joining: what the topic keeps is still being offered to it.
        unused_s: how long nobody has consumed from it; None while somebody does.
    """

    topic: str
    account: str
    channel: str
    name: str
    accepts: Accepts
    durable: bool
    ordered: bool
    credit: int
    sessions: tuple[int, ...]
    waiting: int
    locked: int
    locked_s: float | None
    received: int
    joining: bool
    unused_s: float | None


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One topic.

    Attributes:
        waiting: messages of mode ONE that wait for any subscription.
        for_peers: messages that other sites are due to have, and that peers have not answered for.
        kept: messages with a stated timeout, which those who join get, too.
        messages_max, bytes_max: at which publishers are refused.
    """

    summary: TopicSummary
    waiting: int
    for_peers: int
    kept: int
    messages_max: int
    bytes_max: int
    subscriptions: tuple[SubscriptionStatus, ...]
