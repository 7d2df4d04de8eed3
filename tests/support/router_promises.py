"""A site under observation: what its router decides, what its clients have in hand, and the promises of the
routing contract as invariants over both.

The same for a router over dictionaries and for one over the real store: see `Backing`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from hypothesis.stateful import RuleBasedStateMachine, invariant

from routing import decisions as d
from routing.groups import Group, GroupedQueue
from routing.names import make_address
from routing.queue import COUNTED, DELAYED, EXPIRED, GUARANTEED, ONE, Entry, GroupedEntry
from routing.router import Router
from routing.state import RouterSettings
from routing.subscription import Consumer, Subscription
from tests.support.oracle import Oracle
from tests.support.wishes import takes

SERVER = "a.example"

SETTINGS = RouterSettings(
    default_timeout_s=500.0,
    lock_s=60.0,
    max_deliveries=3,
    redelivery_wait_s=0.1,
    redelivery_wait_max_s=30.0,
    queue_messages_max=30,
    queue_bytes_max=1_000,
    system_messages_max=1_000,
    system_bytes_max=1_000_000,
    unguaranteed_bytes_max=5_000,
    dedupe_window_s=600.0,
    subscription_unused_s=1_000.0,
    news_kept_s=604_800.0,
)


class ObservedRouter(Router):
    """A router whose decisions can be looked at once each, before they are taken."""

    seen = 0

    def unseen(self) -> list[d.Decision]:
        decisions = self._state.out[self.seen :]
        self.seen = len(self._state.out)
        return decisions

    def take(self) -> list[d.Decision]:
        self.on_take()
        self.seen = 0
        return super().take()

    def on_take(self) -> None:
        """Set by the machine."""


class InHand(msgspec.Struct):
    """A message that a client has in hand."""

    id: int
    subscription: Subscription
    received: bool


class ObservedClient:
    """A session: what it holds, by the number of the delivery."""

    def __init__(self, machine: Any, account: str) -> None:
        self.machine = machine
        self.address = make_address(account, "desk", SERVER)
        self.consumer: Consumer = Consumer(self, account, "desk")
        self.hand: dict[int, InHand] = {}
        self.is_open = True
        self.void_until: dict[int, int] = {}

    def put(self, event: Any) -> None:
        """What the daemon's executor tells a session at once."""
        self.machine.put(self, event)

    def unpublish(self, messages: int) -> None:
        """What the daemon's executor takes back of what it counted with a session."""

    def drop(self, subscription: Subscription) -> None:
        """It no longer consumes from this subscription: what is on its way from it is void."""
        self.void_until[subscription.id] = self.consumer.next_number
        self.hand = {
            number: held for number, held in self.hand.items() if held.subscription.id != subscription.id
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

    def put_off(self) -> list[d.Bury]:
        """Burials that were decided, and found no room: they are carried out later."""
        return []

    def close(self) -> None:
        """The machine has ended."""


class ObservedSite(RuleBasedStateMachine):
    backing_type: ClassVar[type[Backing]]

    def __init__(self) -> None:
        super().__init__()
        self.backing = self.backing_type()
        self.now = 1_000.0
        self.boot = 0
        self.oracle = Oracle()
        self.committed = Oracle()
        self.clients: dict[str, ObservedClient] = {}
        self.requests = 0
        self.unanswered: dict[int, int] = {}
        self._start()

    def _start(self) -> None:
        self.boot += 1
        self.clients = {}
        self.unanswered = {}
        self.router = self.backing.start(self.boot, self.now)
        self.router.on_take = self._observe  # type: ignore[method-assign]
        self.state = self.router._state
        self.oracle.restarted(set(self.state.subscriptions))
        self._observe()

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
                client: ObservedClient = consumer.handle
                is_void = number < client.void_until.get(subscription.id, 0)
                if not client.is_open or lock is None or is_void:
                    return
                in_hand = [h for c in self.clients.values() for h in c.hand.values() if h.id == entry.id]
                if not entry.flags & ONE:
                    in_hand = [h for h in in_hand if h.subscription.id == subscription.id]
                assert not in_hand, "two have it"
                client.hand[number] = InHand(entry.id, subscription, lock.received)
            case d.Withdraw(consumer=consumer, number=number):
                consumer.handle.hand.pop(number, None)
            case d.Detach(consumer=consumer, target=target, name=name):
                held = consumer.handle.hand
                consumer.handle.hand = {
                    number: h
                    for number, h in held.items()
                    if (h.subscription.target.name, h.subscription.options.name) != (target.name, name)
                    or h.subscription.consumer is consumer
                }
            case d.AnswerRequest(request=request, error=error, entry=entry):
                self.unanswered.pop(request)
                if entry is not None and error is None:
                    assert entry.id in self.backing.stored() or entry.id not in self.oracle.alive()

    # -- promises ----------------------------------------------------------------------------------

    @invariant()
    def everything_accepted_is_held_and_nothing_else(self) -> None:
        assert set(self.state.entries) == self.oracle.alive()

    @invariant()
    def every_message_waits_in_one_place_for_each_to_whom_it_is_due(self) -> None:
        places = self._places()
        for entry in self.state.entries.values():
            where = places.pop(entry.id, [])
            if entry.flags & (ONE | DELAYED):
                assert len(where) == 1, where
                continue
            assert len(where) == len(set(where))
            if entry.flags & EXPIRED:
                holders = {h.id for h in self._holders() if entry.id in h.received}
                assert entry.due == len(holders) > 0
            else:
                assert set(where) == self.oracle.messages[entry.id].due
                assert entry.due == len(where)
        assert not places, "what is gone is still somewhere"

    def _places(self) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}

        def note(entry: Entry, subscription_id: int) -> None:
            places.setdefault(entry.id, []).append(subscription_id)

        buried = [dec for dec in self.state.out if isinstance(dec, d.Bury)] + self.backing.put_off()
        for _, _, lock in self.state.delayed:
            if lock.entry.id in self.state.entries and (
                lock.entry.flags & ONE or lock.subscription.id in self.state.subscriptions
            ):
                note(lock.entry, lock.subscription.id)
        waiting = [entry for entries in self.state.delays._slots.values() for entry in entries]
        for entry in (*waiting, *(dec.entry for dec in self.state.out if isinstance(dec, d.RouteDelayed))):
            if entry.id in self.state.entries:
                note(entry, 0)
        for bury in buried:
            if bury.entry.id in self.state.entries:
                note(bury.entry, bury.subscription.id)
        for topic in self.state.topics.values():
            for entry in topic.shared:
                note(entry, 0)
        for subscription in self.state.subscriptions.values():
            for entry in subscription.queue:
                note(entry, subscription.id)
            for holder in subscription.holders:
                for lock in (*holder.locks.values(), *holder.received.values()):
                    assert lock.subscription is holder
                    note(lock.entry, subscription.id)
            for publisher in subscription.order._early.values() if subscription.order else ():
                for entry in publisher.early.values():
                    if entry.id in self.state.entries:
                        note(entry, subscription.id)
        return places

    def _holders(self) -> list[Subscription]:
        """Subscriptions, and in place of one that is shared those who share it."""
        return [holder for s in self.state.subscriptions.values() for holder in s.holders]

    @invariant()
    def nobody_who_could_take_more_waits(self) -> None:
        for holder in self._holders():
            if holder.ready:
                assert not holder.queue
                if holder.accepts_one:
                    assert holder.groups is None or holder.groups.waiting.peek() is None
                    names = (name for name in self.state.topics if takes(holder.target.name, name))
                    assert not any(self.state.topics[name].shared for name in names)
                    assert holder.offered

    @invariant()
    def two_never_work_on_one_group(self) -> None:
        working: dict[tuple[str, str], set[Subscription]] = {}
        for holder in self._holders():
            for lock in (*holder.locks.values(), *holder.received.values()):
                if isinstance(lock.entry, GroupedEntry):
                    working.setdefault((lock.entry.topic.name, lock.entry.group), set()).add(holder)
        assert all(len(holders) == 1 for holders in working.values())
        for name, group in self._groups():
            assert working.get((name, group.name), set()) <= {group.owner, group.had}

    @invariant()
    def groups_are_known_while_anything_of_them_is_held(self) -> None:
        held = [entry for entry in self.state.entries.values() if isinstance(entry, GroupedEntry)]
        for name, group in self._groups():
            waiting = {entry.id for entry in group.waiting}
            own = {e.id for e in held if (e.topic.name, e.group) == (name, group.name)}
            assert not waiting & group.out
            assert waiting | group.out == own - {e.id for e in held if e.flags & DELAYED}
            parked = {lock.entry.id for _, _, lock in self.state.delayed}
            assert group.paused == group.out & parked
            assert group.owner is not None or own
            assert group.owner is None or group.out or group.owner.attached
            owned = group.owner.groups if group.owner is not None else None
            assert owned is None or group in owned.groups
        for holder in self._holders():
            groups = holder.groups.groups if holder.groups is not None else ()
            assert all(group.owner is holder for group in groups)

    def _groups(self) -> Iterator[tuple[str, Group[Subscription]]]:
        for topic in self.state.topics.values():
            if isinstance(topic.shared, GroupedQueue):
                yield from ((topic.name, group) for group in topic.shared.groups())

    @invariant()
    def who_consumes_is_known_to_both_sides(self) -> None:
        consuming = Counter((h.consumer, h) for h in self._holders() if h.consumer is not None)
        consumers = [client.consumer for client in self.clients.values()]
        assert consuming == Counter((c, h) for c in consumers for h in c.subscriptions.values())
        for subscription in self.state.subscriptions.values():
            if subscription.members:
                assert subscription.consumer is None
                assert not subscription.locks
                assert not subscription.received
                assert len({(m.id, m.options.durable, m.options.accepts) for m in subscription.members}) == 1

    @invariant()
    def receipts_are_pending_until_they_are_told(self) -> None:
        pending = self.router.receipts._pending
        assert set(pending) == self.oracle.pending_receipts()

    @invariant()
    def counts_are_right(self) -> None:
        state, entries = self.state, self.state.entries.values()
        for topic in state.topics.values():
            own = [entry for entry in entries if entry.topic is topic]
            assert (topic.messages, topic.bytes) == (len(own), sum(entry.size for entry in own))
            assert topic.unguaranteed == sum(not entry.flags & GUARANTEED for entry in own)
            assert set(topic.attempts) <= {entry.id for entry in own}
        for target in {s.target for s in state.subscriptions.values()}:
            there = {h for s in target.subscriptions.values() for h in (s, *s.members)}
            assert len(target.takers) == len(set(target.takers))
            assert set(target.takers) <= there
            one = [s for s in target.subscriptions.values() if s.accepts_one]
            assert (target.taking_one, target.attended) == (len(one), sum(s.attached for s in one))
        assert {entry.topic.name for entry in entries} <= set(state.topics)
        assert state.guaranteed == sum(bool(entry.flags & GUARANTEED) for entry in entries)
        assert set(state.sequenced) <= set(state.entries)
        holders = self._holders()
        locks = [lock for h in holders for lock in (*h.locks.values(), *h.received.values())]
        counted = {entry.id for entry in entries if entry.flags & COUNTED}
        assert state.unguaranteed_bytes == sum(state.memory_bytes(state.entries[id]) for id in counted)
        assert state.unguaranteed_bytes <= SETTINGS.unguaranteed_bytes_max
        in_hand = Counter(lock.entry.id for lock in locks if not lock.entry.flags & GUARANTEED)
        assert state.unguaranteed_locks == in_hand
        assert set(state.unguaranteed) == counted - set(in_hand)
        attached = {id(lock) for lock in locks if lock.subscription.consumer is not None}
        assert attached == {id(k) for c in self.clients.values() for k in c.consumer.locks.values()}
        assert {holder for holder in holders if holder.locks} == set(state.locking)

    @invariant()
    def time_is_kept(self) -> None:
        assert self.router.wake_at <= min(self.state.next_wake(), self.router.receipts.next_wake())

    @invariant()
    def nothing_unguaranteed_is_stored(self) -> None:
        assert all(
            self.oracle.messages[id].guaranteed for id in self.backing.stored() if id in self.oracle.messages
        )
