"""What the promises of routing contract 3, 5 and 6 mean for each message, kept beside a router to judge it.

It is told what clients ask for and what the router decides, and fails on the first decision that breaks a
promise. It knows nothing of queues and locks. All of it can be copied, to come back to after a crash.
"""

import copy
from dataclasses import dataclass, field

from routing import decisions as d
from routing.queue import DELAYED, GUARANTEED, ONE, SEQUENCED, Entry
from routing.subscription import Lock, Subscription
from tests.support.wishes import Wishes


@dataclass
class Sent:
    """A message that was accepted.

    Attributes:
        due: subscriptions of mode ALL that have still to finish it.
        counted: those that its receipt speaks of; have: those of them that have it.
        not_before: when its delay ends; 0 where it has none.
        waits: its delay has not ended, so that it is due to nobody yet.
    """

    id: int
    topic: str
    one: bool
    guaranteed: bool
    stated: bool
    deadline: float
    receipt: str
    due: set[int]
    counted: set[int]
    not_before: float = 0.0
    waits: bool = False
    have: int = 0
    lost_to: int = 0
    done: set[int] = field(default_factory=set)
    ended: str = ""
    receipted: bool = False
    may_be_removed: bool = False
    refused: bool = False


class Oracle:
    """The messages of one site, by id."""

    def __init__(self) -> None:
        self.messages: dict[int, Sent] = {}
        self.order: dict[tuple[object, int], int] = {}
        self.causes: dict[int, int] = {}
        self._due_before_burial: dict[int, set[int]] = {}  # by dead letter, to whom its cause was
        self.wishes = Wishes()

    def copy(self) -> "Oracle":
        """To come back to."""
        return copy.deepcopy(self)

    # -- what clients do --------------------------------------------------------------------------

    def finished(self, id: int, subscription: Subscription) -> None:
        """A client has committed."""
        sent = self.messages[id]
        if sent.one:
            sent.done.add(subscription.id)
        else:
            self.withheld(id, subscription)
        if sent.one or subscription.id in sent.counted:
            sent.have += 1

    def withheld(self, id: int, subscription: Subscription) -> None:
        """What is for all is not for a subscription, which does not have it."""
        sent = self.messages[id]
        assert subscription.id in sent.due, "it was not due"
        sent.done.add(subscription.id)
        sent.due.discard(subscription.id)

    def subscribed(self, subscription: Subscription, now: float) -> None:
        """A subscription is new: it is due to get what has a stated timeout."""
        self.wishes.begin(subscription)
        for sent in self.messages.values():
            if (
                not sent.ended
                and not sent.one
                and not sent.waits
                and sent.stated
                and sent.deadline > now
                and self.wishes.is_first_for(subscription.id, sent.topic)
            ):
                sent.due.add(subscription.id)

    def gone(self, subscription_id: int) -> None:
        """A subscription has ended."""
        self.wishes.end(subscription_id)
        for sent in self.messages.values():
            sent.due.discard(subscription_id)

    def refused(self, id: int) -> None:
        """It could not be stored; what the server has made of it is not to be either."""
        self.messages[id].refused = True
        for other, cause in self.causes.items():
            if cause == id:
                self.refused(other)

    def removed(self, id: int) -> None:
        self.messages[id].may_be_removed = True

    def restarted(self, durable: set[int]) -> None:
        """Sessions, what is bound to them, and what is not guaranteed are gone."""
        self.messages = {id: sent for id, sent in self.messages.items() if sent.guaranteed}
        self.order.clear()
        for sent in self.messages.values():
            sent.due &= durable
        self.wishes.keep(durable)

    # -- what the router decides ------------------------------------------------------------------

    def see(self, decision: d.Decision, now: float) -> None:
        """Judge one decision, in the order in which they were made."""
        match decision:
            case d.StoreMessage(entry=entry, message=message) | d.KeepMessage(entry=entry, message=message):
                assert isinstance(decision, d.StoreMessage) == bool(entry.flags & GUARANTEED)
                assert isinstance(decision, d.StoreMessage) == message.guarantee
                self._published(entry, message.receipt, message.timeout_s)
                if isinstance(decision, d.StoreMessage) and decision.cause:
                    self.causes[entry.id] = decision.cause
                    if entry.topic.is_dead_letter:
                        self._due_before_burial[entry.id] = set(self.messages[decision.cause].due)
            case d.MarkRouted(entry=entry):
                sent = self.messages[entry.id]
                assert sent.waits
                assert now >= sent.not_before
                sent.waits, sent.deadline = False, entry.deadline
                if not sent.one:
                    sent.due = self.wishes.due(sent.topic)
                sent.stated = sent.stated or entry.topic.timeout_s is not None
            case d.Deliver(entry=entry, subscription=subscription, lock=lock, redelivered=redelivered):
                assert now >= self.messages[entry.id].not_before, "delivered before its time"
                self._delivered(entry, subscription, lock, redelivered=redelivered)
            case d.Record(entry=entry):
                self._recorded(decision, entry, now)

    def _published(self, entry: Entry, receipt: str, timeout_s: float | None) -> None:
        topic = entry.topic
        one = bool(entry.flags & ONE)
        waits = bool(entry.flags & DELAYED)
        due = set() if one or waits else self.wishes.due(topic.name)
        stated = timeout_s is not None or topic.is_system or (topic.timeout_s is not None and not waits)
        assert entry.id not in self.messages
        if topic.mode is not None and not topic.is_system:
            assert one == (topic.mode == "ONE")
        self.messages[entry.id] = Sent(
            entry.id,
            topic.name,
            one,
            bool(entry.flags & GUARANTEED),
            stated,
            entry.deadline,
            receipt,
            due,
            set(due),
            entry.deadline if waits else 0.0,
            waits,
        )

    def _delivered(
        self, entry: Entry, subscription: Subscription, lock: Lock | None, *, redelivered: bool
    ) -> None:
        sent = self.messages[entry.id]
        assert not sent.ended, f"delivered after it had {sent.ended}"
        assert subscription.id not in sent.done, "committed, and comes again"
        if sent.one:
            assert not sent.done, "committed, and comes again to another"
            assert subscription.accepts_one or (lock is not None and lock.received)
        else:
            assert subscription.id in sent.due, "delivered to one to whom it is not due"
        assert (lock is not None) == (sent.guaranteed or subscription.options.acknowledges_all)
        if lock is None:
            sent.done.add(subscription.id)
            sent.due.discard(subscription.id)
            if sent.one or subscription.id in sent.counted:
                sent.have += 1
            return
        if redelivered or entry.flags & SEQUENCED or sent.not_before:
            # given back, or perhaps held back for one with a lower Sequence, or delayed
            return
        stream = sent.topic if sent.one else subscription.id
        before = self.order.get((stream, entry.priority), 0)
        assert entry.id > before, "overtaken within its priority"
        self.order[stream, entry.priority] = entry.id

    def _recorded(self, record: d.Record, entry: Entry, now: float) -> None:
        if record.event == "published":
            return
        if (record.event, record.reason) == ("dropped", "store failed") and self._gives_way(entry):
            return
        sent = self.messages[entry.id]
        assert not sent.ended, f"{record.event} after it had {sent.ended}"
        if record.event == "receipt":
            self._receipt(sent, record.receipt, now)
        elif record.event == "dead":
            assert record.subscription is not None
            sent.lost_to += 1
            sent.due.discard(record.subscription.id)
        if record.final:
            self._ended(sent, record, now)

    def _gives_way(self, entry: Entry) -> bool:
        """Whether it is a dead letter that finds no room: its message is held on, as if not buried."""
        due = self._due_before_burial.pop(entry.id, None)
        if due is None or self.messages[entry.id].refused:
            return False
        del self.messages[entry.id]
        buried = self.messages[self.causes.pop(entry.id)]
        buried.lost_to -= 1
        buried.due, buried.ended = due, ""
        return True

    def _receipt(self, sent: Sent, text: str, now: float) -> None:
        assert sent.receipt != "NONE"
        assert not sent.receipted, "a second receipt"
        sent.receipted = True
        counted = 1 if sent.one else len(sent.counted)
        assert text == f"{sent.have}/{counted}", f"{text} is not {sent.have}/{counted}"

    def _ended(self, sent: Sent, record: d.Record, now: float) -> None:
        sent.ended = record.event
        if sent.refused:
            assert (record.event, record.reason) == ("dropped", "store failed")
            sent.receipted = True
            return
        if sent.receipt != "NONE":
            assert sent.receipted, "ended, and its receipt is still pending"
        match record.event:
            case "committed" | "delivered":
                assert sent.done
                is_over = sent.one or sent.deadline <= now
                assert is_over or not sent.due, "ended while it is due to someone"
                assert is_over or not sent.stated, "late ones could have had it"
            case "expired":
                nobody = not sent.one and not sent.due and not sent.stated
                assert sent.deadline <= now or nobody, "expired too early"
            case "removed":
                assert sent.may_be_removed
            case "dead":
                assert sent.one or sent.deadline <= now or not (sent.due or sent.stated)
            case "dropped":
                assert not sent.guaranteed
            case event:
                raise AssertionError(f"{event} ends nothing")

    def pending_receipts(self) -> set[int]:
        """The messages whose receipt has still to be told."""
        return {id for id, s in self.messages.items() if s.receipt != "NONE" and not s.receipted}

    def alive(self) -> set[int]:
        """The messages that must be held."""
        return {id for id, sent in self.messages.items() if not sent.ended}
