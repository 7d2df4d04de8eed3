"""Receipts: telling a publisher how many of the subscriptions that a message was due to have it.

`X/Y`: Y the subscriptions the message was due to when it was routed, X those that have it. ONE is
answered as soon as the first has it, ALL as soon as all have, or as soon as no more can; either at the
latest when the timeout ends. Source: SMQP RECEIPT, routing contract 6.
"""

import heapq
import math
from collections.abc import Callable
from typing import Literal

import msgspec

from routing.decisions import MarkReceipted, Record
from routing.queue import GUARANTEED, RECEIPT, Entry
from routing.state import SiteState
from routing.subscription import Subscription


class Receipt(msgspec.Struct):
    """A receipt that is owed.

    Attributes:
        due: Y.
        have: X.
        open: subscriptions of Y that may still come to have it.
    """

    entry: Entry
    mode: Literal["ONE", "ALL"]
    publisher: str
    cmuid: str
    due: int
    have: int
    open: int

    @property
    def text(self) -> str:
        """What the publisher is told."""
        return f"{self.have}/{self.due}"


class Receipts:
    """The receipts owed to publishers; `send` publishes one that is known."""

    def __init__(self, state: SiteState, send: Callable[[Receipt], None]) -> None:
        self._state = state
        self._send = send
        self._owed: dict[int, Receipt] = {}
        self._ends: list[tuple[float, int]] = []

    def owe(self, receipt: Receipt, now: float) -> None:
        """A message asked for a receipt; if nobody can have it any more, that is told at once."""
        entry = receipt.entry
        self._owed[entry.id] = receipt
        if entry.deadline == math.inf:
            ends_at = now + self._state.settings.default_timeout_s
            heapq.heappush(self._ends, (ends_at, entry.id))
            self._state.wake_at = min(self._state.wake_at, ends_at)
        self._check(receipt)

    def progress(self, entry: Entry, subscription: Subscription, *, has_it: bool) -> None:
        """One subscription is done with a message: it has it, or it never will."""
        receipt = self._owed.get(entry.id)
        if receipt is None:
            return
        if subscription.joined_after(entry) or not receipt.open:
            return
        receipt.open -= 1
        receipt.have += has_it
        self._check(receipt)

    def close(self, entry: Entry) -> None:
        """No more can have it: tell what is known."""
        receipt = self._owed.pop(entry.id, None)
        if receipt is None:
            return
        entry.flags &= ~RECEIPT
        self._state.out.append(Record("receipt", entry, receipt=receipt.text))
        if entry.flags & GUARANTEED:
            self._state.out.append(MarkReceipted(entry.id))
        self._send(receipt)

    def withdraw(self, entry: Entry) -> None:
        """The message did not come true: nothing is owed."""
        self._owed.pop(entry.id, None)

    def tick(self, now: float) -> None:
        """Tell what is known of messages that outlive the wait for their receipt."""
        while self._ends and self._ends[0][0] <= now:
            receipt = self._owed.get(heapq.heappop(self._ends)[1])
            if receipt is not None:
                self.close(receipt.entry)

    def next_wake(self) -> float:
        """Site time of the next receipt that time alone brings about."""
        return self._ends[0][0] if self._ends else math.inf

    def _check(self, receipt: Receipt) -> None:
        if not receipt.open or (receipt.mode == "ONE" and receipt.have):
            self.close(receipt.entry)
