"""A site under random requests, time and crashes; `tests.support.router_promises` judges it."""

import math
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from routing.errors import Refusal
from routing.message import Message, Section
from routing.options import SubscribeOptions
from routing.queue import EXPIRED, GUARANTEED, ONE
from routing.subscription import Subscription
from tests.support.router_promises import SERVER, SETTINGS, ObservedClient, ObservedSite
from tests.support.wishes import takes

SEATS = ("ada", "ada/2", "bob", "cyd")
"""Of two clients of one account and channel the second is the account with a number."""
TOPICS = ("t", "t.u")
WANTED = (*TOPICS, "#", "t.*")

options = st.builds(
    SubscribeOptions,
    credit=st.sampled_from([0, 1, 2, 5]),
    accepts=st.sampled_from(["BOTH", "BOTH", "ONE", "ALL"]),
    durable=st.sampled_from([True, True, True, False]),
    ordered=st.sampled_from([False, False, True]),
    lock_s=st.sampled_from([None, 5.0]),
    acknowledges_all=st.booleans(),
    shared=st.booleans(),
)
messages = st.builds(
    Message,
    created=st.just("2026-11-21T10:00:00.000Z"),
    priority=st.sampled_from([0, 0, 1]),
    guarantee=st.sampled_from([True, True, True, False]),
    timeout_s=st.sampled_from([None, None, 3.0, 40.0, math.inf]),
    delivery=st.sampled_from([None, "ONE", "ALL"]),
    receipt=st.sampled_from(["NONE", "ONE", "ALL"]),
    sequence=st.sampled_from([None, None, 1, 2, 3, 4]),
    cmuid=st.sampled_from(["", "", "c1", "c2"]),
    group=st.sampled_from([None, None, "g", "h"]),
    ends_group=st.sampled_from([False, False, True]),
    sections=st.sampled_from([0, 10, 300]).map(lambda size: (Section("text/plain", b"x" * size),)),
)
which = st.integers(0, 10_000)


