"""Building the index again from what the store holds, after a start.

The store gives topics and subscriptions first, then every message in the order of its id, each with the
marks that subscriptions have left on it. A message is due to a subscription of mode ALL that is older
than it, or has left a mark on it, or to any if its timeout was stated, unless the subscription is done with
it.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from routing.copy_states import due_at_first, is_kept, state_of
from routing.decisions import MarkDone, StoreSubscription
from routing.federation.federation import Federation
from routing.had_before import HadBefore
from routing.lifecycle import Lifecycle
from routing.matching import whose
from routing.message import DeliveryMode
from routing.names import DEAD_LETTER_PREFIX, dead_letter_topic, is_topic
from routing.options import SubscribeOptions
from routing.peering.copies import Forward, Open
from routing.peering.decisions import DiscardNews, StoreCopy
from routing.peering.leaves import NumberedBucket
from routing.peering.news import KnownNews
from routing.peering.wants import InterestChange
from routing.queue import GONE, GROUPED, ONE, PASSING, RECEIPT, SEQUENCED, STATED, Entry
from routing.receipt import Receipt
from routing.receipts import Receipts
from routing.setting_aside import SettingAside
from routing.state import SiteState
from routing.subscribing import Subscribing
from routing.subscription import Lock, Subscription
from routing.targets import Pattern, Topic


def readable(topic: str) -> str:
    """A stored topic's name: dead letters of a long one may have one that is too long to be subscribed to."""
    return topic if is_topic(topic) else dead_letter_topic(topic.removeprefix(DEAD_LETTER_PREFIX))


NOT_YET: Final = -1
"""`attempts` of a mark that says no more than that the message is due: it has not come back yet."""


class StoredMark(msgspec.Struct, gc=False):
    """What one subscription has left on a message; `subscription_id` 0 counts returns of mode ONE."""

    subscription_id: int
    received: bool
    done: bool
    has_it: bool
    attempts: int


_NO_MARKS: Final[Mapping[int, StoredMark]] = {}


class _Copy(msgspec.Struct, gc=False):
    depth: int
    hops: tuple[str, ...]
    forwards: dict[str, Forward] | None
    destinations: dict[str, Open]
    seen_to: frozenset[str] | None
    is_whole: bool


class _Takers(NamedTuple):
    """Of one topic: those to whom its messages of mode ALL may have been due, and those without the right."""

    takers: list[Subscription]
    some_are_passed_over: bool
    forbidden: list[Subscription]


