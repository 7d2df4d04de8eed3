"""Who is due for a message: its mode, those who take that mode, and those who come later.

    mode    a system topic's is ONE; else what SET TOPIC DELIVERY says, else the message, else ALL
    ONE     one subscription that takes ONE and has room: in turn; while there is none it waits in the topic's
            shared queue for whoever comes
    ALL     each subscription that takes ALL when the message comes; and, until its stated timeout ends, each
            that begins later: for ever, if it is a state message

Nothing outside this file asks a topic for its subscriptions to find that out. Source: routing contract 5.
"""

from collections.abc import Iterator

from routing.message import DeliveryMode, Message
from routing.queue import STATED, Entry
from routing.subscription import Subscription, Topic


class Matching:
    """The topics of a site, and the subscriptions that are due for what comes to each.

    Attributes:
        topics: by name; those on which nothing hangs are forgotten.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self.topics: dict[str, Topic] = {}

    # -- topics and subscriptions -----------------------------------------------------------------

    def begin(self, name: str) -> Topic:
        """Make the topic of this name, of which there is none."""
        topic = self.topics[name] = Topic(name, self._server)
        return topic

    def forget_if_unused(self, topic: Topic) -> None:
        """Forget a topic without messages, subscriptions and settings: names alone cost no memory."""
        if not (topic.messages or topic.subscriptions or topic.has_settings):
            self.topics.pop(topic.name, None)

    def enter(self, subscription: Subscription) -> None:
        """Add a subscription: what comes from now on is due to it."""
        subscription.topic.subscriptions[subscription.id] = subscription

    def leave(self, subscription: Subscription) -> None:
        """Take out a subscription that has ended."""
        del subscription.topic.subscriptions[subscription.id]

    def subscribed(self, topic: Topic) -> list[Subscription]:
        """The subscriptions to this topic."""
        return list(topic.subscriptions.values())

    # -- to whom ----------------------------------------------------------------------------------

    def terms(
        self, topic: Topic, message: Message, default_timeout_s: float
    ) -> tuple[DeliveryMode, float | None, list[Subscription]]:
        """How a message that is published here is delivered.

        Its mode; its timeout, None where none is stated; and those to whom it is due now, of mode ALL.
        """
        timeout_s = message.timeout_s
        if timeout_s is None:
            timeout_s = topic.timeout_s
        if topic.is_system:
            return "ONE", default_timeout_s if timeout_s is None else timeout_s, []
        mode = topic.mode or message.delivery or "ALL"
        return mode, timeout_s, [] if mode == "ONE" else self.taking(topic, "ALL")

    def taking(self, topic: Topic, mode: DeliveryMode) -> list[Subscription]:
        """The subscriptions that take messages of a mode."""
        if mode == "ONE":
            return [subscription for subscription in topic.subscriptions.values() if subscription.accepts_one]
        return [subscription for subscription in topic.subscriptions.values() if subscription.accepts_all]

    def is_taken(self, topic: Topic, mode: DeliveryMode) -> bool:
        """Whether there is any."""
        subscriptions = topic.subscriptions.values()
        return any(each.accepts_one if mode == "ONE" else each.accepts_all for each in subscriptions)

    def were_due(self, entry: Entry) -> list[Subscription]:
        """The subscriptions to which a message of mode ALL was due before a restart, finished or not."""
        stated = entry.flags & STATED
        return [each for each in self.taking(entry.topic, "ALL") if stated or each.since < entry.id]

    def kept_for(self, subscription: Subscription, after: int, count: int) -> list[Entry]:
        """What is kept for one that comes late: the first `count` with a greater id than `after`, by id."""
        return subscription.topic.kept.after(after, count) if subscription.accepts_all else []

    def waits_with(self, topic: Topic) -> Iterator[Subscription]:
        """The subscriptions in whose queues messages of mode ALL of a topic may wait."""
        return iter(topic.subscriptions.values())

    def holders(self, topic: Topic) -> Iterator[Subscription]:
        """Who may have messages of a topic in hand: its subscriptions, or those who share them."""
        return (each for subscription in topic.subscriptions.values() for each in subscription.holders)

    # -- in turn ----------------------------------------------------------------------------------

    def is_only_taker(self, topic: Topic, had: Subscription) -> bool:
        """Whether nobody who is there takes messages of mode ONE but the one that has `had` one."""
        return all(
            each is had or each.consumer is None or not each.accepts_one for each in self.holders(topic)
        )

    def next_taker(self, topic: Topic, had: Subscription | None) -> Subscription | None:
        """The next one that can take a message of mode ONE; last of all the one that has `had` it."""
        takers = topic.takers
        if had is not None and takers and takers[0] is had:
            takers.rotate(-1)
        while takers:
            subscription = takers[0]
            if subscription.ready and subscription.accepts_one:
                takers.rotate(-1)
                return subscription
            takers.popleft()
            subscription.offered = False
        return None

    def take_next(self, subscription: Subscription) -> Entry | None:
        """Take what waits for a subscription that can take one more: the most urgent, then the oldest.

        None where nothing does: it is then among those to whom messages of mode ONE are given as they come.
        """
        own = subscription.queue.peek()
        if not subscription.accepts_one:
            return None if own is None else subscription.queue.pop()
        topic = subscription.topic
        shared = topic.shared.peek()
        if shared is None:
            if own is not None:
                return subscription.queue.pop()
            if not subscription.offered:
                subscription.offered = True
                topic.takers.append(subscription)
            return None
        if own is None or (shared.priority, -shared.id) > (own.priority, -own.id):
            return topic.shared.pop()
        return subscription.queue.pop()

    def stop_taking(self, subscription: Subscription) -> None:
        """Take a subscription out of the turns of its topic; one that is not in them changes nothing."""
        if subscription.offered:
            subscription.offered = False
            subscription.topic.takers.remove(subscription)
