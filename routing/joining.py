"""What a topic keeps for those who join late, offered to a new subscription: in steps, as topics are emptied.

While a subscription is joining it is given nothing, so that what it gets first is the most urgent and the
oldest of all. A topic that keeps little is offered at once. A crash in between loses nothing: after the start
all that is kept is due to every subscription that is not done with it.
"""

import math
from collections import deque
from typing import Final

import msgspec

from routing.delivery import Deliveries
from routing.emptying import STEP_S
from routing.lifecycle import advance
from routing.state import SiteState
from routing.subscription import Subscription

OFFERED_MAX: Final = 2_000
"""Messages that one step offers; nothing of it has to be carried out."""


class Joining(msgspec.Struct):
    """One new subscription; what came after `last_id` is offered to it as it comes."""

    subscription: Subscription
    last_id: int
    offered_to: int = 0


class Joinings:
    """All that are not finished; one is worked on at a time."""

    def __init__(self, state: SiteState, deliveries: Deliveries) -> None:
        self._state = state
        self._deliveries = deliveries
        self._open: deque[Joining] = deque()

    def begin(self, subscription: Subscription, now: float) -> None:
        """Offer what its topic keeps, now or in a moment."""
        joining = Joining(subscription, self._state.last_id)
        subscription.joining = True
        if not self._step(joining, now):
            self._open.append(joining)
            self._state.wake_at = min(self._state.wake_at, now + STEP_S)

    def tick(self, now: float) -> None:
        """The next step."""
        if not self._open:
            return
        subscription = self._open[0].subscription
        try:
            if not self._step(self._open[0], now):
                return
        except Exception as error:
            subscription.joining = False
            self._state.mishap(f"what {subscription.topic.name} keeps for those who join late", error)
        self._open.popleft()
        if subscription.id in self._state.subscriptions:
            self._deliveries.pump_all(subscription, now)

    def next_wake(self, now: float) -> float:
        """Site time of the next step; `inf` for none."""
        return now + STEP_S if self._open else math.inf

    def _step(self, joining: Joining, now: float) -> bool:
        """Whether it was the last one."""
        subscription = joining.subscription
        if subscription.id not in self._state.subscriptions:
            return True
        kept = self._state.matching.kept_for(subscription, joining.offered_to, OFFERED_MAX)
        for entry in kept:
            if entry.id > joining.last_id:
                break
            joining.offered_to = entry.id
            if entry.deadline > now:
                advance(entry, "joined")
                try:
                    self._deliveries.offer_late(subscription, entry, now)
                except Exception as error:
                    self._deliveries.setting_aside.failed(entry, "an offer to one who joins late", error, now)
        else:
            if len(kept) == OFFERED_MAX:
                return False
        subscription.joining = False
        return True
