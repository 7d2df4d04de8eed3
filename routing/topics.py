"""Taking messages away: one of a topic, all of them, or the topic with all that hangs on it."""

from typing import Any

from routing.decisions import AnswerRequest, StoreAnnotation, StoreTopic
from routing.delivery import Deliveries
from routing.emptying import Emptying
from routing.errors import Refusal
from routing.federation.federation import Federation
from routing.queue import CROSSES, Entry
from routing.state import SiteState
from routing.steps import Steps
from routing.subscribing import Subscribing
from routing.subscription import Consumer


class Topics:
    """Removes for administrators, and for whoever may remove."""

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

    def remove(self, now: float, consumer: Consumer, topic_name: str, smuid: str, request: Any) -> None:
        """Remove a message; one that is finished already, with success. Raises Refusal (not-found)."""
        entry = self._removable(topic_name, smuid)
        for copy in self._federation.removing.held(smuid):
            if copy.topic.name == topic_name:
                self._deliveries.retract(copy, now)
        if entry is None or entry.flags & CROSSES:  # else no other site can have it
            self._federation.removing.note(smuid, topic_name, now)
        self._state.out.append(AnswerRequest(consumer, request, smuid=smuid))

    def check_removable(self, topic_name: str, smuid: str) -> None:
        """Raises Refusal (not-found) where `remove` would."""
        self._removable(topic_name, smuid)

    def _removable(self, topic_name: str, smuid: str) -> Entry | None:
        """The message's copy here; None where it is finished already."""
        state = self._state
        entry_id = self._federation.removing.entry_id(smuid)
        if entry_id is None or entry_id > state.last_id:
            raise Refusal(Refusal.NOT_FOUND, f"{smuid} has never been at this site")
        entry = state.entries.get(entry_id)
        if entry is not None and (entry.topic.name != topic_name or entry.smuid(state.server) != smuid):
            raise Refusal(Refusal.NOT_FOUND, f"{smuid} is not a message of {topic_name}")
        return entry

    def purge(self, now: float, consumer: Consumer, topic_name: str, request: Any) -> None:
        """End every copy that a topic holds now; of a large one in steps (see `routing.emptying`)."""
        emptying = Emptying(self._state, self._deliveries, self._federation, topic_name, consumer, request)
        self._steps.begin(emptying, now)

    def delete(self, now: float, consumer: Consumer, topic_name: str, request: Any) -> None:
        """Purge a topic, then end all its subscriptions, and forget its settings."""
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
        for front_end in topic.annotations:
            topic.annotate(front_end, None)
            self._state.out.append(StoreAnnotation(name, front_end, None))
        self._state.out.append(StoreTopic(topic))
        self._state.matching.forget_if_unused(topic)