class RouterMachine(ObservedSite):
    def teardown(self) -> None:
        try:
            self._drain()
        finally:
            self.backing.close()

    def _request(self) -> int:
        self.requests += 1
        self.unanswered[self.requests] = self.requests
        return self.requests

    # -- requests ----------------------------------------------------------------------------------

    def _client(self, seat: str) -> ObservedClient:
        if seat not in self.clients:
            self.clients[seat] = ObservedClient(self, seat.partition("/")[0])
        return self.clients[seat]

    def _done(self, settles: bool) -> None:
        self._wake()
        if settles:
            self.settle()
            self._wake()  # a burial may have opened a group

    def _wake(self) -> None:
        """Have time do what is due now, as the broker does, and note what follows."""
        if self.state.grouping.opened:
            self.router.timing.tick(self.now)
        self._observe()

    @rule(
        seat=st.sampled_from(SEATS),
        topic=st.sampled_from(WANTED),
        options=options,
        settles=st.booleans(),
    )
    def subscribe(self, seat: str, topic: str, options: SubscribeOptions, settles: bool) -> None:
        self._subscribe(self._client(seat), topic, options)
        self._done(settles)

    @rule(seat=st.sampled_from(SEATS), topic=st.sampled_from(WANTED), settles=st.booleans())
    def take_over(self, seat: str, topic: str, settles: bool) -> None:
        """Another session of the same account and channel."""
        before = self.clients.pop(seat, None)
        self._subscribe(self._client(seat), topic, SubscribeOptions(credit=2))
        self._done(False)
        if before is not None:
            self._close(before)
        self._done(settles)

    def _subscribe(self, client: ObservedClient, topic: str, options: SubscribeOptions) -> None:
        known = set(self.state.subscriptions)
        before = self.state.by_owner.get((topic, client.address, options.name))
        consuming = [h.consumer for h in before.holders if h.consumer is not None] if before else []
        self.router.subscribing.subscribe(self.now, client.consumer, topic, options, self._request())
        after = self.state.by_owner[topic, client.address, options.name]
        for consumer in consuming:
            if before is not None and (topic, options.name) not in consumer.subscriptions:
                consumer.handle.drop(before)
        if before is not None and before is not after:
            self._ended(before)
        if after.id not in known:
            # before its first deliveries are judged
            self.oracle.subscribed(after, self.now)

    def _ended(self, subscription: Subscription) -> None:
        self.oracle.gone(subscription.id)
        for client in self.clients.values():
            client.drop(subscription)

    @rule(seat=st.sampled_from(SEATS), topic=st.sampled_from(WANTED), settles=st.booleans())
    def unsubscribe(self, seat: str, topic: str, settles: bool) -> None:
        client = self._client(seat)
        subscription = self.state.by_owner.get((topic, client.address, ""))
        if subscription is None:
            return
        self._ended(subscription)
        self.router.subscribing.unsubscribe(self.now, client.consumer, topic, "", self._request())
        self._done(settles)

    @rule(seat=st.sampled_from(SEATS), topic=st.sampled_from(WANTED), settles=st.booleans())
    def detach(self, seat: str, topic: str, settles: bool) -> None:
        client = self._client(seat)
        subscription = self.state.by_owner.get((topic, client.address, ""))
        if subscription is None or (topic, "") not in client.consumer.subscriptions:
            return
        client.drop(subscription)
        self._left(subscription)
        self.router.subscribing.detach(self.now, client.consumer, topic, "", self._request())
        self._done(settles)

    def _left(self, subscription: Subscription) -> None:
        """One who consumes from it is about to leave; the last one ends what is bound to sessions."""
        is_last = len(self.state.subscriptions[subscription.id].members) < 2
        if is_last and not subscription.options.durable:
            self._ended(subscription)

    @rule(seat=st.sampled_from(SEATS), lost=st.booleans(), settles=st.booleans())
    def close(self, seat: str, lost: bool, settles: bool) -> None:
        if seat in self.clients:
            self._close(self.clients.pop(seat), lost=lost)
            self._done(settles)

    def _close(self, client: ObservedClient, *, lost: bool = False) -> None:
        client.is_open = False
        client.hand.clear()
        for subscription in client.consumer.subscriptions.values():
            self._left(subscription)
        self.router.subscribing.close(self.now, client.consumer, lost=lost)

    @rule(
        topic=st.sampled_from(TOPICS),
        message=messages,
        delay_s=st.sampled_from([0.0, 0.0, 2.0, 8.0]),
        settles=st.booleans(),
    )
    def publish(self, topic: str, message: Message, delay_s: float, settles: bool) -> None:
        if delay_s:
            message = msgspec.structs.replace(message, receipt="NONE")
        client = self._client("ada")
        request = self._request()
        if not message.guarantee:
            del self.unanswered[request]
        try:
            self.router.publishing.publish(
                self.now, client.consumer, topic, message, client.address, request, delay_s=delay_s
            )
        except Refusal:
            held = self.state.topics[topic]
            is_full = held.messages >= SETTINGS.queue_messages_max or held.bytes >= SETTINGS.queue_bytes_max
            assert is_full
            self.unanswered.pop(request, None)
        self._done(settles)

    def _pick(self, index: int) -> tuple[ObservedClient, int] | None:
        hands = [(client, number) for client in self.clients.values() for number in client.hand]
        return hands[index % len(hands)] if hands else None

    @rule(index=which, settles=st.booleans())
    def received(self, index: int, settles: bool) -> None:
        if picked := self._pick(index):
            client, number = picked
            client.hand[number].received = number in client.consumer.locks
            self.router.acknowledging.received(client.consumer, [number], self._request())
            self._done(settles)

    @rule(index=which, settles=st.booleans())
    def commit(self, index: int, settles: bool) -> None:
        if picked := self._pick(index):
            self._commit(*picked)
            self._done(settles)

    def _commit(self, client: ObservedClient, number: int) -> None:
        held = client.hand.pop(number)
        if number in client.consumer.locks:
            self.oracle.finished(held.id, held.subscription)
        self.router.acknowledging.commit(self.now, client.consumer, [number], self._request())

    @rule(
        index=which,
        delay_s=st.sampled_from([0.0, 0.0, 2.0]),
        outcome=st.sampled_from(["failed", "failed", "released", "rejected", "withheld"]),
        settles=st.booleans(),
    )
    def give_back(self, index: int, delay_s: float, outcome: Any, settles: bool) -> None:
        if picked := self._pick(index):
            client, number = picked
            held = client.hand.pop(number)
            lock = client.consumer.locks.get(number)
            if outcome == "withheld" and lock is not None and not lock.entry.flags & (ONE | EXPIRED):
                self.oracle.withheld(held.id, held.subscription)
            request = self._request()
            self.router.acknowledging.give_back(
                self.now, client.consumer, [number], "", delay_s, request, outcome
            )
            self._done(settles)

    @rule(index=which, settles=st.booleans())
    def remove(self, index: int, settles: bool) -> None:
        entries = [e for e in self.state.entries.values() if e.flags & GUARANTEED and not e.topic.is_system]
        if not entries:
            return
        entry = entries[index % len(entries)]
        self.oracle.removed(entry.id)
        client = self._client("ada")
        self.router.topics.remove(
            self.now, client.consumer, entry.topic.name, entry.smuid(SERVER), self._request()
        )
        self._done(settles)

    @rule(topic=st.sampled_from(TOPICS), mode=st.sampled_from([None, "ONE", "ALL"]), settles=st.booleans())
    def set_delivery(self, topic: str, mode: Any, settles: bool) -> None:
        self.router.publishing.set_delivery(self._client("ada").consumer, topic, mode, self._request())
        self._done(settles)

    @rule(topic=st.sampled_from(TOPICS), timeout_s=st.sampled_from([None, 20.0]), settles=st.booleans())
    def set_timeout(self, topic: str, timeout_s: float | None, settles: bool) -> None:
        self.router.publishing.set_timeout(self._client("ada").consumer, topic, timeout_s, self._request())
        self._done(settles)

    @rule(topic=st.sampled_from(TOPICS), text=st.sampled_from([None, "one", "other"]), settles=st.booleans())
    def annotate(self, topic: str, text: str | None, settles: bool) -> None:
        consumer = self._client("ada").consumer
        self.router.publishing.annotate(consumer, topic, "lines", text, self._request())
        self._done(settles)

    @rule(seat=st.sampled_from(SEATS))
    def pause(self, seat: str) -> None:
        self._client(seat).consumer.pause()

    @rule(seat=st.sampled_from(SEATS), settles=st.booleans())
    def resume(self, seat: str, settles: bool) -> None:
        self.router.deliveries.resume(self.now, self._client(seat).consumer)
        self._done(settles)

    # -- time and crashes --------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 10.0, 70.0, 600.0]), settles=st.booleans())
    def wait(self, seconds: float, settles: bool) -> None:
        until = self.now + seconds
        while self.router.wake_at <= until:
            self.now = max(self.now, self.router.wake_at)
            self.router.timing.tick(self.now)
            self._observe()
            assert self.router.wake_at > self.now, "time stands still"
        self.now = until
        self._done(settles)

    @rule()
    def maintain(self) -> None:
        for subscription in self.router.maintain(self.now):
            self._ended(subscription)
        self._done(True)

    @rule()
    def crash(self) -> None:
        self.backing.crash()
        self.oracle = self.committed.copy()
        self._start()
        self.wait(0.0, settles=True)

    @rule()
    def restart(self) -> None:
        self.settle()
        self.crash()

    # -- the end -----------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Everyone comes back and finishes all that is due: then only what is kept for others is left."""
        for seat in SEATS:
            self.resume(seat, settles=False)
        for subscription in list(self.state.subscriptions.values()):
            seat = subscription.owner.partition(":")[0]
            changed = msgspec.structs.replace(subscription.options, credit=1_000, lock_s=10_000.0)
            self._subscribe(self._client(seat), subscription.target.name, changed)
            self._observe()
        self.settle()
        for _ in range(4):
            while picked := self._pick(0):
                self._commit(*picked)
                self._done(True)
            self.wait(10.0, settles=True)
        for check in (
            self.everything_accepted_is_held_and_nothing_else,
            self.every_message_waits_in_one_place_for_each_to_whom_it_is_due,
            self.counts_are_right,
        ):
            check()
        assert not self.unanswered
        for entry in self.state.entries.values():
            sent = self.oracle.messages[entry.id]
            subscriptions = self.state.subscriptions.values()
            takers = [s for s in subscriptions if s.accepts_one and takes(s.target.name, entry.topic.name)]
            assert (sent.one and not takers) or (not sent.one and sent.stated and not sent.due)
        assert self.backing.stored() == {e.id for e in self.state.entries.values() if e.flags & GUARANTEED}
