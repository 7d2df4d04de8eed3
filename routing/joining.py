"""What topics keep for those who join late, offered to a new subscription to one of them, or to a pattern.

While a subscription is joining it is given nothing, so that what it gets first is the most urgent and the
oldest of all: what many topics keep is put in order first. A crash in between loses nothing: after the start
all that is kept is due to every subscription that is not done with it.
"""

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from routing import copy_events
from routing.decisions import MarkDone
from routing.delivery import Deliveries
from routing.patterns import AnyPattern
from routing.queue import GUARANTEED, STATED, Entry
from routing.state import SiteState
from routing.steps import Task
from routing.subscription import Subscription
from routing.targets import Topic

OFFERED_MAX: Final = 500
"""Messages that one step offers."""

TOPICS_MAX: Final = 250
"""Topics that one step looks into, or places in the tree of them."""


class Joining(Task):
    """One new subscription; what comes from now on is offered to it as it comes."""

    decides = False

    def __init__(
        self,
        state: SiteState,
        deliveries: Deliveries,
        subscription: Subscription,
        topics: Iterator[Topic | None],
        in_hand: Container[int] = (),
    ) -> None:
        """`topics`: what these keep is offered, but for what is `in_hand`, by id, or was had before.

        As they are found: None wherever one was looked for in vain.
        """
        self._state = state
        self._deliveries = deliveries
        self._subscription = subscription
        self._last_id = state.last_id
        self._newest_id = state.last_subscription_id  # who begins later finds this one, and leaves it to it
        self._in_hand = in_hand
        self._had_before = subscription.had_before
        self._topics = topics
        self._only: list[AnyPattern] = []  # what each of these covers
        self._had_by_another: set[str] = set()  # topics
        self._found: list[list[int]] = []  # the ids of what each step has found, in order
        self._ids: Iterator[int] | None = None  # the next ones, once all topics have been looked into
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
        if self._ids is None:
            if not self._look_into():
                return False
            self._ids = merge(*self._found)
        left = OFFERED_MAX
        for id in islice(self._ids, OFFERED_MAX):
            left -= 1
            entry = self._state.entries.get(id)
            if entry is None or self._has_had(entry) or not self._is_for_it(entry.topic):
                continue
            if entry.flags & STATED and entry.deadline > now:
                self._offer(entry, now)
        if not left:
            return False
        subscription.joining.remove(self)
        return True

    def _look_into(self) -> bool:
        """Find what some of the topics keep; True once that is known of all."""
        subscription, matching = self._subscription, self._state.matching
        found: list[int] = []
        left = TOPICS_MAX
        for topic in islice(self._topics, TOPICS_MAX):
            left -= 1
            if topic is None or not self._is_for_it(topic):
                continue
            found += topic.kept.ids()
            if matching.is_had_by_another(subscription, topic, self._newest_id):
                self._had_by_another.add(topic.name)
        found.sort()
        del found[bisect_right(found, self._last_id) :]
        self._found.append(found)
        return bool(left)

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

    def offer_only(self, *each_of: Sequence[str]) -> None:
        """Offer from now on only what each of these covers: patterns, of one at least."""
        self._only += map(AnyPattern, each_of)

    def _has_had(self, entry: Entry) -> bool:
        had_before = self._had_before
        return entry.id in self._in_hand or (had_before is not None and had_before.includes(entry))

    def _is_for_it(self, topic: Topic) -> bool:
        return all(patterns.covers(topic.name) for patterns in self._only)

    def failed(self) -> None:
        """Let the subscription have what it was offered so far, and what comes."""
        self._subscription.joining.remove(self)

    def ended(self, now: float) -> None:
        """Give the subscription what has gathered for it."""
        if self._subscription.id in self._state.subscriptions:
            self._deliveries.pump_all(self._subscription, now)
