"""A copy comes from a peer: it is accepted, widens one that is here, or is turned away.

Mode ALL is decided by the greatest depth seen, see `routing.federation.forwarding`, or by the destinations
that a copy names, see `routing.federation.destinations`. Mode ONE is handed over:
what comes is accepted if it has passed through more hands than when it was here last, so that a handover
that is repeated is taken once, and one that comes back after others had it is taken again.
"""

from typing import Literal

import msgspec

from routing.copy_states import has_timed_out
from routing.decisions import Record, Refused
from routing.delivery import Deliveries
from routing.errors import Refusal
from routing.federation.destinations import Destinations
from routing.federation.forwarding import Forwarding
from routing.lifecycle import Lifecycle
from routing.names import is_system_topic, owner_of
from routing.peering.copies import Arrival, Copy, PeerRules, Seen, capped, wider
from routing.peering.decisions import StoreCopy
from routing.queue import GONE, ONE, PASSING, RECEIPT, Entry
from routing.receipt import Receipt
from routing.receipts import Receipts
from routing.rights import can_be_read
from routing.state import SiteState


def accepted_depth(topic: str, depth: int, rules: PeerRules) -> int:
    """The depth with which a copy is taken; replies and receipts go as far as whoever is due to have them."""
    return depth if is_system_topic(topic) else capped(depth, rules.depth_max)


