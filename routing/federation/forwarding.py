"""Where copies go. Mode ALL: to every peer beyond which somebody wants it, as far as its depth reaches.

For each Smuid a site remembers the greatest remaining depth it has seen (routing contract 4):

    unseen                 accept, deliver, send on with a depth less one to every peer not in Hops
    seen with less         send on again with the greater depth, deliver no second time
    seen with as much      a duplicate, dropped
    own name in Hops       a loop, dropped

A copy is held until its peers have it: each unanswered transfer counts in `Entry.due`, as a subscription
does.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from routing import copy_events
from routing.copy_states import has_timed_out, is_kept
from routing.decisions import Record
from routing.federation.interest import Interest
from routing.federation.peer import Peer
from routing.link.codec import are_destinations, in_parts
from routing.link.units import TransferOutcome
from routing.message import DeliveryMode
from routing.names import parse_address, parse_smuid
from routing.peering.copies import (
    FOREVER,
    Answered,
    Arrival,
    Copy,
    Forward,
    Seen,
    onward,
    wider,
    within,
)
from routing.peering.crossing import in_order
from routing.peering.decisions import AcknowledgeUnit, Send, StoreCopy, StoreSeen
from routing.peering.wants import Want
from routing.queue import GUARANTEED, ONE, STATED, own_id
from routing.state import SiteState
from routing.targets import Topic

SEEN_MAX: Final = 100_000
"""Smuids in memory; others are found on disk."""

MEMORY_AFTER_S: Final = 3600.0
"""How long a Smuid is remembered after its timeout: copies that were late on the way."""


class Forwarding:
    """Sends copies on, and knows which have arrived."""

    def __init__(
        self,
        state: SiteState,
        peers: dict[str, Peer],
        interest: Interest,
        recall: Callable[[str], Seen | None],
        puts_off: Callable[[Copy], bool],
    ) -> None:
        """`puts_off`: whether a copy goes when others of its topic have been looked at, see `turns`."""
        self._state = state
        self._interest = interest
        self._recall = recall
        self._puts_off = puts_off
        self._put_off: dict[str, set[int]] = {}  # by peer, ids of entries
        self.peers = peers
        self._crossing = state.crossing
        self.seen: dict[str, Seen] = {}

    # -- what is held -----------------------------------------------------------------------------

    def has_room(self, peer: str, topic: str, size: int) -> bool:
        """Whether a topic can take one more copy, of so many bytes, from a peer.

        Each peer has as much room as publishers have together, and only what came from itself fills it. Two
        sites that are full of messages for each other would else wait for each other until these expire.
        """
        settings = self._state.settings
        messages_max, bytes_max = settings.queue_messages_max, settings.queue_bytes_max
        messages, bytes = self._crossing.held_from(peer, topic, messages_max, bytes_max)
        return not messages or (messages < messages_max and bytes + size <= bytes_max)

    def would_hold(self, arrival: Arrival) -> bool:
        """Whether a copy takes room; what is here, or was, is only answered."""
        if arrival.mode == "ONE":
            return True
        return self._state.server not in arrival.hops and self.known(arrival.message.smuid) is None

    def remember(self, copy: Copy, now: float, hands: int | None = None, depth: int | None = None) -> None:
        """Note that the Smuid has been here, on disk, for as long as a copy can be on its way.

        `hands`: mode ONE: how many it has passed through; None for those before this site. `depth`: with
        which it goes wherever it is wanted; None for that of the copy.
        """
        deadline = copy.entry.deadline
        depth = copy.depth if depth is None else depth
        until = (now + FOREVER if deadline == math.inf else deadline) + MEMORY_AFTER_S
        seen = Seen(copy.entry.id, depth, len(copy.hops) if hands is None else hands, until)
        if (before := self.seen.get(copy.smuid)) is not None:
            seen.due, seen.have = before.due, before.have
        self._note(copy.smuid, seen)
        self._state.out.append(StoreSeen(copy.smuid, seen))

    def remember_handed(self, copy: Copy, now: float) -> None:
        """Note that a message of mode ONE has left in other hands; only through more may it come back.

        It may have come back before the acknowledgement of its leaving.
        """
        hands = len(copy.hops) + 1
        seen = self.known(copy.smuid)
        if seen is None or seen.custody < hands:
            self.remember(copy, now, hands)

    def note_handed(self, copy: Copy) -> None:
        """Remember as `remember_handed` does, in memory alone, for a message without a guarantee."""
        self._note(copy.smuid, Seen(copy.entry.id, copy.depth, len(copy.hops) + 1, 0.0))

    def note_counts(self, smuid: str, due: int, have: int) -> None:
        """Note, on disk, how many here were due to have a message, and how many do, as a receipt says."""
        if (seen := self.known(smuid)) is not None and (seen.due, seen.have) != (due, have):
            seen.due, seen.have = due, have
            self._state.out.append(StoreSeen(smuid, seen))

    def is_own_and_never_left(self, smuid: str) -> bool:
        """Mode ONE: whether a Smuid that is not remembered is of this site, and in nobody else's hands.

        Who brings it nonetheless has made it up, and with it the publisher.
        """
        server = self._state.server
        if not smuid.startswith(f"{server}/"):
            return False
        parts = parse_smuid(smuid)
        copy = self._crossing.by_id.get(own_id(parts))
        return copy is None or copy.smuid != smuid or not copy.custody_to

    def known(self, smuid: str) -> Seen | None:
        """What is remembered of a Smuid."""
        found = self.seen.get(smuid)
        if found is None:
            found = self._recall(smuid)
            if found is not None:
                self._note(smuid, found)
        return found

    def forget(self, smuid: str, before: Seen | None) -> None:
        """Undo `remember`, which could not be stored: known is `before`, or else what is on disk."""
        self.seen.pop(smuid, None)
        if before is not None:
            self._note(smuid, before)

    def _note(self, smuid: str, seen: Seen) -> None:
        self.seen[smuid] = seen
        if len(self.seen) > SEEN_MAX:
            del self.seen[next(iter(self.seen))]

    # -- to the peers -----------------------------------------------------------------------------

    def send_to_all(self, copy: Copy, *, counted: bool) -> list[int]:
        """Send a copy of mode ALL wherever it is wanted and has not gone so far.

        `counted`: peers that it goes to are asked for a receipt. Returns the question to each, 0 for none: a
        peer that is sent it twice at once has two.
        """
        return self.send_to(copy, self.peers, counted=counted)

    def send_to(self, copy: Copy, peers: Iterable[str], *, counted: bool) -> list[int]:
        """Send as `send_to_all` does, to these peers."""
        distances = self._interest.distances(want_of(copy.entry.topic, "ALL"))
        sent = (self._send(copy, self.peers[name], distances.get(name), counted=counted) for name in peers)
        return [query for query in sent if query is not None]

    def _send(self, copy: Copy, peer: Peer, distance: int | None, *, counted: bool) -> int | None:
        """Send a copy of mode ALL to a peer if it should go there; None if not, or if it is there.

        `distance`: links from it to the nearest site that wants it.
        """
        depth = self._depth_for(copy, peer, distance)
        if depth is None or has_timed_out(copy.entry):
            return None
        forward = copy.forwards.get(peer.name)
        if forward is None:
            forward = copy.forwards[peer.name] = Forward(depth)
        elif not wider(depth, forward.depth):
            return None
        forward.depth = depth
        return self._transfer(copy, peer.name, forward, depth, counted=counted)

    def send_for(self, copy: Copy, peer: str, destinations: Iterable[str], *, counted: bool) -> int:
        """Send a copy of mode ALL to a peer that is to see to these; `counted` as of `send_to_all`."""
        forward = copy.forwards.get(peer)
        if forward is None:
            forward = copy.forwards[peer] = Forward(0)
        depth = onward(copy.depth)
        assert depth is not None
        return self._transfer(copy, peer, forward, depth, tuple(destinations), counted=counted)

    def _depth_for(self, copy: Copy, peer: Peer, distance: int | None) -> int | None:
        """The depth with which a copy may go to a peer; None if it may not, or nobody there wants it."""
        depth = onward(copy.depth)
        if depth is None or peer.name in copy.hops:
            return None
        distance = 0 if peer.rules.flood else distance
        if distance is None or not within(distance, depth):
            return None
        return depth if peer.may_go(copy.entry.topic.name) else None

    def _transfer(
        self,
        copy: Copy,
        peer: str,
        forward: Forward,
        depth: int,
        destinations: tuple[str, ...] = (),
        *,
        counted: bool,
    ) -> int:
        entry = copy.entry
        kept_back = copy.kept_back.get(peer, [])
        joins = bool(kept_back)
        if counted:
            joins = self._joins(forward, kept_back, destinations)
            if joins:
                forward.asked_for = tuple(dict.fromkeys((*forward.asked_for, *destinations)))
            else:
                if forward.unacknowledged and forward.query:
                    left = tuple(site for site in forward.asked_for if site not in destinations)
                    forward.earlier_for.append(() if forward.is_wide else left or (peer,))
                    forward.earlier.append(forward.query)
                forward.query, forward.asked_for = self._state.next_query(peer), destinations
                forward.is_wide = not destinations
        elif not forward.unacknowledged:
            forward.query, forward.asked_for, forward.is_wide = 0, (), False
        query = forward.query if counted else 0
        if entry.flags & GUARANTEED:
            if not forward.unacknowledged:
                copy_events.sent(entry)
            forward.unacknowledged += not joins
            self._state.out.append(StoreCopy(entry.id))
            is_put_off = self._is_put_off(copy, peer)
            if is_put_off or not self.peers[peer].up:
                if not joins:
                    copy.kept_back[peer] = [*kept_back, query]
                return query
            forward.attempts += 1
        attempt = forward.attempts or 1
        self._state.out.append(Send(peer, copy, depth, query, attempt, (), destinations))
        return query

    def _joins(self, forward: Forward, kept_back: list[int], destinations: tuple[str, ...]) -> bool:
        """Whether a question to a peer can be one with the last, as neither has gone yet."""
        return (
            bool(kept_back)
            and kept_back[-1] == forward.query
            and forward.query in self._state.asked_of
            and forward.is_wide == (not destinations)
            and are_destinations((*forward.asked_for, *destinations))
        )

    def _is_put_off(self, copy: Copy, peer: str) -> bool:
        """Whether a copy goes to a peer only when it is its turn, as if the link came up then.

        One without a guarantee is not kept for that.
        """
        id, ids = copy.entry.id, self._put_off.get(peer, ())
        if id in ids:
            return True
        if not copy.entry.flags & GUARANTEED or not self.peers[peer].up or not self._puts_off(copy):
            return False
        self._put_off.setdefault(peer, set()).add(id)
        return True

    def go_on(self, copy: Copy) -> None:
        """Send a copy whose turn it is to those peers to which it was not to go before."""
        for peer in [peer for peer, ids in self._put_off.items() if copy.entry.id in ids]:
            self._put_off[peer].discard(copy.entry.id)
            if not self._put_off[peer]:
                del self._put_off[peer]
            if (forward := copy.unanswered(peer)) is not None:
                self._repeat(copy, peer, forward)

    def has_gone(self, copy: Copy, peer: str) -> tuple[bool, int]:
        """Whether a peer that has not answered may have a copy, and from which attempt, 0 if unknown.

        The last is not counted where there is a link, and it is its turn: whether it has gone the link knows.
        Of what was kept back before a start it is not known whether it went after that: it may have.
        """
        forward = copy.forwards[peer]
        if forward.unacknowledged <= len(copy.kept_back.get(peer, ())):
            return False, 0
        known = self.peers.get(peer)  # none yet at a start
        if known is None or not known.up or copy.entry.id in self._put_off.get(peer, ()):
            return True, forward.attempts
        earlier = forward.attempts - 1
        return earlier > 0, earlier

    def take_back(self, copy: Copy, peer: str) -> list[int]:
        """Take back transfers that have not gone to a peer.

        Returns the questions that they were to ask, 0 where one was to ask nothing; none where all have gone.
        """
        kept_back = copy.kept_back.pop(peer, [])
        if not kept_back:
            return []
        forward = copy.forwards[peer]
        queries = (*forward.earlier, forward.query)
        asked = dict(zip(queries, (*forward.earlier_for, forward.asked_for), strict=True))
        gone = [query for query in asked if query and query not in kept_back]
        forward.query = gone.pop() if gone else 0
        forward.asked_for = asked[forward.query] if forward.query else ()
        forward.is_wide = bool(forward.query) and not forward.asked_for
        forward.earlier, forward.earlier_for = gone, [asked[query] for query in gone]
        forward.unacknowledged -= len(kept_back)
        if not forward.unacknowledged:
            forward.settled = ()
            copy_events.taken_back(copy.entry)
            if not forward.attempts:
                del copy.forwards[peer]
        return kept_back

    def acknowledged(self, peer: str, entry_id: int, answered: Answered) -> Copy | None:
        """Take a peer's answer for a copy; returns it once nothing at that peer is outstanding."""
        copy = self._crossing.by_id.get(entry_id)
        forward = copy.unanswered(peer) if copy is not None else None
        if copy is None or forward is None:
            return None
        forward.unacknowledged -= 1
        if forward.unacknowledged:
            self._state.out.append(
                Record("forwarded", copy.entry, peer=peer, depth=copy.depth, answered=answered)
            )
            return None
        forward.earlier.clear()
        forward.earlier_for.clear()
        forward.settled = ()
        if copy.destinations:
            copy.is_stale = True  # as a rule it ends in a moment, see `destinations`
        else:
            self._state.out.append(StoreCopy(entry_id))
        return copy

    # -- repetition, and interest that comes later ------------------------------------------------

    def repeat(self, peer: str) -> None:
        """Send once more what a peer has not answered, each topic in its turn where it has one.

        What was asked of others, and the peer is the way to now, goes before what has come since.
        """
        held = self._crossing.by_id.values()
        for copy in in_order([copy for copy in held if copy.unanswered(peer) is not None]):
            if copy.entry.flags & ONE or not self._is_put_off(copy, peer):
                self._repeat(copy, peer, copy.forwards[peer])

    def link_down(self, peer: str) -> None:
        """Have what waited for its turn wait for the link."""
        self._put_off.pop(peer, None)

    def _repeat(self, copy: Copy, peer: str, forward: Forward) -> None:
        if has_timed_out(copy.entry):
            return  # whoever has received it here may finish it, and nobody else is to get it
        copy.kept_back.pop(peer, None)
        forward.attempts += 1
        self._state.out.append(StoreCopy(copy.entry.id))
        if copy.seen_to is None:
            forward.unacknowledged = 1
            earlier = tuple(forward.earlier)
            again = Send(peer, copy, forward.depth, forward.query, forward.attempts, earlier)
            self._state.out.append(again)
        else:
            self._repeat_for(copy, peer, forward)

    def _repeat_for(self, copy: Copy, peer: str, forward: Forward) -> None:
        """Each question once more, for what it was for: some may have come, and be answered for good.

        One that is answered is not asked again: a peer that has forgotten it would count for it whom it is
        asked for besides, and nobody would hear of that.
        """
        via = dict.fromkeys(copy.via(peer))
        again = list(zip(forward.earlier, forward.earlier_for, strict=True))
        if forward.query:
            again.append((forward.query, () if forward.is_wide else forward.asked_for or (*via,) or (peer,)))
        asked = {site for _, sites in again for site in sites}
        others = tuple(site for site in via if site not in asked)
        if others or not (again or forward.depth):
            again.append((0, others or (peer,)))
        if forward.depth and all(sites for _, sites in again):
            again.append((0, ()))
        forward.unacknowledged = 0
        for query, sites in again:
            # where others see to all by now, it is asked for its answer alone
            left = [site for site in sites if site in via or site in forward.settled] or [peer]
            for part in in_parts(left) if sites else [()]:
                depth = onward(copy.depth) or 0 if part else forward.depth
                asks = query if query in self._state.asked_of else 0
                self._state.out.append(Send(peer, copy, depth, asks, forward.attempts, (), part))
                forward.unacknowledged += 1

    def pull(self, peer: Peer, topic: str, is_seen_to: Callable[[Copy], bool] = lambda copy: False) -> bool:
        """Send what is alive to a peer beyond which a topic is wanted now, but for what is seen to else.

        A receipt does not count those who came later. Returns whether anything was seen to else.
        """
        is_passed_over = False
        for copy in list(self._crossing.by_topic.get(topic, {}).values()):
            if is_seen_to(copy):
                is_passed_over |= bool(copy.entry.flags & STATED)
                continue
            if is_kept(copy.entry):
                distance = self._interest.distance(peer.name, want_of(copy.entry.topic, "ALL"))
                self._send(copy, peer, distance, counted=False)
        return is_passed_over

    def answer(self, arrival: Arrival, outcome: TransferOutcome, reason: str = "", entry_id: int = 0) -> None:
        """Acknowledge an arrival, once what it brought is on disk, under that id if it is held."""
        if arrival.unit is not None:
            answer = AcknowledgeUnit(arrival.peer, arrival.unit, outcome, reason, entry_id, arrival)
            self._state.out.append(answer)


def want_of(topic: Topic, mode: DeliveryMode) -> Want:
    """What a peer must want, or be a way to, for messages of a topic to be of use there."""
    if topic.is_system:
        return ("SERVER", parse_address(topic.name).server)
    return (mode, topic.name)
