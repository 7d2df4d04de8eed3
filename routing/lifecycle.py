"""The life of a copy: who may still have it, and when it ends.

A copy is a message that this site holds, an `Entry`. Which states it has, and what each event makes of it, is
the table in `routing.copy_states`; whom it is due to, `Entry.due`, is counted in `routing.copy_events`.

How long it is held:

    timeout stated (by header, else by the topic)   until the timeout ends, also for those who join later
    none stated, mode ONE                           until someone has finished it
    none stated, mode ALL                           until those it is due to have it, at most a day
    INFINITE, mode ALL (a state message)            until REMOVE

A copy may be published with a delay. Until that ends it is due to nobody by name, and 1 stands for those to
whom it will be; how long it is held counts from then.

Nothing outside these files changes `Entry.due`, ends a copy, or takes one back from a subscriber; where it
goes then is in `routing.delivery`. Source: routing contract 5 and 7.
"""

import math
from typing import Literal

from routing import copy_events
from routing.copy_states import has_timed_out, is_kept
from routing.decisions import Bury, DiscardMessage, MarkDone, MarkReturned, Record
from routing.message import DeliveryMode, Message
from routing.options import ReturnOutcome
from routing.peering.about import OfEntry
from routing.peering.copies import Answered
from routing.queue import (
    COUNTED,
    CROSSES,
    DELAYED,
    GONE,
    GROUPED,
    GUARANTEED,
    ONE,
    RECEIPT,
    SEQUENCED,
    STATED,
    Entry,
    of_group,
    shared,
)
from routing.receipts import Receipts
from routing.shares import Share
from routing.state import SiteState
from routing.subscription import Lock, Subscription
from routing.targets import Topic


