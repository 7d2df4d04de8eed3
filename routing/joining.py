"""What a topic keeps for those who join late, offered to a new subscription.

While a subscription is joining it is given nothing, so that what it gets first is the most urgent and the
oldest of all. A crash in between loses nothing: after the start all that is kept is due to every subscription
that is not done with it.
"""

from typing import Final

from routing.delivery import Deliveries
from routing.lifecycle import advance
from routing.state import SiteState
from routing.steps import Task
from routing.subscription import Subscription

OFFERED_MAX: Final = 2_000
"""Messages that one step offers."""


class Joining(Task):
    """One new subscription; what comes from now on is offered to it as it comes."""

    decides = False

    def __init__(self, state: SiteState, deliveries: Deliveries, subscription: Subscription) -> None:
        self._state = state
        self._deliveries = deliveries
        self._subscription = subscription
        self._last_id = state.last_id
        self._offered_to = 0
        subscription.joining = True

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return f"what {self._subscription.topic.name} keeps for those who join late"

    def step(self, now: float) -> bool:
        """Offer some of what is kept; True once all of it is offered, or the subscription has ended."""
        subscription = self._subscription
        if subscription.id not in self._state.subscriptions:
            return True
        kept = self._state.matching.kept_for(subscription, self._offered_to, OFFERED_MAX)
        for entry in kept:
            if entry.id > self._last_id:
                break
            self._offered_to = entry.id
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

    def failed(self) -> None:
        """Let the subscription have what it was offered so far, and what comes."""
        self._subscription.joining = False

    def ended(self, now: float) -> None:
        """Give the subscription what has gathered for it."""
        if self._subscription.id in self._state.subscriptions:
            self._deliveries.pump_all(self._subscription, now)