class Arriving:
    """Takes copies from peers."""

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        forwarding: Forwarding,
        destinations: Destinations,
        deliveries: Deliveries,
        receipts: Receipts,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._forwarding = forwarding
        self._destinations = destinations
        self._deliveries = deliveries
        self._receipts = receipts

    def arrive(self, now: float, arrival: Arrival) -> None:
        """Take a copy that a peer has sent, or not; the peer is always answered."""
        self._decide(arrival, now)
        for query in arrival.earlier:
            self._answer_unless_engaged(arrival.peer, query)

    def not_held(self, entry: Entry, arrival: Arrival, before: Seen | None, now: float) -> None:
        """Undo the taking of a copy that could not be stored: it has never come, and is to come again.

        `before`: what was known of its Smuid, where that is not on disk. What was decided of it is undone by
        whoever carries decisions out.
        """
        self._receipts.withdraw(entry)
        self._forwarding.forget(arrival.message.smuid, before)
        if not entry.flags & GONE:
            self._deliveries.drop(entry, now, "store failed")

    def _decide(self, arrival: Arrival, now: float) -> None:
        forwarding, state = self._forwarding, self._state
        peer = forwarding.peers.get(arrival.peer)
        if peer is None or not peer.may_come(arrival.topic):
            self._turn_away(arrival, "denied", "topic")
            return
        if arrival.message.smuid in state.removed:
            self._turn_away(arrival, "duplicate", "removed")
            return
        if not peer.knows_destinations:
            arrival.destinations = ()
        arrival.depth = accepted_depth(arrival.topic, arrival.depth, peer.rules)
        seen = forwarding.known(arrival.message.smuid)
        held = state.crossing.by_id.get(seen.entry_id) if seen is not None else None
        if held is not None and bool(held.entry.flags & ONE) != (arrival.mode == "ONE"):
            self._turn_away(arrival, "denied", "this site has it in another mode")
        elif arrival.mode == "ONE":
            if seen is None and forwarding.is_own_and_never_left(arrival.message.smuid):
                self._turn_away(arrival, "denied", "it is of this site, which has handed it to nobody")
            elif seen is not None and len(arrival.hops) <= seen.custody:
                self._turn_away(arrival, "duplicate")
            elif reason := self._why_not(arrival):
                self._turn_away(arrival, "denied", reason)
            else:
                self._accept_one(arrival, now)
        elif seen is None:
            if state.server in arrival.hops:
                self._come_back(arrival)
            elif reason := self._why_not(arrival):
                self._turn_away(arrival, "denied", reason)
            else:
                self._accept_all(arrival, now)
        else:
            self._arrive_again(arrival, seen, now)

    def _arrive_again(self, arrival: Arrival, seen: Seen, now: float) -> None:
        """The same message of mode ALL: by another way, for others, or to be counted only now."""
        receipts, smuid, claimed = self._receipts, arrival.message.smuid, None
        if self._asks_anew(arrival):
            claimed = receipts.claim(smuid, arrival.peer, arrival.query)
        is_back = self._state.server in arrival.hops
        if arrival.destinations and (arrival.message.guarantee or not is_back):
            self._see_to_more(arrival, seen, claimed, now)
        elif is_back:
            self._turn_away(arrival, "loop")
        elif wider(arrival.depth, seen.depth):
            self._widen(arrival, seen, claimed, now)
        else:
            self._turn_away(arrival, "duplicate")
        if claimed is not None:
            receipts.look(claimed.entry, now)

    def _why_not(self, arrival: Arrival) -> str:
        """Why a message for one account is not taken; "" where it is, and for any other.

        The peer keeps it, and offers it again now and then: an account that was disabled may be enabled, and
        what waits may be read. It does not wait here for that, as copies to full topics do: these take up the
        link's window, and everyone may write to any account.
        """
        state, topic = self._state, arrival.topic
        owner = owner_of(topic, state.server)
        if owner is None:
            return ""
        if not can_be_read(owner, state.server, state.has_account):
            return "no account that can log in could read it"
        if not is_system_topic(topic):
            return "dead letters are the server's own"
        settings, message = state.settings, arrival.message
        try:
            state.system_topics.check(
                message.account,
                [(topic, message.size_bytes, False)],  # receipts are for who published it
                settings.system_messages_max,
                settings.system_bytes_max,
            )
        except Refusal as refusal:
            return refusal.text
        return ""

    def _turn_away(
        self, arrival: Arrival, outcome: Literal["denied", "duplicate", "loop"], reason: str = ""
    ) -> None:
        message = arrival.message
        self._state.out.append(
            Refused(
                outcome,
                arrival.topic,
                message.account,
                reason,
                message.size_bytes,
                message.smuid,
                arrival.peer,
                arrival.depth,
                arrival.hops,
                arrival.attempt,
                arrival.mode,
                message.priority,
                message.guarantee,
            )
        )
        self._forwarding.answer(arrival, outcome, reason)
        if arrival.query:
            self._answer_unless_engaged(arrival.peer, arrival.query)

    def _answer_unless_engaged(self, peer: str, query: int) -> None:
        """Answer that nobody has it for the sake of this question, unless it is being answered already."""
        if not self._receipts.engaged(peer, query):
            self._receipts.answer(peer, query, 0, 0)

    def _hold(
        self,
        arrival: Arrival,
        now: float,
        due: int,
        event: Literal["received", "depth"],
        seen_depth: int | None = None,
    ) -> Copy:
        """Begin to hold a copy: one that was never here, or one that was and goes on.

        `seen_depth`: see `Seen.depth`; None for that of the copy.
        """
        state, hops = self._state, self._hops_of(arrival)
        is_unasked = self._is_unasked(arrival, due)
        message = msgspec.structs.replace(arrival.message, depth=arrival.depth, hops=hops)
        topic = state.topic(arrival.topic)
        entry = self._lifecycle.begin(
            state.next_id(),
            message.smuid,
            topic,
            message,
            message.account,
            arrival.mode,
            arrival.timeout_left_s,
            due,
            now,
            owes_receipt=is_unasked or (bool(arrival.query) and message.receipt != "NONE"),
        )
        copy = Copy(entry, message.smuid, arrival.depth, hops, arrival.peer, {})
        # a receipt does not count those who are sent a message because they came later
        uncounted = None if is_unasked else 0
        counted = due if arrival.query or message.receipt == "NONE" else uncounted
        state.out.append(
            Record(
                event,
                entry,
                account=message.account,
                peer=arrival.peer,
                depth=arrival.depth,
                hops=arrival.hops,
                attempt=arrival.attempt,
                due=counted if event == "received" else None,
            )
        )
        self._state.crossing.begin(copy)
        self._forwarding.remember(copy, now, depth=seen_depth)
        state.keep(entry, message, due, now)
        return copy

    def _hops_of(self, arrival: Arrival) -> tuple[str, ...]:
        """The servers that a copy came through: one that came back goes on as if it had come no further."""
        server, hops = self._state.server, arrival.hops
        return hops[: hops.index(server)] if arrival.mode == "ALL" and server in hops else hops

    def _is_unasked(self, arrival: Arrival, due: int) -> bool:
        """Whether one that does not ask who has it has overtaken, for all that is known, one that does."""
        is_asked = bool(arrival.query) or arrival.message.receipt == "NONE"
        return bool(due) and not is_asked and arrival.mode == "ALL" and self._destinations.is_on

    def _accept_one(self, arrival: Arrival, now: float) -> None:
        copy = self._hold(arrival, now, 1, "received")
        if copy.entry.flags & RECEIPT:
            self._owe(arrival, copy, 1, [], now)
        self._forwarding.answer(arrival, "accepted", entry_id=copy.entry.id)
        self._deliveries.offer_to_one(copy.entry, now)

    def _accept_all(self, arrival: Arrival, now: float) -> None:
        state = self._state
        topic = state.topic(arrival.topic)
        due = state.matching.taking(topic, "ALL")
        sites, counted = arrival.destinations, bool(arrival.query)
        copy = self._hold(arrival, now, len(due), "received", 0 if sites else None)
        entry = copy.entry
        if sites:
            sent = self._destinations.take_on(copy, arrival.peer, sites, counted=counted)
            sent += self._destinations.send_to_late(copy, counted=counted)
        else:
            sent = self._forwarding.send_to_all(copy, counted=counted)
        if copy.entry.flags & RECEIPT:
            self._owe(arrival, copy, len(due), sent, now)
        self._forwarding.answer(arrival, "accepted", entry_id=entry.id)
        if not self._lifecycle.end_if_due_to_nobody(entry, "due to nobody"):
            self._deliveries.offer_to_all(entry, due, now)

    def _owe(self, arrival: Arrival, copy: Copy, due: int, sent: list[int], now: float) -> None:
        message = arrival.message
        assert message.receipt != "NONE"
        receipt = Receipt(copy.entry, message.receipt, message.account, message.cmuid, due, 0, due)
        receipt.parent, receipt.query = arrival.peer, arrival.query
        receipt.children = dict.fromkeys(sent, (0, 0)) if arrival.query else {}
        receipt.waiting = set(receipt.children)
        self._receipts.add(receipt, now)

    def _widen(self, arrival: Arrival, seen: Seen, claimed: Receipt | None, now: float) -> None:
        """The same message, by a way that lets it go further: on with it, to nobody here a second time."""
        forwarding, state = self._forwarding, self._state
        copy = state.crossing.by_id.get(seen.entry_id)
        if copy is None:
            # what was here has ended; what is sent on now is held until the peers have it
            copy = self._hold(arrival, now, 0, "depth")
            copy.entry.flags |= PASSING
        else:
            self._go_on(arrival, copy)
            forwarding.remember(copy, now)
        pending = self._pending(copy, claimed, now)
        counted = claimed is not None or self._asks_anew(arrival)
        sent = forwarding.send_to_all(copy, counted=counted)
        if counted:
            self._count_wider(arrival, copy, pending, sent, now)
        elif arrival.query:
            self._answer_unless_engaged(arrival.peer, arrival.query)
        forwarding.answer(arrival, "depth", entry_id=copy.entry.id)
        self._lifecycle.end_if_due_to_nobody(copy.entry, "due to nobody")

    def _pending(self, copy: Copy, claimed: Receipt | None, now: float) -> Receipt | None:
        """The receipt that what is sent on now counts for, where there is one."""
        if claimed is not None and claimed.entry is not copy.entry:
            self._receipts.move(claimed, copy.entry, now)
        return self._receipts.pending(copy.entry)

    def _go_on(self, arrival: Arrival, copy: Copy) -> None:
        """A copy that is held goes on, as far as this arrival may."""
        if wider(arrival.depth, copy.depth):
            copy.depth, copy.hops = arrival.depth, self._hops_of(arrival)
            copy.sent_to.clear()
        elif not set(copy.hops).isdisjoint(arrival.destinations):
            # it is asked for where the one that came first claims to have been
            copy.hops = self._hops_of(arrival)
        self._state.out.append(StoreCopy(copy.entry.id))
        self._state.out.append(
            Record(
                "depth",
                copy.entry,
                peer=arrival.peer,
                depth=arrival.depth,
                hops=arrival.hops,
                attempt=arrival.attempt,
            )
        )

    def _come_back(self, arrival: Arrival) -> None:
        """A loop, but where there is no other way to what this site is asked to see to."""
        if not arrival.destinations:
            self._turn_away(arrival, "loop")
        else:
            self._destinations.see_to_own(arrival.message.smuid, arrival.peer, arrival.destinations)
            self._turn_away(arrival, "duplicate")

    def _see_to_more(self, arrival: Arrival, seen: Seen, claimed: Receipt | None, now: float) -> None:
        """The same message, for other destinations: on with it, to nobody here a second time."""
        state, server = self._state, self._state.server
        copy = state.crossing.by_id.get(seen.entry_id)
        asked = [site for site in arrival.destinations if site != server]
        smuid, is_new = arrival.message.smuid, claimed is not None or self._asks_anew(arrival)
        if copy is None and self._destinations.is_seen_through(smuid, arrival.peer, asked, counted=is_new):
            self._turn_away(arrival, "duplicate")
            return
        known = copy.destinations.keys() | (copy.seen_to or set()) if copy is not None else set()
        if copy is not None and is_new:
            known -= copy.uncounted
        is_over = copy is not None and has_timed_out(copy.entry)
        goes_further = copy is not None and bool(copy.destinations) and wider(arrival.depth, copy.depth)
        if is_over or not (goes_further or {*asked} - known):
            if copy is not None and not is_over:
                self._destinations.take_on(copy, arrival.peer, arrival.destinations, counted=False)
            self._turn_away(arrival, "duplicate")
            return
        if copy is None:
            copy = self._hold(arrival, now, 0, "depth", seen.depth)
            copy.entry.flags |= PASSING
        else:
            self._go_on(arrival, copy)
        pending = self._pending(copy, claimed, now)
        sent = self._destinations.take_on(copy, arrival.peer, arrival.destinations, counted=is_new)
        if goes_further:
            self._destinations.widened(copy)
        if is_new and (pending is not None or sent or copy.destinations):
            self._count_wider(arrival, copy, pending, sent, now)
        elif arrival.query:
            self._answer_unless_engaged(arrival.peer, arrival.query)
        self._forwarding.answer(arrival, "depth", entry_id=copy.entry.id)
        self._lifecycle.end_if_due_to_nobody(copy.entry, "due to nobody")

    def _asks_anew(self, arrival: Arrival) -> bool:
        """Whether an arrival asks for a receipt, and has not asked the same before: what came then may have
        ended here, while others still have to answer.
        """
        return bool(arrival.query) and not self._receipts.is_known(arrival.peer, arrival.query)

    def _count_wider(
        self, arrival: Arrival, copy: Copy, pending: Receipt | None, sent: list[int], now: float
    ) -> None:
        """Dijkstra and Scholten: a pending receipt takes the new questions on; else they begin anew."""
        if pending is not None:
            self._receipts.ask(pending, sent)
            self._answer_unless_engaged(arrival.peer, arrival.query)
        else:
            copy.entry.flags |= RECEIPT
            self._owe(arrival, copy, 0, sent, now)
