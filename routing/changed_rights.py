"""Rights have changed: what an account may not have any more ends, and what it may have now begins.

A subscription to a pattern loses and gains topics. What it has in hand stays with it; what waits and is
forbidden is given up; of what is kept it is offered with a right what it has not had before.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from routing.decisions import MarkDue, StoreSubscription
from routing.delivery import Deliveries
from routing.had_before import HadBefore
from routing.joining import Joining
from routing.leaving import Leaving
from routing.lifecycle import Lifecycle
from routing.matching import whose
from routing.patterns import AnyPattern
from routing.queue import GONE, GUARANTEED, ONE, Entry
from routing.state import SiteState
from routing.steps import Steps
from routing.subscribing import Subscribing
from routing.subscription import Subscription, Target
from routing.targets import Pattern


class ChangedRights:
    """Takes on what accounts may subscribe to, as it has changed.

    Args:
        target_changed: as of `Subscribing`.
    """

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        deliveries: Deliveries,
        steps: Steps,
        subscribing: Subscribing,
        target_changed: Callable[[Target], None],
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._deliveries = deliveries
        self._steps = steps
        self._subscribing = subscribing
        self._target_changed = target_changed

    def take_on(self, now: float) -> None:
        """End what an account may not have any more, as rights have changed, and begin what it may have now.

        A subscription to a pattern loses and gains topics; it ends where none is left to it.
        """
        state = self._state
        parked = {lock.subscription.id for _, _, lock in state.delayed}
        # whose subscriptions end with something that none of their others has had
        lacking: set[tuple[str, str]] = set()
        for subscription in list(state.subscriptions.values()):
            if not subscription.pattern and not state.matching.may_have(
                subscription, subscription.target.name
            ):
                if _has_something(subscription, parked):
                    lacking.add(whose(subscription))
                try:
                    self._subscribing.end(subscription, now, reason="forbidden")
                except Exception as error:
                    state.mishap("a subscription that is forbidden", error)
        patterns = {each.target for each in state.subscriptions.values() if isinstance(each.target, Pattern)}
        changed = state.matching.ask_rights(patterns)
        for pattern in changed:
            pattern.forget_shared()
        before: dict[Pattern, Sequence[str]] = {}
        in_hand: dict[Subscription, set[int]] = {}
        for pattern, allowed in changed.items():
            for subscription in state.matching.subscribed(pattern):
                if not allowed and _has_something(subscription, parked):
                    lacking.add(whose(subscription))
                entries = self._in_hand(subscription)
                in_hand[subscription] = {entry.id for entry in entries}
                in_time = [entry for entry in entries if not subscription.joined_after(entry)]
                self._note_in_time(subscription, in_time, pattern.allowed, allowed)
            before[pattern] = pattern.allowed
            pattern.allow(allowed, pattern.allowed_since, state.last_id)
            # of all, before anything comes back, and is offered to whoever may have it
            self._subscribing.gather(pattern, now)
        for pattern in changed:
            self._target_changed(pattern)
        for subscription, ids in in_hand.items():
            try:
                self._rights_changed(subscription, before, ids, now)
                if whose(subscription) in lacking:
                    subscription.had_before = None
            except Exception as error:
                state.mishap("a subscription whose rights have changed", error)

    def _note_in_time(
        self, subscription: Subscription, in_hand: list[Entry], before: Sequence[str], allowed: Sequence[str]
    ) -> None:
        """Note what a subscription has in hand, and did not come late for: it stays due to it.

        The store has to be told only as the right comes: without it, what is in hand is given up in a crash.
        """
        entries = self._state.entries
        in_time = {entry.id for entry in in_hand}
        in_time.update(id for id in subscription.in_time if id in entries)  # some has come back since
        for each in (subscription, *subscription.members):
            each.in_time = in_time
        if subscription.options.durable:
            had, has = AnyPattern(before), AnyPattern(allowed)
            for entry in in_hand:
                name = entry.topic.name
                is_stored = entry.flags & (GUARANTEED | ONE | GONE) == GUARANTEED
                if is_stored and has.covers(name) and not had.covers(name):
                    self._state.out.append(MarkDue(entry.id, subscription.id))

    def _rights_changed(
        self,
        subscription: Subscription,
        before: Mapping[Pattern, Sequence[str]],
        in_hand: set[int],
        now: float,
    ) -> None:
        pattern = subscription.target
        assert isinstance(pattern, Pattern)
        if not pattern.allowed:
            self._subscribing.end(subscription, now, reason="forbidden")
            return
        if subscription.options.durable:
            self._state.out.append(StoreSubscription(subscription))
        waiting = self._give_up_forbidden(subscription, now)
        for joining in subscription.joining:
            joining.offer_only(before[pattern], pattern.allowed)
        gained = self._state.matching.gained_by(subscription, before[pattern])
        begun = Joining(self._state, self._deliveries, subscription, gained, in_hand)
        self._note_had_before(subscription, before[pattern], waiting)
        self._steps.begin(begun, now)
        self._deliveries.pump_all(subscription, now)

    def _in_hand(self, subscription: Subscription) -> list[Entry]:
        """What it has, or has given back for a while."""
        parked = (lock for _, _, lock in self._state.delayed if lock.subscription.id == subscription.id)
        held = (
            lock for each in subscription.holders for lock in (*each.locks.values(), *each.received.values())
        )
        return [lock.entry for lock in (*held, *parked)]

    def _note_had_before(
        self, subscription: Subscription, before: Sequence[str], unfinished: list[Entry]
    ) -> None:
        """Note what it has had until now, but for what it was not done with, for when a right comes back.

        How far those have come that offer it something is not known: that it gets once more.
        """
        state = self._state
        if len(subscription.joining) > 1:
            subscription.had_before = None
        else:
            had = subscription.had_before or HadBefore()
            subscription.had_before = had.lost(before, state.last_id, unfinished, state.entries)

    def _give_up_forbidden(self, subscription: Subscription, now: float) -> list[Entry]:
        """What waits for a subscription to a pattern and is not for its account any more, does no longer.

        Returns that.
        """
        may_have = self._state.matching.may_have

        def is_forbidden(entry: Entry) -> bool:
            return not may_have(subscription, entry.topic.name)

        for each in subscription.holders:
            self._state.release_groups(each, is_released=lambda topic: not may_have(subscription, topic))
        waiting = subscription.queue.take_out(is_forbidden)
        for entry in subscription.order.release_all() if subscription.order else ():
            if is_forbidden(entry):
                waiting.append(entry)
            else:
                self._deliveries.offer(subscription, entry, now)
        leaving = Leaving(
            self._lifecycle, self._deliveries.setting_aside, subscription, waiting, None, "forbidden"
        )
        self._steps.begin(leaving, now)
        return waiting


def _has_something(subscription: Subscription, parked: Container[int]) -> bool:
    """Whether it is not done with all that came to it; those that are `parked` have given something back."""
    order = subscription.order
    return bool(
        subscription.joining
        or subscription.queue
        or any(each.locks or each.received for each in subscription.holders)
        or subscription.id in parked
        or (order is not None and order.next_release() is not None)
    )
