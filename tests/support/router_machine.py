"""A site under random requests, time and crashes, with the promises of the routing contract as invariants.

The machine is the same for a router over dictionaries and for one over the real store: see `Backing`.
"""

import math
from typing import Any, ClassVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from routing import decisions as d
from routing.errors import Refusal
from routing.message import Message, Section
from routing.names import make_address
from routing.queue import EXPIRED, GUARANTEED, ONE, WAITING, Entry
from routing.router import Router
from routing.state import RouterSettings
from routing.subscription import Consumer, SubscribeOptions, Subscription
from tests.support.oracle import Oracle

SERVER = "a.example"
ACCOUNTS = ("ada", "bob", "cyd")
TOPICS = ("t", "u")

SETTINGS = RouterSettings(
    default_timeout_s=500.0,
    lock_s=60.0,
    max_deliveries=3,
    queue_messages_max=30,
    queue_bytes_max=1_000,
    unguaranteed_bytes_max=5_000,
    dedupe_window_s=600.0,
    subscription_unused_s=1_000.0,
)

options = st.builds(
    SubscribeOptions,
    credit=st.sampled_from([0, 1, 2, 5]),
    accepts=st.sampled_from(["BOTH", "BOTH", "ONE", "ALL"]),
    durable=st.sampled_from([True, True, True, False]),
    ordered=st.sampled_from([False, False, True]),
    lock_s=st.sampled_from([None, 5.0]),
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
    sections=st.sampled_from([0, 10, 300]).map(lambda size: (Section("text/plain", b"x" * size),)),
)
which = st.integers(0, 10_000)


class ObservedRouter(Router):
    """A router whose decisions can be looked at once each, before they are taken."""

    seen = 0

    def unseen(self) -> list[d.Decision]:
        decisions = self.state.out[self.seen :]
        self.seen = len(self.state.out)
        return decisions

    def take(self) -> list[d.Decision]:
        self.on_take()
        self.seen = 0
        return super().take()

    def on_take(self) -> None:
        """Set by the machine."""


class Held(msgspec.Struct):
    """A message that a client has in hand."""

    id: int
    subscription: Subscription
    received: bool


class Client:
    """A session: what it holds, by the number of the delivery."""

    def __init__(self, machine: "RouterMachine", account: str) -> None:
        self.machine = machine
        self.account = account
        self.address = make_address(account, "desk", SERVER)
        self.consumer: Consumer = machine.router.open(self, account, "desk")
        self.hand: dict[int, Held] = {}
        self.is_open = True
        self.void_until: dict[int, int] = {}

    def put(self, event: Any) -> None:
        """What the daemon's carrier tells a session at once."""
        self.machine.put(self, event)

    def drop(self, subscription: Subscription) -> None:
        """It no longer consumes from this subscription: what is on its way from it is void."""
        self.void_until[subscription.id] = self.consumer.next_number
        self.hand = {
            number: held for number, held in self.hand.items() if held.subscription is not subscription
        }


class Backing:
    """What carries out a router's decisions; `now` is site time."""

    def start(self, boot: int, now: float) -> ObservedRouter:
        """A router with what was committed."""
        raise NotImplementedError

    def commit(self, now: float) -> list[d.Decision]:
        """Make true what was decided since; the decisions whose effects are now to be released."""
        raise NotImplementedError

    def crash(self) -> None:
        """Lose what was not committed."""
        raise NotImplementedError

    def stored(self) -> set[int]:
        """The ids of the messages that are committed."""
        raise NotImplementedError

    def close(self) -> None:
        """The machine has ended."""


