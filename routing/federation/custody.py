"""Mode ONE across sites: one custodian at every moment.

The custodian gives the message to a subscription of its own that has credit; else it hands it to the nearest
peer beyond which somebody takes messages of mode ONE, first of all somebody who is attached (`ways_of_one`),
and forgets it only when that peer has it on disk; else it keeps it until somebody comes. While a handover is
unanswered the message is offered to nobody: it may be the peer's already, and only the peer can say.

A site that nobody could take it at hands it also to a peer that had it before; one with subscriptions that
are merely busy does not, or two busy sites would pass it to and fro. One to whose subscriptions nobody is
attached does so for who is attached elsewhere, and for nobody else, or two such would. Nor does one that took
it until now, or where somebody was attached, while its news still says so: another such would send it here
again. Nor does it go back to a peer that has not told yet, on a link that has come up, what it wants now.
Where it has come back before the peer has answered that is to have it again, it waits for the answer: before
that the peer tells what it wants by then.

Where the next site on the way is down, the message waits for it, unless it can go round by a site that has
not had it. A way back is taken only if it is the nearest of all, up or down: what is told of interest stays
true while a link is down, so the site that it came from would send it here again, and so on for ever. By news
a way over a link that is down is none once this site has said so, and the message goes back to where another
begins. If every way that is up leads back, it takes the one that it has taken least often: so it gets out
of a circle of sites that do not know the same, as one of them refuses news, or is of an earlier version.
Where none of them knows a way it would wander among them as long as that is so. So from a site it goes back
`CROSSINGS_MAX` times at once, if it has come through fewer than `HOPS_AT_ONCE_MAX` in all; and then once
something has changed that it goes by, or after a wait that doubles each time.

A peer that would not have a message may have it later: it had no room, or its rules or accounts have changed.
So of each topic one is offered to it again now and then, and two more for each that it takes: a peer with
room soon has them all, and one without is asked for little.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Final

from routing.decisions import Record
from routing.delivery import Deliveries
from routing.federation.forwarding import Forwarding, want_of
from routing.federation.interest import Interest
from routing.federation.peer import Peer
from routing.federation.ways_of_one import Prospect, WaysOfOne
from routing.lifecycle import Lifecycle
from routing.link.codec import are_hops
from routing.names import parse_address
from routing.peering.copies import Answered, Copy, Forward, onward, within
from routing.peering.decisions import Send, StoreCopy
from routing.queue import GONE, GROUPED, GUARANTEED, RECEIPT, Entry
from routing.receipts import Receipts
from routing.state import SiteState
from routing.targets import Topic

CROSSINGS_MAX: Final = 16
"""Times that a message goes over one link at once: who may take it comes and goes, but seldom so often."""

HOPS_AT_ONCE_MAX: Final = 500
"""Sites that a message comes through at once; more than `HOPS_MAX` could be told to no peer."""

WAIT_MINUTES_MAX: Final = 1_440
"""For which it rests, at most, before it goes on though nothing has changed."""


class Custody:
    """Hands messages of mode ONE over.

    Attributes:
        waiting: topics of which some wait here, or did a while ago, and what decided then that they wait;
            None where that was not the same for all.
    """

    def __init__(
        self,
        state: SiteState,
        lifecycle: Lifecycle,
        forwarding: Forwarding,
        deliveries: Deliveries,
        receipts: Receipts,
        interest: Interest,
        ways: WaysOfOne,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._forwarding = forwarding
        self._deliveries = deliveries
        self._interest = interest
        self._ways = ways
        self.waiting: dict[str, Prospect | None] = {}
        self._denied: dict[tuple[str, str], dict[int, Copy]] = {}  # by peer and topic; some have ended since
        # by topic, and entry; has been everywhere too often, and the minute in which it goes on; likewise
        self._wandering: dict[str, dict[int, int]] = {}
        self._awaiting: dict[int, None] = {}  # ids of entries that wait for an answer; likewise
        self._minute = 0

    def hand_over(self, entry: Entry, *, again: bool = False) -> bool:
        """Hand a message that nobody here can take now to a peer; False where it has to wait here.

        `again`: it may go to each peer at once, however often it has.
        """
        copy = self._state.crossing.by_id.get(entry.id)
        if copy is None or copy.custody_to:
            return False
        if entry.flags & GROUPED and not self._state.grouping.may_leave(entry):
            return False
        depth = onward(copy.depth)
        prospect = self.prospect(entry.topic)
        peer = self._nearest(copy, depth, prospect.within(depth), again=again)
        if depth is None or peer is None:
            topic = entry.topic.name
            is_same = self.waiting.get(topic, prospect) == prospect
            self.waiting[topic] = prospect if is_same else None
            return False
        if not entry.flags & GUARANTEED:
            self._state.out.append(Send(peer.name, copy, depth, 0))
            crossing = self._crossing(copy, peer.name)
            sent = Record(
                "forwarded", entry, peer=peer.name, depth=depth, attempt=1, crossing=crossing, final=True
            )
            self._forwarding.note_handed(copy)
            self._lifecycle.handed_over(sent)
            return True
        self._state.crossing.leave(copy, peer.name)
        query = self._state.next_query(peer.name) if entry.flags & RECEIPT else 0
        self._receipts.handing(entry, query)
        copy.forwards[peer.name] = Forward(depth, query, unacknowledged=1, attempts=1)
        self._state.out.append(StoreCopy(entry.id))
        self._state.out.append(Send(peer.name, copy, depth, query))
        return True

    def _nearest(
        self, copy: Copy, depth: int | None, distances: Mapping[str, int], *, again: bool
    ) -> Peer | None:
        if depth is None or not are_hops((*copy.hops, self._state.server)):
            return None
        topic = copy.entry.topic
        keeps: bool | None = None
        found: list[tuple[bool, int, bool, bool, str]] = []  # what is new and up comes first
        for name, distance in distances.items():
            peer = self._forwarding.peers.get(name)
            if peer is None or not peer.may_go(topic.name) or not within(distance, depth):
                continue
            if name in copy.denied_by:
                continue
            had_it = name in copy.hops
            if had_it and keeps is None:
                keeps = self._ways.keeps(topic)
            if had_it and keeps:
                continue
            if had_it and not again and (wait := self._wait(copy, name)):
                wanders = self._wandering.setdefault(topic.name, {})
                goes_on = self._minute + wait
                wanders[copy.entry.id] = min(goes_on, wanders.get(copy.entry.id, goes_on))
                continue
            found.append((had_it or not peer.up, distance, not peer.up, had_it, name))
        if not found:
            return None
        _, _, is_down, had_it, name = min(found)
        if had_it and not is_down:
            # sites that do not know the same may each take the other for the nearest
            up = [
                (self._crossing(copy, name), distance, name)
                for _, distance, down, _, name in found
                if not down
            ]
            name = min(up)[-1]
        nearest = self._forwarding.peers[name]
        may_go = nearest.up and (nearest.has_told or nearest.name not in copy.hops)
        if may_go and self._state.crossing.is_leaving_to(copy.smuid, nearest.name):
            self._awaiting[copy.entry.id] = None
            return None
        return nearest if may_go else None

    def _wait(self, copy: Copy, peer: str) -> int:
        """Minutes before a copy may go again to a peer that has had it, though nothing changes."""
        if len(copy.hops) >= HOPS_AT_ONCE_MAX:
            return WAIT_MINUTES_MAX
        more = self._crossing(copy, peer) - CROSSINGS_MAX
        return min(2 ** (more - 1), WAIT_MINUTES_MAX) if more > 0 else 0

    def prospect(self, topic: Topic) -> Prospect:
        """Where messages of a topic may go now, or to the site of its account."""
        if topic.is_system:
            distances = self._interest.distances(want_of(topic, "ONE"))
            return Prospect(distances, distances)
        return self._ways.prospect(topic)

    def acknowledged(self, copy: Copy, peer: str, answered: Answered, now: float) -> None:
        """Take a peer's answer to a handover: end the copy, which is the peer's now, or offer it again."""
        entry = copy.entry
        if copy.custody_to != peer or entry.flags & GONE:
            return
        self._state.crossing.stay(copy)
        handed = answered.outcome in ("accepted", "duplicate")
        crossing = self._crossing(copy, peer)
        record = Record(
            "forwarded",
            entry,
            peer=peer,
            depth=copy.depth,
            crossing=crossing,
            final=handed,
            answered=answered,
        )
        if handed:
            self._forwarding.remember_handed(copy, now)
            self._lifecycle.handed_over(record)
            self._offer_denied(peer, entry.topic.name, 2)
        else:
            self._state.out.append(record)
            self._receipts.kept(entry, copy.forwards.pop(peer).query)
            copy.denied_by.add(peer)
            self._denied.setdefault((peer, entry.topic.name), {})[entry.id] = copy
            self._deliveries.offer_to_one(entry, now)
        self._offer_come_back(copy)

    def _offer_come_back(self, copy: Copy) -> None:
        """Hand over the message, which has come back meanwhile, if it waits for the answer that has come."""
        seen = self._forwarding.known(copy.smuid) if self._awaiting else None
        if seen is not None and seen.entry_id in self._awaiting:
            self._offer_awaited(seen.entry_id)

    def _offer_awaited(self, id: int) -> None:
        self._awaiting.pop(id, None)
        copy = self._state.crossing.by_id.get(id)
        if copy is not None:
            self._hand_over_waiting(copy.entry)

    def _hand_over_waiting(self, entry: Entry) -> None:
        if entry in entry.topic.shared and self.hand_over(entry):
            entry.topic.shared.take(entry)

    def _crossing(self, copy: Copy, peer: str) -> int:
        """How often the copy will have been handed from here to a peer, with this time."""
        here = self._state.server
        if here not in copy.hops:
            return 1
        way = (*copy.hops, here, peer)
        return sum(step == (here, peer) for step in pairwise(way))

    def offer_denied(self) -> None:
        """Offer peers again what they would not have, have had so often, or were to answer for before.

        Called each minute or so.
        """
        self._minute += 1
        self._offer_awaiting()
        for topic in list(self._wandering):
            try:
                self._offer_wandering(topic)
            except Exception as error:  # as below
                self._state.mishap("what has gone to a peer too often", error)
        for peer, topic in list(self._denied):
            try:
                self._offer_denied(peer, topic, 1)
            except Exception as error:  # what it met is waiting here, and is offered no more
                self._state.mishap("what a peer would not have", error)

    def _offer_awaiting(self) -> None:
        """Look again at what waits for an answer: none comes for a copy that has ended meanwhile."""
        for id in list(self._awaiting):
            try:
                self._offer_awaited(id)
            except Exception as error:  # as above
                self._state.mishap("what waits for a peer's answer", error)

    def _offer_denied(self, peer: str, topic: str, count: int) -> None:
        denied = self._denied.get((peer, topic), {})
        while denied and count:
            copy = denied.pop(next(iter(denied)))
            entry = copy.entry
            if peer in copy.denied_by and not entry.flags & GONE:
                count -= 1
                copy.denied_by.discard(peer)
                self._hand_over_waiting(entry)
        if not denied:
            self._denied.pop((peer, topic), None)

    def _offer_wandering(self, topic: str) -> None:
        found, wanders = self._state.topics.get(topic), self._wandering[topic]
        waiting = {entry.id: entry for entry in found.shared} if found is not None else {}
        for id, goes_on in list(wanders.items()):
            entry = waiting.get(id)
            if entry is not None and self._minute < goes_on:
                continue
            del wanders[id]
            if entry is not None and self.hand_over(entry, again=True):
                entry.topic.shared.take(entry)
        if not wanders:
            del self._wandering[topic]

    def forget_denied(self, peer: str) -> None:
        """Offer a peer everything again: its link is up anew, and its rules may be others."""
        for key in [key for key in self._denied if key[0] == peer]:
            for copy in self._denied.pop(key).values():
                copy.denied_by.discard(peer)

    def pull(self, topic: str) -> None:
        """Hand over what waits here for a topic that somebody elsewhere takes now: something has changed."""
        found = self._state.topics.get(topic)
        first = found.shared.peek() if found is not None else None
        if found is None or first is None:
            self.waiting.pop(topic, None)
            return
        prospect = self.waiting[topic] = self.prospect(found)
        if not prospect.distances:
            return
        for entry in list(found.shared):
            # whoever could take it here would have it
            if self.hand_over(entry, again=True):
                found.shared.take(entry)

    def pull_left(self) -> None:
        """Hand over what was kept for those who have left."""
        left = self._state.grouping.left
        while left:
            topic = self._state.topics.get(left.pop())
            if topic is not None and not self._state.grouping.is_attended(topic):
                self.pull(topic.name)

    def reached(self, server: str) -> None:
        """Hand over what waits here for the accounts of a server that can be reached now."""
        for name in self.accounts_of((server,)):
            self.pull(name)

    def accounts_of(self, servers: Collection[str]) -> list[str]:
        """The topics of accounts of these servers that messages are held for."""
        found = []
        for name in self._state.crossing.by_topic:
            topic = self._state.topics.get(name)
            if topic is not None and topic.is_system and parse_address(name).server in servers:
                found.append(name)
        return found
