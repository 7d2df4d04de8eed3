"""What is made of destinations when links and wants change: those whose way is broken are given to others.

Of a link all copies are looked at that are not with all who want them, of a want those of its topics, and
each minute all, see `turns`. So many at a time: the site goes on with everything else in between.
"""

import math
from collections import deque
from typing import Final

from routing.copy_states import is_kept, is_on_offer
from routing.federation.assigning import Assigning
from routing.federation.destinations import Destinations
from routing.federation.forwarding import Forwarding
from routing.federation.itineraries import Itineraries, Itinerary
from routing.federation.peer import Peer
from routing.federation.topology import Topology
from routing.federation.turns import Turns
from routing.federation.wants_by_name import Touched
from routing.lifecycle import Lifecycle
from routing.patterns import is_pattern
from routing.peering.copies import UNKNOWN, Copy
from routing.queue import STATED, Entry
from routing.receipts import Receipts
from routing.state import SiteState

AT_ONCE: Final = 1_000
"""Copies that are looked at while everything else waits."""

DOUBLED_MAX: Final = 6
"""How often the time is doubled after which a peer is asked again that would not see to a destination."""

WAITED_MAX: Final = 3
"""Minutes for which a peer whose link is up may leave a copy unanswered, until another is asked, too."""

_NOBODY: Final = frozenset[str]()


