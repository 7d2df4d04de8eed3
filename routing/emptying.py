"""Emptying topics, of whatever size.

What is asked for is done to the messages that the topic holds at that moment. The request is answered with
the last step. A crash in between leaves the topic partly emptied, and the request unanswered.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

from routing.decisions import AnswerRequest
from routing.delivery import Deliveries
from routing.errors import not_all_done
from routing.federation.federation import Federation
from routing.queue import CROSSES, ONE, Entry
from routing.state import SiteState
from routing.steps import ENDED_MAX, Task
from routing.subscription import Consumer

LOOKED_AT_MAX: Final = 20_000
"""Messages of the site that one step looks at."""


class Emptying(Task):
    """One request.

    Args:
        delete: ends the subscriptions to a topic, and forgets its settings; None where it is only emptied.
    """

    in_turn = True

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        federation: Federation,
        topic: str,
        consumer: Consumer,
        request: Any,
        delete: Callable[[str, float], None] | None = None,
    ) -> None:
        self._state = state
        self._deliveries = deliveries
        self._federation = federation
        self._topic = topic
        self._consumer = consumer
        self._request = request
        self._delete = delete
        self._last_id = state.last_id
        # of all messages of the site, once it begins: many may wait for their turn
        self._ids: list[int] | None = None
        self._position = 0  # those before it have been looked at
        # those of the topic that are locked or received: they end last, or what waits would be handed out in
        # their place
        self._with_someone: list[int] = []

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return f"the emptying of {self._topic}"

    def failed(self) -> None:
        """Answer the request with `not_all_done`."""
        self._state.out.append(AnswerRequest(self._consumer, self._request, not_all_done()))

    def step(self, now: float) -> bool:
        """End some of the messages; after the last one, the topic. True once all is done."""
        left = ENDED_MAX
        if self._ids is None:
            self._ids = self._there()
        while self._ids:
            left = self._end_waiting(self._ids, left, now)
            if self._position < len(self._ids):
                return False
            while self._with_someone:
                if not left:
                    return False
                left -= self._end(self._with_someone.pop(), now)
            self._ids, self._position = self._come_meanwhile(self._ids[-1]), 0
        if self._delete is not None:
            self._delete(self._topic, now)
        self._state.out.append(AnswerRequest(self._consumer, self._request))
        return True

    def _there(self) -> list[int]:
        """What the site holds, before a deletion, or held when this was asked for.

        Nothing where the topic is empty: many may ask for that, each time.
        """
        if self._is_empty():
            return []
        ids = list(self._state.by_age())
        if self._delete is None:
            del ids[bisect_right(ids, self._last_id) :]
        return ids

    def _is_empty(self) -> bool:
        topic = self._state.topics.get(self._topic)
        return topic is None or not topic.messages

    def _come_meanwhile(self, last: int) -> list[int]:
        """What has come since the topic was last looked at; a topic is deleted only when it is empty."""
        if self._delete is None or self._is_empty():
            return []
        return list(takewhile(lambda id: id > last, reversed(self._state.by_age())))[::-1]

    def _end_waiting(self, ids: list[int], left: int, now: float) -> int:
        """End what nobody has; how many more this step may end."""
        if self._is_empty():
            self._position = len(ids)
        until = min(self._position + LOOKED_AT_MAX, len(ids))
        while self._position < until and left:
            id = ids[self._position]
            self._position += 1
            entry = self._state.entries.get(id)
            if entry is None or entry.topic.name != self._topic:
                continue
            if self._deliveries.locks.of(entry):
                self._with_someone.append(id)
            else:
                left -= self._end(id, now)
        return left

    def _is_for_others(self, entry: Entry) -> bool:
        """Whether nobody here is to have it, and peers see that all others have."""
        copy = self._state.crossing.destined.get(entry.id)
        return copy is not None and bool(copy.destinations) and copy.is_passed_on

    def _end(self, id: int, now: float) -> bool:
        entry: Entry | None = self._state.entries.get(id)
        if entry is None or self._is_for_others(entry):
            return False
        try:
            self._deliveries.remove(entry, now)
        except Exception as error:
            self._deliveries.setting_aside.failed(entry, "a removal", error, now)
        if entry.flags & CROSSES and not entry.flags & ONE:
            # other sites may hold copies: they end as after a REMOVE
            self._federation.removing.note(entry.smuid(self._state.server), self._topic, now)
        return True
