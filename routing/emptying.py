"""Emptying topics, of whatever size, in steps: the site goes on with everything else in between.

What is asked for is done to the messages that the topic holds at that moment. The first step is carried out
at once, so a small topic is empty when the call returns; the next ones follow by time (`next_wake`), no
faster than their decisions are carried out. The request is answered with the last one. A crash in between
leaves the topic partly emptied, and the request unanswered.
"""

import math
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

import msgspec

from routing.decisions import Answer
from routing.delivery import Deliveries
from routing.errors import Refusal
from routing.federation.federation import Federation
from routing.queue import CROSSES, ONE, Entry
from routing.state import SiteState
from routing.subscription import Consumer

ENDED_MAX: Final = 500
"""Messages that one step ends."""

LOOKED_AT_MAX: Final = 20_000
"""Messages of the site that one step looks at."""

DECISIONS_MAX: Final = 5_000
"""With more than these still to be carried out, a step waits."""

STEP_S: Final = 0.001

FAILED: Final = Refusal(Refusal.STORE_FAILED, "the site could not do all of this; its log says why")


class Emptying(msgspec.Struct):
    """One request.

    Attributes:
        ids: of all messages of the site; those before `position` have been looked at.
        with_someone: those of the topic that were locked or received: they end last, or what waits
            would be handed out in their place.
        deletes: the topic itself is to go as well.
    """

    topic: str
    consumer: Consumer
    request: Any
    deletes: bool
    ids: list[int] = []
    position: int = 0
    with_someone: list[int] = []


class Emptyings:
    """All requests that are not finished; one is worked on at a time.

    Args:
        delete: ends the subscriptions to a topic, and forgets its settings.
    """

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        federation: Federation,
        delete: Callable[[str, float], None],
    ) -> None:
        self._state = state
        self._deliveries = deliveries
        self._federation = federation
        self._delete = delete
        self._open: deque[Emptying] = deque()

    def begin(self, emptying: Emptying, now: float) -> None:
        """Empty a topic, now or in a moment."""
        emptying.ids = list(self._state.entries)
        if self._open or not self._step(emptying, now):
            self._open.append(emptying)
            self._state.wake_at = min(self._state.wake_at, now + STEP_S)

    def tick(self, now: float) -> None:
        """The next step."""
        if not self._open or len(self._state.out) >= DECISIONS_MAX:
            return
        emptying = self._open[0]
        try:
            if self._step(emptying, now):
                self._open.popleft()
        except Exception as error:
            self._open.popleft()
            self._state.out.append(Answer(emptying.consumer, emptying.request, FAILED))
            self._state.mishap(f"the emptying of {emptying.topic}", error)

    def next_wake(self, now: float) -> float:
        """Site time of the next step; `inf` for none."""
        return now + STEP_S if self._open else math.inf

    def _step(self, emptying: Emptying, now: float) -> bool:
        """Whether it was the last one."""
        left = ENDED_MAX
        while emptying.ids:
            left = self._end_waiting(emptying, left, now)
            if emptying.position < len(emptying.ids):
                return False
            while emptying.with_someone:
                if not left:
                    return False
                left -= self._end(emptying, emptying.with_someone.pop(), now)
            emptying.ids, emptying.position = self._come_meanwhile(emptying), 0
        if emptying.deletes:
            self._delete(emptying.topic, now)
        self._state.out.append(Answer(emptying.consumer, emptying.request))
        return True

    def _come_meanwhile(self, emptying: Emptying) -> list[int]:
        """What has come since the topic was last looked at; a topic is deleted only when it is empty."""
        if not emptying.deletes:
            return []
        last = emptying.ids[-1]
        return list(takewhile(lambda id: id > last, reversed(self._state.entries)))[::-1]

    def _end_waiting(self, emptying: Emptying, left: int, now: float) -> int:
        """End what nobody has; how many more this step may end."""
        until = min(emptying.position + LOOKED_AT_MAX, len(emptying.ids))
        while emptying.position < until and left:
            id = emptying.ids[emptying.position]
            emptying.position += 1
            entry = self._state.entries.get(id)
            if entry is None or entry.topic.name != emptying.topic:
                continue
            if self._deliveries.holders(entry):
                emptying.with_someone.append(id)
            else:
                left -= self._end(emptying, id, now)
        return left

    def _end(self, emptying: Emptying, id: int, now: float) -> bool:
        entry: Entry | None = self._state.entries.get(id)
        if entry is None:
            return False
        try:
            self._deliveries.end(entry, self._deliveries.holders(entry), "removed", now)
        except Exception as error:
            self._deliveries.setting_aside.failed(entry, "a removal", error, now)
        if entry.flags & CROSSES and not entry.flags & ONE:
            # other sites may hold copies: they end as after a REMOVE
            self._federation.note_removed(entry.smuid(self._state.server), emptying.topic, now)
        return True
