"""Subscriptions come, change, are attached to a session, detached, and end."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from routing.decisions import (
    AnswerRequest,
    Detach,
    DiscardSubscription,
    StoreSubscription,
)
from routing.delivery import Deliveries
from routing.errors import Refusal
from routing.gathering import Gathering
from routing.joining import Joining
from routing.leaving import Leaving
from routing.lifecycle import Lifecycle
from routing.locks import come_back
from routing.names import make_address
from routing.options import SubscribeOptions
from routing.queue import COUNTER_BITS, ONE
from routing.state import SiteState
from routing.steps import Steps
from routing.subscription import Consumer, Lock, Member, Subscription, Target
from routing.targets import Pattern

NOTE_SHARE: Final = 1 / 30
"""Of the time after which an unused subscription ends: how old the stored time of use may be in a crash."""


class Subscribing:
    """Keeps the subscriptions of a site.

    Args:
        target_changed: told of each topic or pattern whose subscriptions come, change or go, or to one of
            which somebody is attached now, or nobody any more.
    """

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        deliveries: Deliveries,
        steps: Steps,
        target_changed: Callable[[Target], None],
    ) -> None:
        self._state = state
        self._target_changed = target_changed
        self._deliveries = deliveries
        self._lifecycle = lifecycle
        self._steps = steps

    def subscribe(
        self, now: float, consumer: Consumer, name: str, options: SubscribeOptions, request: Any
    ) -> None:
        """Begin or change a subscription to a topic or a pattern, by `name`, and consume from it."""
        state = self._state
        owner = make_address(consumer.account, consumer.channel, state.server)
        held = consumer.subscriptions.get((name, options.name))
        if held is not None:
            options = msgspec.structs.replace(options, shared=held.options.shared)
        subscription = state.by_owner.get((name, owner, options.name))
        if subscription is not None and _begins_anew(subscription, options):
            self.end(subscription, now, by=consumer, reason="replaced")
            subscription = held = None
        if subscription is None:
            subscription = self._begin(name, owner, options, now)
        else:
            if isinstance(held, Member):
                held.set(options)  # first, as what was held back is offered to it
            self._change(subscription, options, now)
        if held is None:
            self._attach(subscription, consumer, options, now)
        else:
            held.set(options)
        self.gather(subscription.target, now)
        state.out.append(AnswerRequest(consumer, request))
        if held is None:
            self._deliveries.locks.hand_again(subscription)
        self._deliveries.pump_all(subscription, now)

    def _attach(
        self, subscription: Subscription, consumer: Consumer, options: SubscribeOptions, now: float
    ) -> None:
        """Have a session consume from it; those that do stay only where they share it."""
        was_attached = subscription.attached
        if not (options.shared and subscription.members):
            self._replace(subscription, now)
        key = subscription.target.name, options.name
        if options.shared:
            member = consumer.subscriptions[key] = Member(subscription, consumer, options)
            subscription.add(member)
        else:
            consumer.subscriptions[key] = subscription
            subscription.attach(consumer)
        if not was_attached:
            self._target_changed(subscription.target)

    def gather(self, target: Target, now: float) -> None:
        """Have it found what of mode ONE waits for those who consume from a pattern, unless it is known."""
        if isinstance(target, Pattern) and target.shared is None and self._state.matching.is_attended(target):
            self._steps.begin(Gathering(self._state, self._deliveries, target), now)

    def _begin(self, name: str, owner: str, options: SubscribeOptions, now: float) -> Subscription:
        state = self._state
        target = state.matching.target(name, owner)
        since = state.boot << COUNTER_BITS | state.counter
        subscription = Subscription(state.next_subscription_id(), target, owner, options, since, now)
        self.enter(subscription)
        if options.durable:
            state.out.append(StoreSubscription(subscription))
        topics = state.matching.kept_for(subscription)
        self._steps.begin(Joining(state, self._deliveries, subscription, topics), now)
        return subscription

    def enter(self, subscription: Subscription) -> None:
        """Make a subscription known."""
        self._state.subscriptions[subscription.id] = subscription
        self._state.matching.enter(subscription)
        self._target_changed(subscription.target)

    def _change(self, subscription: Subscription, options: SubscribeOptions, now: float) -> None:
        if options == subscription.options:
            return
        held_back = subscription.order.release_all() if subscription.order and not options.ordered else []
        subscription.set(options)
        for member in subscription.members:
            member.set(msgspec.structs.replace(member.options, accepts=options.accepts))
        if not subscription.accepts_one:
            for each in subscription.holders:
                self._state.release_groups(each)
        self._target_changed(subscription.target)
        if options.durable:
            self._state.out.append(StoreSubscription(subscription))
        for entry in held_back:
            self._deliveries.offer(subscription, entry, now)

    def find(self, consumer: Consumer, topic_name: str, name: str) -> Subscription:
        """The subscription of the consumer's account and channel. Raises Refusal (not-subscribed)."""
        owner = make_address(consumer.account, consumer.channel, self._state.server)
        subscription = self._state.by_owner.get((topic_name, owner, name))
        if subscription is None:
            shown = f" (subscription {name!r})" if name else ""
            raise Refusal(Refusal.NOT_SUBSCRIBED, f"no subscription to {topic_name}{shown}")
        return subscription

    def detach(self, now: float, consumer: Consumer, topic_name: str, name: str, request: Any) -> None:
        """Stop consuming; a durable subscription stays. Raises Refusal (not-subscribed)."""
        self.find(consumer, topic_name, name)
        held = consumer.subscriptions.get((topic_name, name))
        if held is None:
            raise Refusal(Refusal.NOT_SUBSCRIBED, f"{topic_name} is not attached to this session")
        self._leave(held, now, "detached")
        self._state.out.append(AnswerRequest(consumer, request))

    def unsubscribe(self, now: float, consumer: Consumer, topic_name: str, name: str, request: Any) -> None:
        """End a subscription. Raises Refusal (not-subscribed)."""
        self.end(self.find(consumer, topic_name, name), now, by=consumer)
        self._state.out.append(AnswerRequest(consumer, request))

    def close(self, now: float, consumer: Consumer, *, lost: bool = False) -> None:
        """End a session: what it held locked goes on to others.

        `lost`: without a word from the client, so that what it was at work on has failed.
        """
        consumer.pause()  # or what one subscription gives back would come to the next one that is to go
        for held in list(consumer.subscriptions.values()):
            self._leave(held, now, "connection lost" if lost else "session ended", lost=lost)

    def end_unused(self, now: float) -> list[Subscription]:
        """End durable subscriptions that nobody has used for the configured time, and name them."""
        unused_s = self._state.settings.subscription_unused_s
        unused = []
        for subscription in list(self._state.subscriptions.values()):
            unused_for_s = now - subscription.used_at
            if not subscription.attached and unused_for_s > unused_s:
                try:
                    self.end(subscription, now)
                except Exception as error:  # tried again in a minute
                    self._state.mishap("an unused subscription", error)
                    continue
                unused.append(subscription)
            elif subscription.attached and unused_for_s > unused_s * NOTE_SHARE:
                self._note_use(subscription, now)
        return unused

    def _note_use(self, subscription: Subscription, now: float) -> None:
        subscription.used_at = now
        if subscription.options.durable:
            self._state.out.append(StoreSubscription(subscription))

    def _leave(self, held: Subscription, now: float, why: str, *, lost: bool = False) -> None:
        """One who consumes has gone; `held` is the subscription, or its part in one that is shared."""
        subscription, consumer = self._state.subscriptions[held.id], held.consumer
        assert consumer is not None
        if not held.options.durable and len(subscription.members) < 2:
            self.end(subscription, now, by=consumer, why=why, lost=lost)
            return
        del consumer.subscriptions[held.target.name, held.options.name]
        self._note_use(subscription, now)
        self._deliveries.abandon(subscription, [held], now, why, lost=lost)
        if not subscription.attached:
            self._target_changed(subscription.target)

    def _replace(self, subscription: Subscription, now: float) -> None:
        """Another session takes it over from whoever consumes from it."""
        target, name = subscription.target, subscription.options.name
        held = [(each, each.consumer) for each in subscription.holders if each.consumer is not None]
        for _, consumer in held:
            del consumer.subscriptions[target.name, name]
        with subscription.taken_over():
            self._deliveries.abandon(subscription, [each for each, _ in held], now, "replaced", lost=True)
        self._state.out += (Detach(consumer, target, name, "replaced") for _, consumer in held)

    def end(
        self,
        subscription: Subscription,
        now: float,
        *,
        by: Consumer | None = None,
        reason: Literal["replaced", "removed", "forbidden"] = "removed",
        why: str = "unsubscribed",
        lost: bool = False,
    ) -> None:
        """End a subscription; a session that consumes from it and did not ask for this is told the `reason`.

        `why` and `lost` say what becomes of the messages that it had, see `come_back`.
        """
        state, target = self._state, subscription.target
        holders = (subscription, *subscription.members)
        # first it takes nothing more, so that nothing that comes back from it is offered to it
        for each in holders:
            self._stop(each, subscription.options.name, by, reason)
        del state.subscriptions[subscription.id]
        state.matching.leave(subscription)
        self._target_changed(target)
        state.ordering.pop(subscription.id, None)
        if subscription.options.durable:
            state.out.append(DiscardSubscription(subscription.id))
        back = come_back(holders, lost=lost)
        for each in holders:
            back += [(lock, "failed" if lost else "released") for lock in each.received.values()]
            each.locks.clear()
            each.received.clear()
        subscription.members = []
        for lock, _ in back:
            self._deliveries.locks.note_let_go(lock)
        for lock, outcome in back:
            if lock.entry.flags & ONE:
                self._deliveries.take_back(lock, outcome, why, now)
        self._give_up_all(subscription, [lock for lock, _ in back], why, now)
        state.matching.forget_if_unused(target)

    def _stop(
        self,
        holder: Subscription,
        name: str,
        by: Consumer | None,
        reason: Literal["replaced", "removed", "forbidden"],
    ) -> None:
        """Have nothing more go to one that holds messages of a subscription of this name, which ends."""
        state, consumer = self._state, holder.consumer
        if consumer is not None:
            del consumer.subscriptions[holder.target.name, name]
            for lock in (*holder.locks.values(), *holder.received.values()):
                consumer.locks.pop(lock.number, None)
            if consumer is not by:
                state.out.append(Detach(consumer, holder.target, name, reason))
        holder.detach()
        state.locking.pop(holder, None)
        state.takers.stop_taking(holder)
        state.release_groups(holder)

    def _give_up_all(self, subscription: Subscription, back: Iterable[Lock], why: str, now: float) -> None:
        """Give up what was due to a subscription that has ended: what came `back` from it, and what waits.

        Of mode ALL that waits for this subscription alone; those of mode ONE go to others when it is time.
        """
        parked = [
            lock.entry
            for _, _, lock in self._state.delayed
            if lock.subscription.id == subscription.id and not lock.entry.flags & ONE
        ]
        held_back = subscription.order.release_all() if subscription.order else []
        leaving = Leaving(
            self._lifecycle,
            self._deliveries.setting_aside,
            subscription,
            (*parked, *held_back),
            subscription.queue,
            why,
        )
        for lock in back:
            if not lock.entry.flags & ONE:
                leaving.give_up(lock.entry, now)
        self._steps.begin(leaving, now)


def _begins_anew(subscription: Subscription, options: SubscribeOptions) -> bool:
    """Whether options change what is due to a subscription, or whether the store knows of it."""
    before = subscription.options
    return (before.accepts == "ONE") != (options.accepts == "ONE") or before.durable != options.durable
