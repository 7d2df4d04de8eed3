"""What topics keep for those who join late, offered to a new subscription to one of them, or to a pattern.

While a subscription is joining it is given nothing, so that what it gets first is the most urgent and the
oldest of all: what many topics keep is put in order first. A crash in between loses nothing: after the start
all that is kept is due to every subscription that is not done with it.
"""

from collections.abc import Callable, Container
from typing import Final

from routing import copy_events
from routing.decisions import MarkDone
from routing.delivery import Deliveries
from routing.queue import GUARANTEED, STATED, Entry
from routing.state import SiteState
from routing.steps import Task
from routing.subscription import Subscription, Topic

OFFERED_MAX: Final = 2_000
"""Messages that one step offers."""

TOPICS_MAX: Final = 2_000
"""Topics that one step looks into."""


class Joining(Task):
    """One new subscription; what comes from now on is offered to it as it comes."""

    decides = False

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        subscription: Subscription,
        topics: list[Topic],
        had: Container[int] = (),
    ) -> None:
        """`topics`: what these keep is offered, but for what the subscription `had` in hand, by id."""
        self._state = state
        self._deliveries = deliveries
        self._subscription = subscription
        self._last_id = state.last_id
        self._had = had
        self._topics = list(topics) if subscription.accepts_all else []  # others join with the same
        self._is_one_topic = len(topics) == 1
        self._had_by_another: set[str] = set()  # topics
        self._ids: list[int] = []  # the next one last, once all topics have been looked into
        subscription.joining.append(self)

    @property
    def what(self) -> str:
        """The name of the task in the log."""
        return f"what {self._subscription.target.name} keeps for those who join late"

    def step(self, now: float) -> bool:
        """Offer some of what is kept; True once all of it is offered, or the subscription has ended."""
        subscription = self._subscription
        if subscription.id not in self._state.subscriptions:
            return True
        if self._topics and not self._look_into():
            return False
        for _ in range(min(len(self._ids), OFFERED_MAX)):
            entry = self._state.entries.get(self._ids.pop())
            if entry is None or entry.id in self._had:
                continue
            if entry.flags & STATED and entry.deadline > now:
                self._offer(entry, now)
        if self._ids:
            return False
        subscription.joining.remove(self)
        return True

    def _look_into(self) -> bool:
        """Find what some of the topics keep; True once that is known of all, and in order."""
        subscription, matching = self._subscription, self._state.matching
        for topic in self._topics[-TOPICS_MAX:]:
            self._ids += topic.kept.ids()
            if matching.is_had_by_another(subscription, topic):
                self._had_by_another.add(topic.name)
        del self._topics[-TOPICS_MAX:]
        if self._topics:
            return False
        if not self._is_one_topic:
            self._ids.sort()
        while self._ids and self._ids[-1] > self._last_id:
            self._ids.pop()
        self._ids.reverse()
        return True

    def _offer(self, entry: Entry, now: float) -> None:
        subscription = self._subscription
        if entry.topic.name in self._had_by_another:
            if entry.flags & GUARANTEED and subscription.options.durable:
                self._state.out.append(MarkDone(entry.id, subscription.id, has_it=False))
            return
        copy_events.joined(entry)
        try:
            self._deliveries.offer_late(subscription, entry, now)
        except Exception as error:
            self._deliveries.setting_aside.failed(entry, "an offer to one who joins late", error, now)

    def leave_out(self, is_forbidden: Callable[[Topic], bool]) -> None:
        """Offer nothing more of some topics."""
        entries, had_more = self._state.entries, bool(self._topics)
        self._topics = [topic for topic in self._topics if not is_forbidden(topic)]
        self._ids = [id for id in self._ids if id in entries and not is_forbidden(entries[id].topic)]
        if had_more and not self._topics:
            self._look_into()

    def failed(self) -> None:
        """Let the subscription have what it was offered so far, and what comes."""
        self._subscription.joining.remove(self)

    def ended(self, now: float) -> None:
        """Give the subscription what has gathered for it."""
        if self._subscription.id in self._state.subscriptions:
            self._deliveries.pump_all(self._subscription, now)