class RouterMachine(RuleBasedStateMachine):
    backing_type: ClassVar[type[Backing]]

    def __init__(self) -> None:
        super().__init__()
        self.backing = self.backing_type()
        self.now = 1_000.0
        self.boot = 0
        self.oracle = Oracle()
        self.committed = Oracle()
        self.clients: dict[str, Client] = {}
        self.requests = 0
        self.unanswered: dict[int, int] = {}
        self._start()

    def _start(self) -> None:
        self.boot += 1
        self.clients = {}
        self.unanswered = {}
        self.router = self.backing.start(self.boot, self.now)
        self.router.on_take = self._observe  # type: ignore[method-assign]
        self.state = self.router.state
        self.oracle.restarted(set(self.state.subscriptions))
        self._observe()

    def teardown(self) -> None:
        try:
            self._drain()
        finally:
            self.backing.close()

    # -- what the router decides, and what clients are told ----------------------------------------

    def _observe(self) -> None:
        for decision in self.router.unseen():
            self.oracle.see(decision, self.now)
            if isinstance(decision, d.DiscardSubscription):
                self.oracle.gone(decision.subscription_id)

    def settle(self) -> None:
        """Commit, and let effects go out."""
        for effect in self.backing.commit(self.now):
            self._release(effect)
        self.committed = self.oracle.copy()

    def _release(self, effect: d.Decision) -> None:
        match effect:
            case d.Deliver(
                consumer=consumer, subscription=subscription, entry=entry, number=number, lock=lock
            ):
                client: Client = consumer.handle
                is_void = number < client.void_until.get(subscription.id, 0)
                if not client.is_open or lock is None or is_void:
                    return
                if entry.flags & ONE:
                    holders = [c for c in self.clients.values() for h in c.hand.values() if h.id == entry.id]
                    assert not holders, "two have it"
                client.hand[number] = Held(entry.id, subscription, lock.received)
            case d.Withdraw(consumer=consumer, number=number):
                consumer.handle.hand.pop(number, None)
            case d.Detach(consumer=consumer, topic=topic, name=name):
                held = consumer.handle.hand
                consumer.handle.hand = {
                    number: h
                    for number, h in held.items()
                    if (h.subscription.topic.name, h.subscription.options.name) != (topic.name, name)
                    or h.subscription.consumer is consumer
                }
            case d.Answer(request=request, error=error, entry=entry):
                self.unanswered.pop(request)
                if entry is not None and error is None:
                    assert entry.id in self.backing.stored() or entry.id not in self.oracle.alive()

    def _request(self) -> int:
        self.requests += 1
        self.unanswered[self.requests] = self.requests
        return self.requests

    # -- requests ----------------------------------------------------------------------------------

    def _client(self, account: str) -> Client:
        if account not in self.clients:
            self.clients[account] = Client(self, account)
        return self.clients[account]

    def _done(self, settles: bool) -> None:
        self._observe()
        if settles:
            self.settle()

    @rule(
        account=st.sampled_from(ACCOUNTS),
        topic=st.sampled_from(TOPICS),
        options=options,
        settles=st.booleans(),
    )
    def subscribe(self, account: str, topic: str, options: SubscribeOptions, settles: bool) -> None:
        self._subscribe(self._client(account), topic, options)
        self._done(settles)

    @rule(account=st.sampled_from(ACCOUNTS), topic=st.sampled_from(TOPICS), settles=st.booleans())
    def take_over(self, account: str, topic: str, settles: bool) -> None:
        """Another session of the same account and channel."""
        before = self.clients.pop(account, None)
        self._subscribe(self._client(account), topic, SubscribeOptions(credit=2))
        self._done(False)
        if before is not None:
            self._close(before)
        self._done(settles)

    def _subscribe(self, client: Client, topic: str, options: SubscribeOptions) -> None:
        known = set(self.state.subscriptions)
        before = self.state.by_owner.get((topic, client.address, options.name))
        if before is not None and before.consumer is not None and before.consumer is not client.consumer:
            before.consumer.handle.drop(before)
        self.router.subscribe(client.consumer, topic, options, self._request(), self.now)
        after = self.state.by_owner[topic, client.address, options.name]
        if before is not None and before is not after:
            self._ended(before)
        if after.id not in known:
            # before its first deliveries are judged
            self.oracle.subscribed(after, self.now)

    def _ended(self, subscription: Subscription) -> None:
        self.oracle.gone(subscription.id)
        for client in self.clients.values():
            client.drop(subscription)

    @rule(account=st.sampled_from(ACCOUNTS), topic=st.sampled_from(TOPICS), settles=st.booleans())
    def unsubscribe(self, account: str, topic: str, settles: bool) -> None:
        client = self._client(account)
        subscription = self.state.by_owner.get((topic, client.address, ""))
        if subscription is None:
            return
        self._ended(subscription)
        self.router.unsubscribe(client.consumer, topic, "", self._request(), self.now)
        self._done(settles)

    @rule(account=st.sampled_from(ACCOUNTS), topic=st.sampled_from(TOPICS), settles=st.booleans())
    def detach(self, account: str, topic: str, settles: bool) -> None:
        client = self._client(account)
        subscription = self.state.by_owner.get((topic, client.address, ""))
        if subscription is None or subscription.consumer is not client.consumer:
            return
        client.drop(subscription)
        if not subscription.options.durable:
            self._ended(subscription)
        self.router.detach(client.consumer, topic, "", self._request(), self.now)
        self._done(settles)

    @rule(account=st.sampled_from(ACCOUNTS), settles=st.booleans())
    def close(self, account: str, settles: bool) -> None:
        if account in self.clients:
            self._close(self.clients.pop(account))
            self._done(settles)

    def _close(self, client: Client) -> None:
        client.is_open = False
        client.hand.clear()
        for subscription in client.consumer.subscriptions.values():
            if not subscription.options.durable:
                self._ended(subscription)
        self.router.close(client.consumer, self.now)

    @rule(topic=st.sampled_from(TOPICS), message=messages, settles=st.booleans())
    def publish(self, topic: str, message: Message, settles: bool) -> None:
        client = self._client("ada")
        request = self._request()
        if not message.guarantee:
            del self.unanswered[request]
        try:
            self.router.publish(client.consumer, topic, message, client.address, request, self.now)
        except Refusal:
            held = self.state.topics[topic]
            is_full = held.messages >= SETTINGS.queue_messages_max or held.bytes >= SETTINGS.queue_bytes_max
            assert is_full
            self.unanswered.pop(request, None)
        self._done(settles)

    def _pick(self, index: int) -> tuple[Client, int] | None:
        hands = [(client, number) for client in self.clients.values() for number in client.hand]
        return hands[index % len(hands)] if hands else None

    @rule(index=which, settles=st.booleans())
    def received(self, index: int, settles: bool) -> None:
        if picked := self._pick(index):
            client, number = picked
            client.hand[number].received = number in client.consumer.locks
            self.router.received(client.consumer, [number], self._request())
            self._done(settles)

    @rule(index=which, settles=st.booleans())
    def commit(self, index: int, settles: bool) -> None:
        if picked := self._pick(index):
            self._commit(*picked)
            self._done(settles)

    def _commit(self, client: Client, number: int) -> None:
        held = client.hand.pop(number)
        if number in client.consumer.locks:
            self.oracle.finished(held.id, held.subscription)
        self.router.commit(client.consumer, [number], self._request(), self.now)

    @rule(index=which, delay_s=st.sampled_from([0.0, 0.0, 2.0]), settles=st.booleans())
    def give_back(self, index: int, delay_s: float, settles: bool) -> None:
        if picked := self._pick(index):
            client, number = picked
            client.hand.pop(number)
            self.router.give_back(client.consumer, [number], "", delay_s, self._request(), self.now)
            self._done(settles)

    @rule(index=which, settles=st.booleans())
    def remove(self, index: int, settles: bool) -> None:
        entries = [e for e in self.state.entries.values() if e.flags & GUARANTEED and not e.topic.is_system]
        if not entries:
            return
        entry = entries[index % len(entries)]
        self.oracle.removed(entry.id)
        client = self._client("ada")
        self.router.remove(client.consumer, entry.topic.name, entry.smuid(SERVER), self._request(), self.now)
        self._done(settles)

    @rule(topic=st.sampled_from(TOPICS), mode=st.sampled_from([None, "ONE", "ALL"]), settles=st.booleans())
    def set_delivery(self, topic: str, mode: Any, settles: bool) -> None:
        self.router.set_delivery(self._client("ada").consumer, topic, mode, self._request())
        self._done(settles)

    @rule(topic=st.sampled_from(TOPICS), timeout_s=st.sampled_from([None, 20.0]), settles=st.booleans())
    def set_timeout(self, topic: str, timeout_s: float | None, settles: bool) -> None:
        self.router.set_timeout(self._client("ada").consumer, topic, timeout_s, self._request())
        self._done(settles)

    @rule(account=st.sampled_from(ACCOUNTS))
    def pause(self, account: str) -> None:
        self.router.pause(self._client(account).consumer)

    @rule(account=st.sampled_from(ACCOUNTS), settles=st.booleans())
    def resume(self, account: str, settles: bool) -> None:
        self.router.resume(self._client(account).consumer, self.now)
        self._done(settles)

    # -- time and crashes --------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 10.0, 70.0, 600.0]), settles=st.booleans())
    def wait(self, seconds: float, settles: bool) -> None:
        until = self.now + seconds
        while self.router.wake_at <= until:
            self.now = max(self.now, self.router.wake_at)
            self.router.tick(self.now)
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

    # -- promises ----------------------------------------------------------------------------------

    @invariant()
    def everything_accepted_is_held_and_nothing_else(self) -> None:
        assert set(self.state.entries) == self.oracle.alive()

    @invariant()
    def every_message_waits_in_one_place_for_each_to_whom_it_is_due(self) -> None:
        places = self._places()
        for entry in self.state.entries.values():
            where = places.pop(entry.id, [])
            if entry.flags & ONE:
                assert len(where) == 1, where
                continue
            assert len(where) == len(set(where))
            if entry.flags & EXPIRED:
                holders = {s.id for s in entry.topic.subscriptions.values() if entry.id in s.received}
                assert entry.due == len(holders) > 0
            else:
                assert set(where) == self.oracle.messages[entry.id].due
                assert entry.due == len(where)
        assert not places, "what is gone is still somewhere"

    def _places(self) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}

        def note(entry: Entry, subscription_id: int) -> None:
            places.setdefault(entry.id, []).append(subscription_id)

        buried = [dec for dec in self.state.out if isinstance(dec, d.Bury)]
        for _, _, lock in self.state.delayed:
            if lock.entry.id in self.state.entries and (
                lock.entry.flags & ONE or lock.subscription.id in self.state.subscriptions
            ):
                note(lock.entry, lock.subscription.id)
        for bury in buried:
            if bury.entry.id in self.state.entries:
                note(bury.entry, bury.subscription.id)
        for topic in self.state.topics.values():
            for entry in topic.shared:
                note(entry, 0)
            for subscription in topic.subscriptions.values():
                for entry in subscription.queue:
                    note(entry, subscription.id)
                for lock in (*subscription.locks.values(), *subscription.received.values()):
                    note(lock.entry, subscription.id)
                for publisher in subscription.order._publishers.values() if subscription.order else ():
                    for entry in publisher.early.values():
                        if entry.id in self.state.entries:
                            note(entry, subscription.id)
        return places

    @invariant()
    def nobody_who_could_take_more_waits(self) -> None:
        for subscription in self.state.subscriptions.values():
            if subscription.ready:
                assert not subscription.queue
                if subscription.accepts_one:
                    assert not subscription.topic.shared
                    assert subscription.offered

    @invariant()
    def receipts_are_owed_until_they_are_told(self) -> None:
        owed = self.router._receipts._owed
        assert set(owed) == self.oracle.owed()

    @invariant()
    def counts_are_right(self) -> None:
        state, entries = self.state, self.state.entries.values()
        for topic in state.topics.values():
            own = [entry for entry in entries if entry.topic is topic]
            assert (topic.messages, topic.bytes) == (len(own), sum(entry.size for entry in own))
            assert len(topic.takers) == len(set(topic.takers)) <= len(topic.subscriptions)
            assert set(topic.attempts) <= {entry.id for entry in own}
        assert {entry.topic.name for entry in entries} <= set(state.topics)
        assert state.held == sum(bool(entry.flags & GUARANTEED) for entry in entries)
        waiting = [entry for entry in entries if entry.flags & WAITING]
        assert state.unguaranteed_bytes == sum(map(state.memory_bytes, waiting))
        assert state.unguaranteed_bytes <= SETTINGS.unguaranteed_bytes_max
        assert set(state.unguaranteed) == {entry.id for entry in waiting}
        assert set(state.sequenced) <= set(state.entries)
        locks = [
            lock for s in state.subscriptions.values() for lock in (*s.locks.values(), *s.received.values())
        ]
        attached = {id(lock) for lock in locks if lock.subscription.consumer is not None}
        assert attached == {id(k) for c in self.clients.values() for k in c.consumer.locks.values()}
        assert {s.id for s in state.subscriptions.values() if s.locks} == set(state.locking)

    @invariant()
    def time_is_kept(self) -> None:
        assert self.router.wake_at <= min(self.state.next_wake(), self.router._receipts.next_wake())

    @invariant()
    def nothing_unguaranteed_is_stored(self) -> None:
        assert all(
            self.oracle.messages[id].guaranteed for id in self.backing.stored() if id in self.oracle.messages
        )

    def _drain(self) -> None:
        """Everyone comes back and finishes all that is due: then only what is kept for others is left."""
        for account in ACCOUNTS:
            self.resume(account, settles=False)
        for subscription in list(self.state.subscriptions.values()):
            account = subscription.owner.partition(":")[0]
            changed = msgspec.structs.replace(subscription.options, credit=1_000, lock_s=10_000.0)
            self._subscribe(self._client(account), subscription.topic.name, changed)
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
            takers = [s for s in entry.topic.subscriptions.values() if s.accepts_one]
            assert (sent.one and not takers) or (not sent.one and sent.stated and not sent.due)
        assert self.backing.stored() == {e.id for e in self.state.entries.values() if e.flags & GUARANTEED}
