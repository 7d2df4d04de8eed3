"""What a store does with the router's decisions, as plain dictionaries: for tests of the router alone."""

import copy
import math
from typing import Literal

import msgspec

from routing import decisions as d
from routing.message import DeliveryMode, Message
from routing.options import SubscribeOptions
from routing.queue import COMMITTED_STATES, GROUPED, GUARANTEED, RECEIPT, Entry, of_group
from routing.restore import NOT_YET, Restore, StoredMark, readable
from routing.targets import Pattern

ModelMark = tuple[int, int]
ModelSubscription = tuple[str, str, SubscribeOptions, int, float, dict[str, int] | None]


class ModelMessage(msgspec.Struct):
    """What the index needs of a message."""

    id: int
    topic: str
    origin: int | str
    priority: int
    size: int
    flags: int
    deadline: float
    receipt_due: int
    receipt_mode: Literal["ONE", "ALL"]
    sequence: int
    publisher: str
    cmuid: str


class ModelStore:
    """Applies each decision at once; `committed` is a copy to come back to."""

    def __init__(self) -> None:
        self.messages: dict[int, tuple[ModelMessage, Message]] = {}
        self.marks: dict[ModelMark, StoredMark] = {}
        self.topics: dict[str, tuple[DeliveryMode | None, float | None]] = {}
        self.annotations: dict[tuple[str, str], str] = {}
        self.subscriptions: dict[int, ModelSubscription] = {}
        self.publications: list[tuple[str, str, str, float]] = []

    def committed(self) -> "ModelStore":
        """As it is now, for a crash to come back to."""
        return copy.deepcopy(self)

    def apply(self, decision: d.Decision, now: float) -> None:
        """One decision; those that are no matter of the store change nothing."""
        match decision:
            case d.StoreMessage(entry=entry, message=message, receipt_due=receipt_due):
                index = ModelMessage(
                    entry.id,
                    entry.topic.name,
                    entry.origin,
                    entry.priority,
                    entry.size,
                    entry.flags & COMMITTED_STATES,
                    entry.deadline,
                    receipt_due if entry.flags & RECEIPT else 0,
                    "ONE" if message.receipt == "ONE" else "ALL",
                    message.sequence or 0,
                    message.account,
                    message.cmuid,
                )
                self.messages[entry.id] = (index, message)
            case d.DiscardMessage(entry=entry) if entry.flags & GUARANTEED:
                self.messages.pop(entry.id, None)
                for key in [key for key in self.marks if key[0] == entry.id]:
                    del self.marks[key]
            case d.MarkDue(entry_id=entry_id, subscription_id=subscription_id):
                self._mark(entry_id, subscription_id, NOT_YET)
            case d.MarkReceived(entry_id=entry_id, subscription_id=subscription_id):
                mark = self._mark(entry_id, subscription_id)
                mark.received, mark.attempts = True, max(mark.attempts, 0)
            case d.MarkDone(entry_id=entry_id, subscription_id=subscription_id, has_it=has_it):
                mark = self._mark(entry_id, subscription_id)
                mark.received, mark.done, mark.has_it = False, True, has_it
            case d.MarkReturned(entry_id=entry_id, subscription_id=subscription_id, attempts=attempts):
                mark = self._mark(entry_id, subscription_id)
                mark.received, mark.attempts = False, attempts
                if not subscription_id:
                    for key, other in self.marks.items():
                        if key[0] == entry_id:
                            other.received = False
            case d.MarkReceipted(entry_id=entry_id):
                if entry_id in self.messages:
                    self.messages[entry_id][0].flags &= ~RECEIPT
            case d.MarkRouted(entry=entry) if entry.flags & GUARANTEED:
                self.messages[entry.id][0].flags = entry.flags & COMMITTED_STATES
                self.messages[entry.id][0].deadline = entry.deadline
            case d.StoreSubscription(subscription=s):
                allowed_since = dict(s.target.allowed_since) if isinstance(s.target, Pattern) else None
                stored = (s.target.name, s.owner, s.options, s.since, s.used_at, allowed_since)
                self.subscriptions[s.id] = stored
            case d.DiscardSubscription(subscription_id=subscription_id):
                self.subscriptions.pop(subscription_id, None)
            case d.StoreTopic(topic=topic):
                self.topics[topic.name] = (topic.mode, topic.timeout_s)
            case d.StoreAnnotation(topic=name, front_end=front_end, text=str(text)):
                self.annotations[name, front_end] = text
            case d.StoreAnnotation(topic=name, front_end=front_end):
                self.annotations.pop((name, front_end), None)
            case d.StorePublication(publisher=publisher, cmuid=cmuid, smuid=smuid):
                self.publications.append((publisher, cmuid, smuid, now))

    def _mark(self, entry_id: int, subscription_id: int, attempts: int = 0) -> StoredMark:
        return self.marks.setdefault(
            (entry_id, subscription_id), StoredMark(subscription_id, False, False, False, attempts)
        )

    def restore_into(self, restore: Restore) -> None:
        """Give a new router everything that is held."""
        for name, (mode, timeout_s) in self.topics.items():
            restore.topic(name, mode, timeout_s)
        for (name, front_end), text in self.annotations.items():
            restore.annotation(name, front_end, text)
        for id, subscription in sorted(self.subscriptions.items()):
            restore.subscription(id, *subscription)
        for publication in reversed(self.publications):
            restore.publication(*publication)
        for id, (index, message) in sorted(self.messages.items()):
            marks = [copy.copy(mark) for key, mark in sorted(self.marks.items()) if key[0] == id]
            entry = Entry(
                id,
                restore.topic_of(readable(index.topic)),
                index.origin,
                index.priority,
                index.size,
                index.flags,
                0,
                index.deadline,
            )
            if index.flags & GROUPED and message.group is not None:
                entry = of_group(entry, message.group, ends=message.ends_group)
            restore.message(
                entry,
                marks,
                publisher=index.publisher,
                cmuid=index.cmuid,
                sequence=index.sequence,
                receipt_due=index.receipt_due,
                receipt_mode=index.receipt_mode,
            )
        restore.end()

    def deadline(self, id: int) -> float:
        """When a message that is stored ends; `inf` for never."""
        return self.messages[id][0].deadline if id in self.messages else math.inf