class Lifecycle:
    """Begins to hold copies, notes who is done with them, and ends them, each with one final record."""

    def __init__(self, state: SiteState, receipts: Receipts) -> None:
        self._state = state
        self._receipts = receipts

    # -- it begins --------------------------------------------------------------------------------

    def begin(
        self,
        id: int,
        smuid: str,
        topic: Topic,
        message: Message,
        publisher: str,
        mode: DeliveryMode,
        timeout_s: float | None,
        due: int,
        now: float,
        *,
        owes_receipt: bool,
        delay_s: float = 0.0,
        share: Share | None = None,
    ) -> Entry:
        """Hold a message that has been accepted; it counts on `share`.

        `timeout_s`: what is left of the stated timeout; None where none was stated. `due`: how many
        subscriptions it is due to; 1 for mode ONE. With `delay_s` neither counts before `end_delay`.
        """
        state = self._state
        flags = GUARANTEED if message.guarantee else 0
        group = None
        if mode == "ONE":
            flags |= ONE
            group = message.group
        if delay_s:
            flags, due, deadline = flags | DELAYED, 1, now + delay_s
        else:
            stated, deadline = self._kept_until(mode, timeout_s, now)
            flags |= stated
        if owes_receipt:
            flags |= RECEIPT
        if message.sequence is not None:
            flags |= SEQUENCED
            state.sequenced[id] = (publisher, message.sequence)
        size = shared(message.size_bytes)
        entry = Entry(id, topic, smuid, message.priority, size, flags, due, deadline, share)
        if group is not None:
            entry = of_group(entry, group, ends=message.ends_group)
        self._state.hold(entry, publisher, now)
        topic.traffic.came += 1
        return entry

    def _kept_until(self, mode: DeliveryMode, timeout_s: float | None, now: float) -> tuple[int, float]:
        """STATED or nothing, and when the timeout ends."""
        if timeout_s is not None:
            return STATED, now + timeout_s
        return 0, math.inf if mode == "ONE" else now + self._state.settings.default_timeout_s

    def end_delay(self, entry: Entry, timeout_s: float | None, due: int, now: float) -> None:
        """Hold a copy as one that is accepted now; `timeout_s` and `due` as of `begin`."""
        stated, entry.deadline = self._kept_until("ONE" if entry.flags & ONE else "ALL", timeout_s, now)
        copy_events.routed(entry, due, is_stated=bool(stated))
        if entry.deadline != math.inf:
            self._state.watch(entry, now)

    def restore(self, entry: Entry, due: int, publisher: str, now: float) -> None:
        """Hold a copy again, due to so many subscriptions besides the peers that are counted already."""
        copy_events.restored(entry, due)
        if isinstance(entry.origin, int):  # it was published here
            shares = self._state.shares
            share = shares.by_publisher.get(publisher)
            entry.share = shares.charged(publisher, entry.topic.recipient) if share is None else share
        self._state.hold(entry, publisher, now)

    def end_if_due_to_nobody(self, entry: Entry, reason: str) -> bool:
        """All that a copy is due to are counted: end it where they are none. Whether it has ended."""
        ended = entry.due <= 0 and copy_events.settled(entry)
        if ended:
            self._end_everywhere(entry, "expired", reason)
        return ended

    # -- those who are due ------------------------------------------------------------------------

    def finished(
        self,
        entry: Entry,
        subscription: Subscription,
        event: Literal["committed", "delivered", "dead"],
        now: float,
        attempt: int = 0,
        reason: str = "",
    ) -> None:
        """Finish a copy for a subscription; `delivered`: it acknowledges nothing, and was handed it."""
        state = self._state
        if entry.flags & RECEIPT:
            self._receipts.progress(entry, subscription, now, has_it=event != "dead")
        ended = copy_events.done(entry)
        if event == "dead":
            entry.topic.traffic.dead += 1
        else:
            entry.topic.traffic.committed += 1
        state.out.append(Record(event, entry, subscription, attempt=attempt, final=ended, reason=reason))
        subscription.attempts.pop(entry.id, None)
        self._hold_on(entry, ended)
        if not ended and entry.flags & GUARANTEED and (subscription.options.durable or entry.flags & RECEIPT):
            # another start would not know a subscription that ends with its session
            has_it = event != "dead" and not subscription.joined_after(entry)
            state.out.append(MarkDone(entry.id, subscription.id, has_it))

    def unfinished(
        self, entry: Entry, subscription: Subscription, event: Literal["committed", "dead"], now: float
    ) -> None:
        """Undo `finished`, which could not be stored.

        A copy that ended with it is held again, on the account of its recipient if it has one.
        """
        state = self._state
        had_ended = entry.flags & GONE
        copy_events.undone(entry)
        if had_ended:
            entry.flags &= ~COUNTED
            entry.topic = state.topic(entry.topic.name)
            self._state.hold(entry, "", now)
            self._state.is_by_age = False
        self._hold_on(entry, ended=False)
        if entry.flags & RECEIPT:
            self._receipts.undo(entry, subscription, had_it=event == "committed")

    def given_up(self, entry: Entry, subscription: Subscription, why: str, now: float) -> None:
        """Note that a copy of mode ALL is not due to a subscription that has ended, or may not have it.

        What is kept is offered again where the right comes back. Else it is stored that it is not due, where
        it has been stored that it is: it had come back, was in hand as rights changed, or was delayed.
        """
        if entry.flags & RECEIPT:
            self._receipts.progress(entry, subscription, now, has_it=False)
        ended = copy_events.done(entry)
        self._state.out.append(Record("returned", entry, subscription, reason=why))
        if not is_kept(entry):
            had_come_back = subscription.attempts.pop(entry.id, None) is not None
            is_stored = had_come_back or entry.id in subscription.in_time or subscription.joined_after(entry)
            if is_stored and not ended and subscription.id in self._state.subscriptions:
                self._note_withheld(entry, subscription)
        if ended:
            entry.topic.traffic.unwanted += 1
            self._state.out.append(Record("expired", entry, final=True, reason="due to nobody any more"))
        self._hold_on(entry, ended)

    def withheld(self, entry: Entry, subscription: Subscription, why: str, now: float) -> None:
        """Note that a copy of mode ALL is not for a subscription that it was with, which goes on."""
        self.given_up(entry, subscription, why, now)
        subscription.attempts.pop(entry.id, None)
        if not entry.flags & GONE:
            self._note_withheld(entry, subscription)

    def _note_withheld(self, entry: Entry, subscription: Subscription) -> None:
        if entry.flags & GUARANTEED and subscription.options.durable:
            self._state.out.append(MarkDone(entry.id, subscription.id, has_it=False))

    def answered(self, entry: Entry, peer: str, depth: int, answered: Answered) -> None:
        """Note that a peer has answered for all transfers of a copy of mode ALL."""
        ended = copy_events.answered(entry)
        self._state.out.append(
            Record("forwarded", entry, peer=peer, depth=depth, final=ended, answered=answered)
        )
        self._hold_on(entry, ended)

    def arrived(self, entry: Entry, peer: str, sites: tuple[str, ...]) -> None:
        """Note that sites have a copy of mode ALL that this site was to see to, as a peer tells."""
        ended = False
        for _ in sites:
            ended = copy_events.arrived(entry)
        self._state.out.append(Record("arrived", entry, peer=peer, destinations=sites, final=ended))
        self._hold_on(entry, ended)

    def unwanted(self, entry: Entry, sites: tuple[str, ...]) -> None:
        """Note that sites are not to have a copy of mode ALL any more that this site was to see to."""
        ended = False
        for _ in sites:
            ended = copy_events.arrived(entry)
        if ended:
            entry.topic.traffic.unwanted += 1
            self._state.out.append(Record("expired", entry, final=True, reason="wanted by nobody any more"))
        self._hold_on(entry, ended)

    def _hold_on(self, entry: Entry, ended: bool) -> None:
        """Let go of a copy that has `ended`; else count what it takes, now that others are due."""
        if ended:
            self._state.let_go(entry)
        elif entry.flags & CROSSES:
            self._state.crossing.weigh(entry)

    def handed_over(self, record: Record) -> None:
        """End a copy of mode ONE that is another site's now, which `record` tells."""
        copy_events.done(record.entry)
        self._state.out.append(record)
        self._state.let_go(record.entry)

    # -- it comes back ----------------------------------------------------------------------------

    def returned(self, lock: Lock, outcome: ReturnOutcome, reason: str) -> bool:
        """Note that a subscriber gives a copy back: True where it waits again, and is to be offered.

        It does not where its timeout has ended, and where it is to be buried, having been rejected, or having
        failed too often. In a dead-letter topic nothing is buried.
        """
        state, entry, subscription = self._state, lock.entry, lock.subscription
        if entry.flags & GONE:
            return False
        state.out.append(Record("returned", entry, subscription, attempt=lock.attempt, reason=reason))
        was_left = has_timed_out(entry)
        if copy_events.returned(entry):
            self._end_everywhere(entry, "expired")
            return False
        if was_left:
            self._note_returned(lock, lock.attempt)
            return False
        failed = has_failed(lock, outcome)
        is_over = outcome == "rejected" or (failed and lock.attempt >= state.settings.max_deliveries)
        if is_over and not entry.topic.is_dead_letter:
            state.out.append(Bury(entry, subscription, lock.attempt, reason))
            return False
        failures = lock.attempt if failed else lock.attempt - 1
        attempts = entry.topic.attempts if entry.flags & ONE else subscription.attempts
        attempts[entry.id] = failures
        self._note_returned(lock, failures)
        return True

    def _note_returned(self, lock: Lock, failures: int) -> None:
        entry, subscription = lock.entry, lock.subscription
        if entry.flags & GUARANTEED and (entry.flags & ONE or subscription.options.durable):
            subscription_id = 0 if entry.flags & ONE else subscription.id
            self._state.out.append(MarkReturned(entry.id, subscription_id, failures))

    # -- it ends, whoever has it ------------------------------------------------------------------

    def timed_out(self, entry: Entry, received: int, now: float) -> None:
        """End a copy whose timeout has ended, or leave it to those who have `received` it."""
        if entry.flags & RECEIPT:
            self._receipts.close(entry, now)
        if copy_events.timed_out(entry, received):
            self._end_everywhere(entry, "expired")
            return
        entry.topic.kept.discard(entry.id)
        if not entry.flags & ONE:
            self._wait_no_more(entry)

    def take_away(
        self, entry: Entry, event: Literal["removed", "dropped"], now: float, reason: str = ""
    ) -> None:
        """End a copy wherever it waits; those whom it is with are the caller's."""
        if entry.flags & RECEIPT:
            self._receipts.close(entry, now)
        copy_events.taken_away(entry)
        self._end_everywhere(entry, event, reason)

    def _end_everywhere(
        self, entry: Entry, event: Literal["expired", "removed", "dropped"], reason: str = ""
    ) -> None:
        traffic = entry.topic.traffic
        if event == "removed":
            traffic.removed += 1
        elif event == "dropped":
            traffic.dropped += 1
        elif reason:  # the end of a timeout needs none
            traffic.unwanted += 1
        else:
            traffic.expired += 1
        self._state.out.append(Record(event, entry, final=True, reason=reason))
        if entry.flags & GROUPED:
            pass  # it is taken out when it is let go
        elif entry.flags & ONE:
            entry.topic.shared.forget()
        elif not has_timed_out(entry):  # else it waits nowhere since then
            self._wait_no_more(entry)
        self._state.let_go(entry)

    def _wait_no_more(self, entry: Entry) -> None:
        """Note that a copy of mode ALL is offered to none of those any more for whom it may wait."""
        for subscription in self._state.matching.waits_with(entry.topic):
            subscription.queue.forget()
            subscription.attempts.pop(entry.id, None)

    def end_anyhow(self, entry: Entry, reason: str) -> None:
        """End a copy that an error of ours met, so that it could not be ended as others are.

        Only as far as the store and the hop log have to know; nothing of one that had ended before.
        """
        state = self._state
        told = [
            decision for decision in state.out if isinstance(decision, OfEntry) and decision.entry is entry
        ]
        recorded = any(type(decision) is Record and decision.final for decision in told)
        if entry.flags & GONE and not recorded:
            return
        if not entry.flags & GONE:
            copy_events.taken_away(entry)
        if not recorded:
            state.out.append(Record("dropped", entry, final=True, reason=reason))
        if not any(type(decision) is DiscardMessage for decision in told):
            state.out.append(DiscardMessage(entry))
            if state.entries.pop(entry.id, None) is not None:
                entry.topic.messages -= 1
                entry.topic.bytes -= entry.size
                if entry.flags & GROUPED:
                    state.grouping.let_go(entry)
            state.recount(entry)


def has_failed(lock: Lock, outcome: ReturnOutcome) -> bool:
    """Whether a delivery that comes back counts as failed: not where it was released, or reached nobody."""
    return outcome not in ("released", "withheld") and not lock.is_untouched
