"""Topics, subscriptions and messages as front ends are shown them."""

import math

from daemon.broker.bodies import Stored
from daemon.frontend import HeldMessage, SubscriptionInfo, TopicInfo
from routing.names import parse_address
from routing.queue import Entry
from routing.subscription import Subscription, Topic


def topic_info(topic: Topic) -> TopicInfo:
    """See `daemon.frontend.TopicInfo`."""
    return TopicInfo(
        topic.name, topic.mode, topic.timeout_s, topic.messages, topic.bytes, len(topic.subscriptions)
    )


def subscription_info(subscription: Subscription) -> SubscriptionInfo:
    """See `daemon.frontend.SubscriptionInfo`."""
    owner = parse_address(subscription.owner)
    options = subscription.options
    return SubscriptionInfo(
        topic=subscription.topic.name,
        account=owner.account,
        channel=owner.channel,
        name=options.name,
        credit=options.credit,
        accepts=options.accepts,
        attached=subscription.attached,
        lock_s=options.lock_s,
    )


def held_message(entry: Entry, stored: Stored, server: str, now: float, *, locked: bool) -> HeldMessage:
    """See `daemon.frontend.HeldMessage`."""
    return HeldMessage(
        message_id=entry.id,
        smuid=entry.smuid(server),
        locked=locked,
        stored=stored,
        expires_in_s=None if entry.deadline == math.inf else max(entry.deadline - now, 0.0),
    )
