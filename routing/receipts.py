"""Receipts: telling a publisher how many of the subscriptions that a message was due to have it.

`X/Y`: Y the subscriptions the message was due to when it was routed, X those that have it. ONE is
answered as soon as the first has it, ALL as soon as all have, or as soon as no more can; either at the
latest when the timeout ends. Source: SMQP RECEIPT, routing contract 6.
"""

import heapq
import math
from collections.abc import Callable, Iterable
from typing import Final

from routing.copy_states import has_timed_out
from routing.decisions import MarkReceipted, Record
from routing.errors import Refusal
from routing.peering.counts import SiteCounts
from routing.peering.decisions import (
    DiscardAnswer,
    DiscardReceipt,
    StoreAnswer,
    StoreReceipt,
    TellReceipt,
)
from routing.queue import GUARANTEED, ONE, RECEIPT, Entry
from routing.receipt import COUNT_MAX, Receipt
from routing.state import SiteState
from routing.subscription import Subscription

SWEEP_MIN: Final = 1000
"""Ends of receipts that are closed already, and that are not worth sweeping out."""

UNASKED_MAX: Final = 50_000
"""Counts kept of messages that came before anybody asked for them; a row and about 500 bytes each."""

ANSWERS_MAX: Final = 200_000
"""Last answers kept for one peer that does not take them; a row and about 100 bytes each."""