class Restore:
    """Takes what the store holds, what is about links before the messages; `end` once all has been given."""

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        subscribing: Subscribing,
        receipts: Receipts,
        federation: Federation,
        setting_aside: SettingAside,
        now: float,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._subscribing = subscribing
        self._receipts = receipts
        self._federation = federation
        self._setting_aside = setting_aside
        self._copies: dict[int, _Copy] = {}
        self._link_receipts: dict[int, Receipt] = {}
        self._lost_receipts: set[int] = set()
        self._now = now
        self._last_id = state.last_id
        self._damaged: list[tuple[Entry, str]] = []
        self._unneeded: list[Entry] = []
        self._takers: dict[Topic, _Takers] = {}
        self._pending: list[Receipt] = []

    def topic(self, name: str, mode: DeliveryMode | None, timeout_s: float | None) -> None:
        """Restore the settings of a topic that has its own."""
        topic = self._state.topic(name)
        topic.mode, topic.timeout_s = mode, timeout_s

    def annotation(self, topic: str, front_end: str, text: str) -> None:
        """Restore what a front end keeps with a topic."""
        self._state.topic(topic).annotate(front_end, text)

    def subscription(
        self,
        id: int,
        name: str,
        owner: str,
        options: SubscribeOptions,
        since: int,
        used_at: float,
        allowed_since: Mapping[str, int] | None = None,
    ) -> None:
        """Restore a durable subscription to a topic or a pattern, by `name`.

        `allowed_since`: as of `Pattern`; None where it is not known, for all that is allowed now.
        """
        target = self._state.matching.target(name, owner)
        subscription = Subscription(id, target, owner, options, since, used_at)
        self._subscribing.enter(subscription)
        if isinstance(target, Pattern):
            if allowed_since is not None:
                target.allow(target.allowed, allowed_since, self._last_id)
            if target.allowed_since != allowed_since:
                self._state.out.append(StoreSubscription(subscription))

    def publication(self, publisher: str, cmuid: str, smuid: str, at: float) -> None:
        """Remember a Cmuid that is still within the window; newest first."""
        self._state.publications.add_older(publisher, cmuid, smuid, at)

    def removal(self, smuid: str, topic: str, at: float) -> None:
        """Remember a message that was removed; oldest first."""
        self._state.removed.note(smuid, topic, at)
        self._state.removed.make_room()

    def interest(self, peer: str, change: InterestChange) -> None:
        """Restore what a peer wants."""
        self._federation.interest.hear(peer, [change])

    def news(self, site: str, news: KnownNews) -> None:
        """Restore what is known of a site; what is another's word is forgotten."""
        if news.statement.site == site:
            self._federation.spreading.restore(news)
        else:
            self._state.out.append(DiscardNews(site))

    def wants(self, site: str, bucket: NumberedBucket) -> None:
        """Restore what is known of what a site wants, after its news."""
        self._federation.spreading.restore_wants(site, bucket)

    def answer(self, peer: str, query: int, due: int, have: int) -> None:
        """Keep the last answer to a peer's question, which the peer may not have."""
        self._receipts.answers.setdefault(peer, {})[query] = (due, have)

    def copy(
        self,
        id: int,
        depth: int,
        hops: tuple[str, ...],
        forwards: dict[str, Forward] | None,
        destinations: dict[str, Open] | None = None,
        seen_to: frozenset[str] | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        """Note how far a message may go.

        Args:
            forwards: None where it is not known which peers have it.
            is_whole: what the store has of it is what is given; else it is stored again.
        """
        self._copies[id] = _Copy(depth, hops, forwards, destinations or {}, seen_to, is_whole)

    def receipt(self, receipt: Receipt) -> None:
        """Restore a receipt that peers have a part in; its message may have ended."""
        self._link_receipts[receipt.entry.id] = receipt

    def receipt_lost(self, id: int) -> None:
        """Tell nobody the receipt of a message, of which the store cannot say how far it is.

        The store forgets by itself that it is owed, with the row: a start in between would tell it.
        """
        self._lost_receipts.add(id)

    def topic_of(self, name: str) -> Topic:
        """The topic to give the entries of `message` and `receipt`."""
        return self._state.topic(name)

    def message(
        self,
        entry: Entry,
        marks: list[StoredMark],
        *,
        publisher: str,
        cmuid: str,
        sequence: int,
        receipt_due: int,
        receipt_mode: Literal["ONE", "ALL"],
        damage: str = "",
    ) -> None:
        """Restore a guaranteed message.

        Args:
            sequence: 0 for none.
            receipt_due: Y, as it was when the message was routed; 0 where no receipt is pending.
            damage: why it is set aside, once everything is known that hangs on it; "" where it is not.
        """
        state = self._state
        if isinstance(entry.origin, str):
            entry.compact(state.server)
        if entry.id > self._last_id:
            damage = "its number is one of a later start"
        if entry.flags & SEQUENCED:
            state.sequenced[entry.id] = (publisher, sequence)
        is_delayed = state_of(entry.flags) == "delayed"
        due = open_ = 1 if is_delayed else due_at_first(0, one=bool(entry.flags & ONE))
        if is_delayed:
            pass  # it is routed when it is time
        elif entry.flags & ONE:
            if self._copies and not self._restore_copy(entry):
                open_ = 0
            elif marks:
                self._wait_for_one(entry, marks)
            else:
                self._wait(entry)
        else:
            if not entry.flags & PASSING:
                due, open_ = self._wait_for_all(entry, marks)
            self._restore_copy(entry)
        self._lifecycle.restore(entry, due, publisher, self._now)
        if damage:
            self._damaged.append((entry, damage))
        if is_kept(entry) and not entry.flags & PASSING:
            self._state.matching.keep(entry)
        elif not entry.due:
            self._unneeded.append(entry)
        if entry.flags & RECEIPT:
            self._owe(entry, marks, publisher, cmuid, receipt_due, receipt_mode, open_)

    def _owe(
        self,
        entry: Entry,
        marks: list[StoredMark],
        publisher: str,
        cmuid: str,
        due: int,
        mode: Literal["ONE", "ALL"],
        open_: int,
    ) -> None:
        if entry.id in self._lost_receipts:
            entry.flags &= ~RECEIPT
            return
        receipt = self._link_receipts.pop(entry.id, None)
        if receipt is None:
            have = sum(mark.has_it for mark in marks)
            receipt = Receipt(entry, mode, publisher, cmuid, due, have, open_)
        else:
            receipt.entry, receipt.open = entry, open_
        self._pending.append(receipt)

    def _restore_copy(self, entry: Entry) -> bool:
        """False where a peer may have the message already, so that nobody here gets it."""
        stored = self._copies.get(entry.id)
        if stored is None:
            return True
        forwards = stored.forwards
        if forwards is None:
            forwards = {}  # of mode ALL, peers that have it will say so
            if entry.flags & ONE:
                self._damaged.append((entry, "damaged in the store: which site has it"))
        if not stored.is_whole:
            self._state.out.append(StoreCopy(entry.id))
        return self._federation.restore_copy(
            entry, stored.depth, stored.hops, forwards, stored.destinations, stored.seen_to, now=self._now
        )

    def _wait_for_one(self, entry: Entry, marks: list[StoredMark]) -> None:
        holder = None
        for mark in marks:
            if mark.subscription_id == 0:
                entry.topic.attempts[entry.id] = mark.attempts
            elif mark.received:
                holder = self._state.subscriptions.get(mark.subscription_id)
        if holder is None:
            self._wait(entry)
        else:
            attempt = entry.topic.attempts.get(entry.id, 0) + 1
            holder.received[entry.id] = Lock(0, entry, holder, attempt, 0.0, 0.0, received=True)
            if entry.flags & GROUPED:
                self._state.hold_group(entry, holder)

    def _wait(self, entry: Entry) -> None:
        if entry.flags & GROUPED:
            self._state.grouping.wait(entry)
        else:
            self._state.takers.wait_from_start(entry)

    def _wait_for_all(self, entry: Entry, marks: list[StoredMark]) -> tuple[int, int]:
        """To how many it is due; and how many of them a receipt speaks of."""
        matching, topic = self._state.matching, entry.topic
        of_topic = self._takers.get(topic)
        if of_topic is None:
            of_topic = self._takers[topic] = _Takers(
                matching.may_have_taken(topic), bool(matching.passed_over(topic)), matching.forbidden(topic)
            )
        marked = {mark.subscription_id: mark for mark in marks} if marks else _NO_MARKS
        for subscription in of_topic.forbidden if marked else ():
            if (mark := marked.get(subscription.id)) is not None and mark.done:
                self._note_had_before(subscription, entry)
        were_due = matching.were_due(entry, of_topic.takers, marked)
        if of_topic.some_are_passed_over:
            were_due = self._once_each(entry, were_due, marked)
        due = late = 0
        for subscription in were_due:
            mark = marked.get(subscription.id) if marked else None
            if mark is not None and mark.done:
                continue
            due += 1
            if entry.flags & RECEIPT:
                if mark is not None and (mark.attempts == NOT_YET or not entry.flags & STATED):
                    self._note_in_time(subscription, entry)  # what was delayed has no receipt
                late += subscription.joined_after(entry)
            if mark is None or mark.attempts == NOT_YET:
                self._enqueue(subscription, entry)
                continue
            subscription.attempts[entry.id] = mark.attempts
            if mark.received:
                lock = Lock(0, entry, subscription, mark.attempts + 1, 0.0, 0.0, received=True)
                subscription.received[entry.id] = lock
            else:
                self._enqueue(subscription, entry)
        return due, due - late

    def _once_each(
        self, entry: Entry, were_due: list[Subscription], marked: Mapping[int, StoredMark]
    ) -> list[Subscription]:
        """Those of them to whom it is due, or was, without such as have it by another of their own.

        As a rule it is stored of these that they are done; not where rights have changed while the site was
        down, or it crashed while several were joining.
        """
        has_it = {whose(each) for each in were_due if each.id in marked and not marked[each.id].done}
        oldest: dict[tuple[str, str], int] = {}
        for each in were_due:
            oldest[whose(each)] = min(each.id, oldest.get(whose(each), each.id))
        due = []
        for subscription in were_due:
            own = whose(subscription)
            came_late = oldest[own] < subscription.id and subscription.joined_after(entry)
            if subscription.id in marked:
                due.append(subscription)
            elif own in has_it or came_late:
                self._state.out.append(MarkDone(entry.id, subscription.id, has_it=False))
            else:
                due.append(subscription)
                has_it.add(own)
        return due

    @staticmethod
    def _note_in_time(subscription: Subscription, entry: Entry) -> None:
        if not isinstance(subscription.in_time, set):
            subscription.in_time = set()
        subscription.in_time.add(entry.id)

    @staticmethod
    def _note_had_before(subscription: Subscription, entry: Entry) -> None:
        if subscription.had_before is None:
            subscription.had_before = HadBefore()
        subscription.had_before.finish(entry.id)

    def _enqueue(self, subscription: Subscription, entry: Entry) -> None:
        if subscription.order is None or (key := self._state.sequenced.get(entry.id)) is None:
            subscription.queue.push(entry)
            return
        for each in subscription.order.arrived(entry, *key, self._now):
            subscription.queue.push(each)
        if subscription.order.next_release() is not None:
            self._state.ordering[subscription.id] = subscription

    def _note_who_was_asked(self, receipt: Receipt) -> None:
        copy = self._state.crossing.by_id.get(receipt.entry.id)
        for peer, forward in copy.forwards.items() if copy is not None else ():
            asked = receipt.waiting.intersection((forward.query, *forward.earlier))
            self._state.asked_of |= dict.fromkeys(asked, peer)

    def end(self) -> None:
        """Tell the receipts that are known, end what the restart left unneeded; after all rows."""
        for receipt in self._link_receipts.values():
            receipt.entry.flags |= RECEIPT | GONE
            self._pending.append(receipt)
            self._state.matching.forget_if_unused(receipt.entry.topic)
        for receipt in self._pending:
            self._note_who_was_asked(receipt)
            self._receipts.add(receipt, self._now)
        for entry, damage in self._damaged:
            self._setting_aside.set_aside(self._now, entry, damage)
        for entry in self._unneeded:
            if not entry.flags & GONE:
                self._lifecycle.end_if_due_to_nobody(entry, "due to nobody any more")
        for copy in self._state.crossing.destined.values():
            self._state.crossing.weigh(copy.entry)
        self._state.wake_at = self._now