class Rerouting:
    """Part of `Federation`."""

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        lifecycle: Lifecycle,
        receipts: Receipts,
        topology: Topology,
        itineraries: Itineraries,
        destinations: Destinations,
        assigning: Assigning,
        turns: Turns,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._topology = topology
        self._itineraries = itineraries
        self._destinations = destinations
        self._assigning = assigning
        self._turns = turns
        self._minutes = 0
        self._is_due = False
        self._come_up: dict[str, deque[Copy]] = {}  # peers, and what is to be compared
        topology.listeners.append(self._wants_changed)
        self._unwanted: list[Entry] = []  # copies whose receipts may be known since

    def link_up(self, peer: str) -> None:
        """Ask a peer whose link is up what it still sees to of what it has acknowledged."""
        self._come_up[peer] = deque(self._state.crossing.destined.values())

    def _compare(self) -> None:
        """So do some of the copies that were held when links came up."""
        left = AT_ONCE
        for name, copies in list(self._come_up.items()):
            peer = self._forwarding.peers.get(name)
            while copies and left and peer is not None and peer.up:
                left -= 1
                copy = copies.popleft()
                if copy.destinations and is_on_offer(copy.entry):
                    self._compare_with(peer, copy)
            if left:
                del self._come_up[name]

    def _compare_with(self, peer: Peer, copy: Copy) -> None:
        is_answered = copy.unanswered(peer.name) is None
        is_free = False
        for open in copy.destinations.values():
            if peer.name in open.refused:
                open.refused = tuple(other for other in open.refused if other != peer.name)
                is_free = True
            if open.via == peer.name and is_answered and not peer.knows_destinations:
                open.via = ""  # one of an earlier version tells of none: it is sent it once more
                is_free = True
        if is_answered and peer.knows_destinations:
            self._destinations.compare(peer.name, copy)
        if is_free:
            self._turns.changed((copy.entry.topic.name,))

    def peer_removed(self, peer: str) -> None:
        """Let others see to what a peer saw to that is none any more, and tell it nothing."""
        self._topology.links_changed()
        for copy in list(self._state.crossing.destined.values()):
            for open in copy.destinations.values():
                open.asked_by = tuple(other for other in open.asked_by if other != peer)
            self._assigning.give(copy, copy.via(peer))

    def minute(self) -> None:
        """Look for ways again where there was none; called each minute."""
        self._minutes += 1
        self._turns.minute()
        self._itineraries.minute()
        for name, topic in self._itineraries.passed_over():
            if (peer := self._forwarding.peers.get(name)) is not None:
                # those that could be known then, and cannot now
                self._forwarding.pull(peer, topic, self._destinations.are_known)

    def _wants_changed(self, touched: Touched) -> None:
        crossing, topics = self._state.crossing, list[str]()
        for name in touched.names if crossing.destined else ():
            if is_pattern(name):
                topics += crossing.topics.under(name)
            elif name in crossing.by_topic:
                topics.append(name)
        self._turns.changed(topics)

    def reconsider(self) -> None:
        """See that all destinations are on their way, as links or wants may have changed."""
        turns = self._turns
        if not (turns or self._unwanted or self._come_up):
            return
        if self._come_up:
            self._compare()
        for _ in range(AT_ONCE):
            if (copy := turns.next()) is None:
                break
            self._forwarding.go_on(copy)
            goes_to_late = copy.seen_to is not None and is_kept(copy.entry)
            if (copy.destinations or goes_to_late) and is_on_offer(copy.entry):
                self._reconsider(copy)
        turns.end()
        self._is_due = bool(turns or self._unwanted or self._come_up)
        if self._is_due:
            self._state.wake_at = 0.0

    @property
    def due_at(self) -> float:
        """Site time at which there is more to be done; `inf` for none."""
        return 0.0 if self._is_due else math.inf

    def tick(self, now: float) -> None:
        """Tell the receipts that are known since nobody sees to a destination any more."""
        self._is_due = False  # until decisions are taken again, which they are not while the store fails
        unwanted, self._unwanted = self._unwanted, []
        for entry in unwanted:
            self._receipts.look(entry, now)

    def _reconsider(self, copy: Copy) -> None:
        entry, destinations = copy.entry, self._destinations
        itinerary = self._itineraries.find(entry.topic.name, copy.depth)
        if UNKNOWN in copy.destinations:
            if self._forwarding.peers:
                destinations.find_anew(copy, None if itinerary is None else itinerary.destinations)
                self._lifecycle.unwanted(entry, (UNKNOWN,))
            return
        if itinerary is not None and entry.flags & STATED and (late := self._late(copy, itinerary)):
            destinations.see_to_late(copy, late)
        if gone := self._gone(copy, itinerary):
            destinations.forget(copy, gone)
            self._lifecycle.unwanted(entry, tuple(gone))
            self._unwanted.append(entry)
        if self._turns.is_minutely:
            self._allow_again(copy)
            self._give_up_waiting(copy)
            if copy.is_stale:
                self._assigning.keep(copy)
        if copy.destinations and (astray := self._assigning.astray(copy)):
            tells = self._turns.take_joined(copy) or self._turns.is_minutely
            self._assigning.assign_again(copy, astray, tells=tells)
        destinations.lead(copy)

    def _gone(self, copy: Copy, itinerary: Itinerary | None) -> list[str]:
        """Destinations that do not want it any more, are nobody's peer, or have not been heard of for long.

        Of the former nothing is known where destinations cannot be, nor of those whose news is not attested.
        Where it began, late subscribers besides, to whom no links lead that may carry it, up or down: they
        were seen to when that was not known. Should there be some, they are so again.
        """
        is_linked, is_doubted = self._topology.is_ever_linked, self._topology.is_doubted
        wanting = None if itinerary is None else itinerary.wanting
        is_minutely = self._turns.is_minutely
        reached = itinerary.destinations if itinerary is not None and is_minutely and not copy.hops else None
        return [
            site
            for site, open in copy.destinations.items()
            if (is_minutely or (wanting is not None and not open.asked_by))
            and (
                (wanting is not None and site not in wanting)
                or (reached is not None and open.is_late and site not in reached)
                or not is_linked(site)
            )
            and not is_doubted(site)
        ]

    def _allow_again(self, copy: Copy) -> None:
        for open in copy.destinations.values():
            if open.refused and self._minutes % (1 << min(open.refusals, DOUBLED_MAX)) == 0:
                open.refused = ()

    def _give_up_waiting(self, copy: Copy) -> None:
        """Let peers that have no room for a copy, or no disk, be no way for now."""
        for open in copy.destinations.values():
            peer = self._forwarding.peers.get(open.via)
            if peer is None or not peer.up or copy.unanswered(open.via) is None:
                open.waited = 0
                continue
            open.waited += 1
            if open.waited == WAITED_MAX:
                open.refused += (open.via,)
                open.refusals += 1
                open.via, open.waited = "", 0

    def _late(self, copy: Copy, itinerary: Itinerary) -> list[str]:
        """The sites that want it now and did not, as far as they are for this site to see to.

        Where it did not begin, all that have wanted it for more than a minute or two are for others. While
        the site where it began can be reached, it may have it no more: who wants it has it, within a minute,
        also of the nearest site that wanted it before.
        """
        itineraries, topic = self._itineraries, copy.entry.topic.name
        if not copy.hops:
            late = itinerary.destinations if self._turns.is_minutely else itinerary.sites
            return sorted(late - (copy.seen_to or frozenset()))
        itineraries.note(topic, itinerary)
        late = itinerary.sites - (copy.seen_to or frozenset()) - (itineraries.wanted_long(topic) or _NOBODY)
        late = late.difference(copy.hops)
        if late and copy.hops[0] in self._topology.ways.reach(topic, copy.depth).hops:
            self._turns.wait(copy)
            if not self._turns.is_minutely:
                return []
            late = frozenset(site for site in late if itineraries.is_nearest(site, topic, itinerary))
        return sorted(late)