class Receipts:
    """The pending receipts of publishers and peers.

    Args:
        send: publishes one that is known, given the time.
        note_counts: remembers with a Smuid of a peer's how many of this site were due to have it, and do.

    Attributes:
        answers: by peer and question, last answers that the peer may not have on disk yet: (Y, X).
    """

    def __init__(
        self,
        state: SiteState,
        send: Callable[[Receipt, float], None],
        note_counts: Callable[[str, int, int], None],
    ) -> None:
        self._state = state
        self._send = send
        self._note_counts = note_counts
        self._pending: dict[int, Receipt] = {}
        self._asked: dict[int, Receipt] = {}
        self._engaged: set[tuple[str, int]] = set()
        self._unasked: dict[str, Receipt] = {}  # by Smuid
        self._ends: list[tuple[float, int]] = []
        self.answers: dict[str, dict[int, tuple[int, int]]] = {}

    def add(self, receipt: Receipt, now: float) -> None:
        """Begin a receipt that a message asked for; if nobody can have it any more, that is told at once."""
        entry = receipt.entry
        self._pending[entry.id] = receipt
        self._asked |= dict.fromkeys(receipt.waiting, receipt)
        if receipt.is_unasked:
            if len(self._unasked) >= UNASKED_MAX:
                self.close(next(iter(self._unasked.values())).entry, now)
            self._unasked[entry.smuid(self._state.server)] = receipt
        else:
            self._engaged.add((receipt.parent, receipt.query))
        self._end_in_time(receipt, now)
        self._keep(receipt)
        self._check(receipt, now)

    def claim(self, smuid: str, peer: str, query: int) -> Receipt | None:
        """A question has come for a message that had come without: the first one counts who was due then.

        The copy may have ended since. Whoever claims it has it looked at, or moved.
        """
        receipt = self._unasked.pop(smuid, None)
        if receipt is not None:
            receipt.parent, receipt.query = peer, query
            self._engaged.add((peer, query))
            self._keep(receipt)
            if not receipt.open:
                self._note_own(receipt)
        return receipt

    def move(self, receipt: Receipt, entry: Entry, now: float) -> None:
        """Let a receipt go on for this copy of the same message, as the one that it was of has ended."""
        before = receipt.entry
        del self._pending[before.id]
        if receipt.stored:
            self._state.out.append(DiscardReceipt(before.id))
        before.flags &= ~RECEIPT
        entry.flags |= RECEIPT
        receipt.entry, receipt.open = entry, 0
        self._pending[entry.id] = receipt
        self._end_in_time(receipt, now)
        self._keep(receipt)

    def _end_in_time(self, receipt: Receipt, now: float) -> None:
        entry = receipt.entry
        if entry.deadline == math.inf:
            self._end_at(entry, now + self._state.settings.default_timeout_s)
        elif receipt.parent or receipt.children:
            self._end_at(entry, entry.deadline)

    def _end_at(self, entry: Entry, ends_at: float) -> None:
        """Whatever becomes of the copy here, which may end before its receipt."""
        heapq.heappush(self._ends, (ends_at, entry.id))
        self._state.wake_at = min(self._state.wake_at, ends_at)

    def _keep(self, receipt: Receipt) -> None:
        """Store a receipt that the marks on a message do not tell."""
        if receipt.entry.flags & GUARANTEED and (receipt.stored or receipt.parent or receipt.children):
            receipt.stored = True
            self._state.out.append(StoreReceipt(receipt.entry, receipt))

    def progress(self, entry: Entry, subscription: Subscription, now: float, *, has_it: bool) -> None:
        """Note that one subscription is done with a message: it has it, or it never will."""
        receipt = self._pending.get(entry.id)
        if receipt is None:
            return
        if subscription.joined_after(entry) or not receipt.open:
            return
        receipt.open -= 1
        receipt.have += has_it
        if not receipt.open:
            self._note_own(receipt)
        if receipt.stored:
            self._keep(receipt)
        self._check(receipt, now)

    def undo(self, entry: Entry, subscription: Subscription, *, had_it: bool) -> None:
        """Note that a subscription is not done after all; who was told of it already is told no more."""
        receipt = self._pending.get(entry.id)
        if receipt is not None and receipt.have >= had_it and not subscription.joined_after(entry):
            receipt.open += 1
            receipt.have -= had_it
            if receipt.stored:
                self._keep(receipt)

    def look(self, entry: Entry, now: float) -> None:
        """Tell the receipt of a message if no more can have it: this site sees to fewer destinations now."""
        if (receipt := self._pending.get(entry.id)) is not None:
            self._check(receipt, now)

    def _sees_to_some(self, entry: Entry) -> bool:
        """Whether sites beyond may still be asked, which nobody may have been."""
        copy = self._state.crossing.destined.get(entry.id)
        if copy is None or has_timed_out(entry):
            return False
        return any(not open.is_late for open in copy.destinations.values())

    def pending(self, entry: Entry) -> Receipt | None:
        """The pending receipt of a message; None where there is none, or nobody has asked for it yet."""
        receipt = self._pending.get(entry.id)
        return receipt if receipt is not None and not receipt.is_unasked else None

    def engaged(self, peer: str, query: int) -> bool:
        """Whether this very question is being answered: it was repeated, not asked by another way."""
        return (peer, query) in self._engaged

    def is_known(self, peer: str, query: int) -> bool:
        """Whether this very question is being answered, or has been, which the peer may not know yet."""
        return self.engaged(peer, query) or query in self.answers.get(peer, ())

    def ask(self, receipt: Receipt, queries: Iterable[int]) -> None:
        """Note the questions that went with the message to peers, which answer for what is beyond them.

        Those that have been taken back since are passed over.
        """
        for query in filter(self._state.asked_of.__contains__, queries):
            receipt.children[query] = (0, 0)
            receipt.waiting.add(query)
            self._asked[query] = receipt
        if receipt.entry.deadline != math.inf:
            self._end_at(receipt.entry, receipt.entry.deadline)
        self._keep(receipt)

    def handing(self, entry: Entry, query: int) -> None:
        """Ask a peer to which a message of mode ONE is being handed, and which from now on speaks for it."""
        receipt = self._pending.get(entry.id)
        if receipt is not None:
            receipt.due = receipt.open = 0
            self.ask(receipt, (query,))
            receipt.children[query] = (1, 0)

    def kept(self, entry: Entry, query: int) -> None:
        """Undo `handing`: the peer did not take the message, which is due here again."""
        receipt = self._pending.get(entry.id)
        if receipt is not None:
            receipt.due = receipt.open = 1
            receipt.children.pop(query, None)
            receipt.waiting.discard(query)
            self._settle(query)
            self._keep(receipt)

    def not_asked(self, query: int) -> None:
        """Count nobody for a question that has not gone to its peer, and is not to."""
        receipt = self._asked.get(query)
        self._settle(query)
        if receipt is not None:
            receipt.children.pop(query, None)
            receipt.waiting.discard(query)
            self._keep(receipt)

    def _settle(self, query: int) -> None:
        """Forget a question of ours: no answer to it counts any more."""
        self._asked.pop(query, None)
        self._state.asked_of.pop(query, None)

    def heard(self, now: float, peer: str, query: int, due: int, have: int, *, closed: bool) -> None:
        """Take a peer's answer: how many have the message there and beyond. Its last word is kept.

        Raises Refusal for counts that cannot be. They are not taken, and what the peer said before stands;
        where it has nothing more to say, it is not waited for.
        """
        receipt = self._asked.get(query)
        if receipt is None or self._state.asked_of.get(query, peer) != peer:
            return
        due_max = 1 if receipt.entry.flags & ONE else COUNT_MAX
        can_be = 0 <= have <= due <= due_max
        if can_be:
            receipt.children[query] = (due, have)
        if closed:
            receipt.waiting.discard(query)
            self._settle(query)
            self._keep(receipt)
        self._check(receipt, now)
        if not can_be:
            text = f"{have}/{due} is no count of subscriptions, of {due_max} at most, that have a message"
            raise Refusal(Refusal.BAD_FRAME, text)

    def _note_own(self, receipt: Receipt) -> None:
        """Have it remembered with the Smuid what is counted here for a peer: the copy may come once more."""
        if receipt.query and receipt.due:
            self._note_counts(receipt.entry.smuid(self._state.server), receipt.due, receipt.have)

    def unanswered(self) -> list[Receipt]:
        """Those of publishers here of which peers have not said their last word."""
        return list({each.entry.id: each for each in self._asked.values() if not each.parent}.values())

    def owed_here(self, id: int) -> Receipt | None:
        """The receipt of a message that began here; None where none is pending."""
        receipt = self._pending.get(id)
        return None if receipt is None or receipt.parent else receipt

    def counting_here(self, id: int) -> SiteCounts | None:
        """What is counted, of this site alone, of a message that came from a peer; None where nothing is.

        Those who came later are not: while nobody has asked, it is not known whether all that are due did.
        """
        receipt = self._pending.get(id)
        if receipt is None or not receipt.parent or not receipt.due:
            return None
        if receipt.is_unasked:
            return SiteCounts(0, 0, open=True)
        return SiteCounts(receipt.due, receipt.have, bool(receipt.open))

    def heard_of_sites(self, receipt: Receipt, now: float, *, is_all: bool) -> None:
        """Take what sites have said of who has a message; `is_all`: nobody is to say more."""
        if is_all and receipt.waiting:
            for query in receipt.waiting:
                self._settle(query)
            receipt.waiting.clear()
            due, have = receipt.counts  # what sites have said is not stored by itself
            receipt.children = {min(receipt.children): (due - receipt.due, have - receipt.have)}
            self._keep(receipt)
        self._check(receipt, now)

    def close(self, entry: Entry, now: float) -> None:
        """End the receipt of a message that no more can have: tell what is known."""
        receipt = self._pending.pop(entry.id, None)
        if receipt is None:
            return
        self._note_own(receipt)
        if len(self._ends) > 2 * len(self._pending) + SWEEP_MIN:
            self._ends = [end for end in self._ends if end[1] in self._pending]
            heapq.heapify(self._ends)
        self._forget(receipt)
        entry.flags &= ~RECEIPT
        if entry.flags & GUARANTEED:
            self._state.out.append(MarkReceipted(entry.id))
        if receipt.stored:
            self._state.out.append(DiscardReceipt(entry.id))
        if receipt.is_unasked:
            return
        if receipt.parent:
            self.answer(receipt.parent, receipt.query, *receipt.counts)
            return
        self._state.out.append(Record("receipt", entry, receipt=receipt.text))
        try:
            self._send(receipt, now)
        except Exception as error:  # the message goes on
            self._state.mishap(f"a receipt for {receipt.publisher}", error)

    def _tell_parent(self, receipt: Receipt) -> None:
        due, have = receipt.told = receipt.counts
        self._state.out.append(TellReceipt(receipt.parent, receipt.query, due, have, closed=False))

    def answer(self, peer: str, query: int, due: int, have: int) -> None:
        """Answer a peer's question for good; it is told again until it has that on disk.

        Of a peer that asks on and takes no answers the oldest are dropped: it hears no more of those, and its
        own receipts end with their timeouts.
        """
        answers = self.answers.setdefault(peer, {})
        if query not in answers:
            if len(answers) >= ANSWERS_MAX:
                self.answered(peer, next(iter(answers)))
            answers[query] = (due, have)
            self._state.out.append(StoreAnswer(peer, query, due, have))
        self._state.out.append(TellReceipt(peer, query, *answers[query], closed=True))

    def answered(self, peer: str, query: int) -> None:
        """Forget an answer that the peer has on disk."""
        if self.answers.get(peer, {}).pop(query, None) is not None:
            self._state.out.append(DiscardAnswer(peer, query))

    def repeat(self, peer: str) -> None:
        """Tell a peer whose link is up again all that it may not have heard."""
        for query, (due, have) in self.answers.get(peer, {}).items():
            self._state.out.append(TellReceipt(peer, query, due, have, closed=True))
        for receipt in self._pending.values():
            if receipt.parent == peer and receipt.query:
                self._tell_parent(receipt)

    def forget_peer(self, peer: str, now: float) -> None:
        """Forget a peer that is none any more: no answers are told to it, and what it said last stands."""
        for query in self.answers.pop(peer, {}):
            self._state.out.append(DiscardAnswer(peer, query))
        for query in [query for query, asked in self._state.asked_of.items() if asked == peer]:
            if (receipt := self._asked.get(query)) is not None:
                self.heard(now, peer, query, *receipt.children.get(query, (0, 0)), closed=True)

    def withdraw(self, entry: Entry) -> None:
        """Forget the receipt of a message that could not be stored."""
        receipt = self._pending.pop(entry.id, None)
        if receipt is not None:
            self._forget(receipt)

    def _forget(self, receipt: Receipt) -> None:
        for query in receipt.waiting:
            self._settle(query)
        if receipt.is_unasked:
            self._unasked.pop(receipt.entry.smuid(self._state.server), None)
        else:
            self._engaged.discard((receipt.parent, receipt.query))

    def not_answered(self, peer: str, query: int) -> None:
        """Undo `answer`, which could not be stored: the question is to come again."""
        self.answers.get(peer, {}).pop(query, None)

    def tick(self, now: float) -> None:
        """Tell what is known of messages that outlive the wait for their receipt."""
        while self._ends and self._ends[0][0] <= now:
            receipt = self._pending.get(heapq.heappop(self._ends)[1])
            if receipt is not None:
                self.close(receipt.entry, now)

    def next_wake(self) -> float:
        """Site time of the next receipt that time alone brings about."""
        return self._ends[0][0] if self._ends else math.inf

    def _check(self, receipt: Receipt, now: float) -> None:
        if receipt.is_unasked:
            return
        due, have = receipt.counts
        is_open = receipt.open or receipt.waiting or self._sees_to_some(receipt.entry)
        if not is_open or (receipt.mode == "ONE" and have):
            self.close(receipt.entry, now)
        elif receipt.parent and (due, have) != receipt.told:
            self._tell_parent(receipt)
