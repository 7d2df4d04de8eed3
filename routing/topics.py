"""Topics as a whole: what they hold, and emptying and deleting them."""

import heapq
from typing import Any

from routing.decisions import StoreTopic
from routing.delivery import Deliveries
from routing.emptying import Emptying
from routing.federation.federation import Federation
from routing.queue import ONE, Entry
from routing.state import SiteState
from routing.steps import Steps
from routing.subscribing import Subscribing
from routing.subscription import Consumer, Topic


class Topics:
    """Answers what a topic holds, and takes it away."""

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        subscribing: Subscribing,
        federation: Federation,
        steps: Steps,
    ) -> None:
        self._state = state
        self._deliveries = deliveries
        self._federation = federation
        self._steps = steps
        self._subscribing = subscribing

    def browse(self, topic: Topic, after: int, count: int) -> list[tuple[Entry, bool]]:
        """Up to `count` entries with a greater id than `after`, by id; True where one has it for itself.

        What waits for someone to come: the shared queue, what is locked of it, and what is kept for those
        who join late.
        """
        found: dict[int, tuple[Entry, bool]] = {}
        for entry in (*topic.kept.after(after, count), *topic.shared.after(after, count)):
            found[entry.id] = (entry, False)
        for _, _, lock in self._state.delayed:
            entry = lock.entry
            if entry.topic is topic and entry.id > after and entry.id in self._state.entries:
                found[entry.id] = (entry, False)
        for holder in self._state.matching.holders(topic):
            for held in (holder.locks, holder.received):
                for lock in held.values():
                    if lock.entry.id > after:
                        found[lock.entry.id] = (lock.entry, bool(lock.entry.flags & ONE))
        return [found[id] for id in heapq.nsmallest(count, found)]

    def purge(self, consumer: Consumer, topic_name: str, request: Any, now: float) -> None:
        """End every copy that a topic holds now."""
        emptying = Emptying(self._state, self._deliveries, self._federation, topic_name, consumer, request)
        self._steps.begin(emptying, now)

    def delete(self, consumer: Consumer, topic_name: str, request: Any, now: float) -> None:
        """End what a topic holds and all its subscriptions, and forget its settings."""
        emptying = Emptying(
            self._state, self._deliveries, self._federation, topic_name, consumer, request, self._delete
        )
        self._steps.begin(emptying, now)

    def _delete(self, name: str, now: float) -> None:
        topic = self._state.topics.get(name)
        if topic is None:
            return
        for subscription in self._state.matching.subscribed(topic):
            self._subscribing.end(subscription, now)
        topic.mode = topic.timeout_s = None
        self._state.out.append(StoreTopic(topic))
        self._state.forget_topic_if_unused(topic)
