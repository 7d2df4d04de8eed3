"""Mode ALL: a copy names the sites that it is for, and each site on the way splits them among its peers.

Where a copy begins, its destinations are the sites that want it and are within its depth, by what is known
of all links and wants. Each peer on a shortest way is asked to see to some of them; it delivers, and asks its
own peers for the rest. So nobody who is not on such a way ever has it (explicit multicast, RFC 5058).

A site keeps a guaranteed copy until all its destinations have it. A peer's acknowledgement says that the peer
itself does; `arrived` says it of those beyond, and goes back to whoever asked. What was asked for stays so
until then, whoever else is asked meanwhile: each site on the way is a second source.

    a link, anywhere, comes or goes      destinations whose peer is on no shortest way any more are given to
                                         one that is; where none is up, to one that would be if all links were
    a peer would not, or says `no-way`   to another one; where there is none, that is told to whoever asked.
                                         The peer is asked again when the link comes up anew, and after two
                                         minutes, four, and so on: who says `no-way` has not forgotten it
    it comes again, with more depth      peers that have it with less are sent it again: they, too, may go
                                         round a broken link by more hops then
    a link comes up                      `still`: does the peer still see to these? It says `arrived` of those
                                         that it has seen to, and `again` where it holds no copy any more, and
                                         does not remember that they have it
    a site does not want it any more     where nobody has asked for it, nobody sees to it any more, and those
                                         who were asked are told: `unwanted`
    a site begins to want it             where the timeout is stated, the site where it began sees to it;
                                         where that cannot be reached, whoever holds it
    one comes to be seen to, while       it goes after these, see `turns`
    others of its topic are looked at
    a peer asks for a receipt, too       those that were asked for without one are so once more, to be counted

While some are left, it is stored within a minute that others have it: as a rule all have it in a moment, and
the copy ends. After a start, those of which it was not stored are asked for once more.

A copy goes wherever it is wanted, as `forwarding` has it, where its destinations cannot be known, see
`itineraries`. One that came without destinations goes on without. Source: routing contract 4.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from routing import copy_events
from routing.copy_states import has_timed_out
from routing.federation.assigning import Assigning
from routing.federation.forwarding import Forwarding
from routing.federation.itineraries import Itineraries
from routing.federation.peer import Peer
from routing.federation.seen_through import SeenThrough
from routing.federation.topology import Topology
from routing.federation.turns import Turns
from routing.federation.words import SEEN_TO_MAX, DestinationWords
from routing.link.units import TransferOutcome
from routing.names import Smuid, parse_smuid
from routing.peering.copies import UNKNOWN, Copy, Open
from routing.queue import GUARANTEED, STATED, own_id
from routing.state import SiteState


class Destinations:
    """Sees to the destinations of the copies that are held here.

    Attributes:
        seen_through: who has what is not held any more.
    """

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        topology: Topology,
        itineraries: Itineraries,
        words: DestinationWords,
        turns: Turns,
        assigning: Assigning,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._topology = topology
        self._itineraries = itineraries
        self._words = words
        self._turns = turns
        self._assigning = assigning
        self.seen_through = SeenThrough()

    # -- who is to have it ------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether this site sees to destinations."""
        return self._topology.knows_destinations(self._state.server)

    def are_known(self, copy: Copy) -> bool:
        """Whether who comes to want a copy, as a peer tells, is seen to by its destinations alone."""
        if copy.seen_to is None or self._itineraries.find(copy.entry.topic.name, copy.depth) is None:
            return False
        return not copy.hops or (seen := self._forwarding.known(copy.smuid)) is None or not seen.depth

    def pull(self, peer: Peer, topic: str) -> None:
        """Pull as `Forwarding.pull` does, but what is seen to, here or elsewhere, by the news to come."""
        if self._forwarding.pull(peer, topic, self.are_known):
            self._itineraries.pass_over(peer.name, topic)

    # -- to the peers -----------------------------------------------------------------------------

    def begin(self, copy: Copy, *, counted: bool) -> list[int] | None:
        """Send a copy that begins here to its destinations; returns the questions, see `Forwarding`.

        None where they cannot be known.

        `counted`: peers that it goes to are asked for a receipt.
        """
        topic, depth = copy.entry.topic.name, copy.depth
        found = self._itineraries.find(topic, depth)
        if found is None or self._itineraries.late_by(topic, depth, found):
            return None
        self._destine(copy, found.destinations)
        if self._assigning.joins_the_end(copy):
            return []
        by_peer, crossing = found.by_peer, self._state.crossing
        if topic in crossing.followed:
            first = crossing.followed_by(topic, found.destinations, copy)
            if any(first.get(site, peer) != peer for peer, sites in by_peer.items() for site in sites):
                by_peer, _ = self._topology.ways.assign(sorted(found.destinations), topic, depth, first=first)
        return self._assigning.send(copy, by_peer, counted=counted)

    def take_on(self, copy: Copy, peer: str, sites: Iterable[str], *, counted: bool) -> list[int]:
        """See to these as well, as a peer asks; returns the questions.

        `counted`: the peer asks for a receipt, too.
        """
        server, again, afresh = self._state.server, list[str](), list[str]()
        if copy.seen_to is None:  # as a rule: it has just come
            wanted, come = _split(tuple(sites), copy.hops, server)
            for site in come:
                self._words.note(peer, "arrived", copy.smuid, site)
        else:
            if counted:
                afresh = [site for site in dict.fromkeys(sites) if site in copy.uncounted]
            again = self._take_again(copy, peer, sites, afresh, counted=counted)
            known = {server, *copy.hops, *copy.seen_to.difference(afresh), *copy.destinations}
            wanted = tuple(site for site in dict.fromkeys(sites) if site not in known)
            afresh = [site for site in afresh if site in copy.destinations]
        new = self._room(copy, wanted) if wanted else []
        if len(new) < len(wanted):
            for site in wanted:
                if site not in new:
                    self._words.note(peer, "no-way", copy.smuid, site)
        self._destine(copy, new, (peer,), is_late=not counted)
        self._note_wanted(copy)
        if afresh:
            copy.uncounted = copy.uncounted.difference(afresh)
        sent = self._assigning.assign(copy, [*new, *afresh], counted=counted) if new or afresh else []
        if again:
            self._assigning.assign_again(copy, again)
        return sent

    def _take_again(
        self, copy: Copy, peer: str, sites: Iterable[str], afresh: Collection[str], *, counted: bool
    ) -> list[str]:
        """Note that a peer asks for these, of which some are seen to; those that are to be sent again.

        `afresh`: those that are asked for once more, to be counted.
        """
        open = copy.destinations
        again = []
        for site in sites:
            if site in open:
                if peer not in open[site].asked_by:
                    open[site].asked_by += (peer,)
                    self._assigning.keep(copy)
                elif peer not in open[site].asked_again:
                    open[site].asked_again += (peer,)
                if open[site].is_late and counted:
                    open[site].is_late = False
                    self._assigning.keep(copy)
                if open[site].via in ("", peer) and site not in afresh:
                    again.append(site)
            elif site in afresh:
                continue
            elif site in copy.hops or (copy.seen_to is not None and site in copy.seen_to):
                self._words.note(peer, "arrived", copy.smuid, site)
        return again

    def _note_wanted(self, copy: Copy) -> None:
        """So that who comes to want it later is seen to do so."""
        if copy.entry.flags & STATED and copy.hops:
            topic = copy.entry.topic.name
            if (found := self._itineraries.find(topic, copy.depth)) is not None:
                self._itineraries.note(topic, found)

    def is_seen_through(self, smuid: str, peer: str, sites: Collection[str], *, counted: bool) -> bool:
        """Whether all these have a message that is not held here any more; if so, a peer is told.

        `counted`: and have been asked to count who has it.
        """
        through = self.seen_through
        have_it = (through.counted_by(smuid) if counted else through.by(smuid)).issuperset(sites)
        for site in sites if have_it else ():
            self._words.note(peer, "arrived", smuid, site)
        return have_it

    def send_to_late(self, copy: Copy, *, counted: bool) -> list[int]:
        """Send what came for others also where peers tell of somebody of whom there is no news yet."""
        topic = copy.entry.topic.name
        found = self._itineraries.find(topic, copy.depth)
        late = self._itineraries.late_by(topic, copy.depth, found) if found is not None else ()
        return self._forwarding.send_to(copy, late, counted=counted)

    def see_to_own(self, smuid: str, peer: str, sites: Iterable[str]) -> None:
        """See to these for a peer that has no way to them but over this site, where the message began."""
        if (copy := self.held(smuid, parse_smuid(smuid))) is not None:
            self.take_on(copy, peer, sites, counted=False)
            return
        have_it = self.seen_through.by(smuid)
        for site in sites:
            self._words.note(peer, "arrived" if site in have_it else "no-way", smuid, site)

    def see_to_late(self, copy: Copy, sites: list[str]) -> None:
        """See to these as well, that came to want it later, and are not counted for its receipt."""
        by_peer, back = self._topology.ways.assign(
            self._room(copy, sites), copy.entry.topic.name, copy.depth, copy.hops
        )
        if back:  # whoever is on the way there has the message, too
            by_peer = {peer: sorted(set(some).difference(back)) for peer, some in by_peer.items()}
            by_peer = {peer: some for peer, some in by_peer.items() if some}
        asked_by = (self._state.server,) if copy.hops else ()  # so that no other's word ends it
        self._destine(copy, [site for some in by_peer.values() for site in some], asked_by, is_late=True)
        self._assigning.send(copy, by_peer, counted=False)

    def find_anew(self, copy: Copy, sites: Iterable[str] | None) -> None:
        """See to these, as it is not known which it was; None where they cannot be known."""
        if sites is None:
            self._forwarding.send_to_all(copy, counted=False)
        else:
            new = self._room(copy, sorted(set(sites).difference(copy.hops)))
            self._destine(copy, new)
            self._assigning.assign_again(copy, new)
        self._state.crossing.settle(copy, UNKNOWN)
        self._assigning.keep(copy)

    def widened(self, copy: Copy) -> None:
        """Look again for ways of a copy that may go further than before, and let peers that have it go on."""
        for open in copy.destinations.values():
            open.refused = ()
        nearer = (site for site, open in copy.destinations.items() if open.via not in copy.sent_to)
        self._assigning.give(copy, [*dict.fromkeys((*self._assigning.astray(copy), *nearer))])

    def _room(self, copy: Copy, sites: Sequence[str]) -> list[str]:
        """Those of these sites that it can be for, too.

        No copy is held for ever more, and none for a site that only others say there is.
        """
        if len(copy.seen_to or ()) + len(sites) > SEEN_TO_MAX:
            return []
        return list(filter(self._topology.exists, sites))

    def _destine(
        self, copy: Copy, sites: Collection[str], asked_by: tuple[str, ...] = (), *, is_late: bool = False
    ) -> None:
        entry, is_first = copy.entry, not copy.seen_to
        copy.seen_to = copy.seen_to.union(sites) if copy.seen_to else frozenset(sites)
        if is_late:
            copy.uncounted = copy.seen_to if is_first else copy.uncounted.union(sites)
        elif copy.uncounted:
            copy.uncounted = copy.uncounted.difference(sites)
        self._state.crossing.destined[entry.id] = copy
        if not entry.flags & GUARANTEED:
            return
        if not copy.destinations:
            copy.destinations = {}
        for site in sites:
            copy.destinations[site] = Open(asked_by=asked_by, is_late=is_late)
            copy_events.destined(entry)
        self._state.crossing.weigh(entry)

    # -- what peers say ---------------------------------------------------------------------------

    def acknowledged(self, copy: Copy, peer: str, outcome: TransferOutcome) -> list[str]:
        """Note who has a copy for which a peer has answered; returns the sites that it does not see to."""
        if outcome in ("denied", "loop"):
            copy.sent_to.pop(peer, None)
        if outcome == "denied":
            copy.denied_by.add(peer)
            return self._assigning.refused(copy, peer, copy.via(peer))
        known = self._forwarding.peers.get(peer)
        # one that knows no destinations has sent it wherever it is wanted, and tells of none
        has = [] if known is not None and known.knows_destinations else copy.via(peer)
        if has or peer in copy.destinations:
            for _ in self.settle(copy, peer, (peer, *has)):
                copy_events.arrived_by_answer(copy.entry)
        return self._assigning.refused(copy, peer, copy.via(peer)) if outcome == "loop" else []

    def held(self, smuid: str, parts: Smuid) -> Copy | None:
        """The copy of a message that has destinations; None where none is held."""
        destined = self._state.crossing.destined
        # what began here is under the number that its Smuid tells: nothing is looked for on disk
        own = destined.get(own_id(parts))
        if own is not None and own.smuid == smuid:
            found: Copy | None = own
        else:
            seen = self._forwarding.known(smuid)
            found = destined.get(seen.entry_id) if seen is not None else None
        if found is None or found.smuid != smuid or has_timed_out(found.entry):
            return None
        return found

    def settle(self, copy: Copy, teller: str, sites: Iterable[str]) -> tuple[str, ...]:
        """Note that these have it, or are not to any more, and tell all who were asked or have asked."""
        settled = []
        via = set[str]()
        for site in sites:
            open = self._state.crossing.settle(copy, site)
            if open is not None:
                settled.append(site)
                via.add(open.via)
                self._note_settled(copy, site, open)
                for other in open.asked_by + open.asked:
                    if other != teller and other != site:
                        self._words.note(other, "arrived", copy.smuid, site)
        if not settled:
            return ()
        self._assigning.take_back(copy, via)
        if copy.destinations:
            copy.is_stale = True
        elif copy.seen_to is not None:
            self._assigning.keep(copy)
            self.seen_through.note(copy.smuid, copy.seen_to, copy.uncounted)
        return tuple(settled)

    @staticmethod
    def _note_settled(copy: Copy, site: str, open: Open) -> None:
        """A question may be on its way that is for this one, too: it stays so if it has to be repeated."""
        forward = copy.unanswered(open.via)
        if forward is None or not forward.query or open.is_late:
            return
        if site not in forward.settled:
            forward.settled += (site,)

    def forget(self, copy: Copy, sites: Iterable[str]) -> None:
        """End these, which do not want it by what is known here; who asked may know more."""
        via = set[str]()
        for site in sites:
            open = self._state.crossing.settle(copy, site)
            assert open is not None
            via.add(open.via)
            for other in open.asked_by:
                self._words.note(other, "no-way", copy.smuid, site)
            for other in open.asked:
                self._words.note(other, "unwanted", copy.smuid, site)
        copy.seen_to = (copy.seen_to or frozenset()).difference(sites)
        self._assigning.take_back(copy, via)
        self._assigning.keep(copy)

    def restore(self, copy: Copy, destinations: dict[str, Open], seen_to: frozenset[str]) -> None:
        """Take a copy that the store holds, with what it is still to be seen to."""
        copy.destinations, copy.seen_to = destinations, seen_to.union(destinations)
        # of the others it is not stored: once more asked than needed, and none left out
        copy.uncounted = copy.seen_to.difference(
            site for site, open in destinations.items() if not open.is_late
        )
        self._state.crossing.destined[copy.entry.id] = copy
        for _ in destinations:
            copy_events.destined(copy.entry)
        self.lead(copy)

    def lead(self, copy: Copy) -> None:
        """Let what comes after a copy, or is looked at after it, go by the same peers, see `Crossing`."""
        for site in copy.destinations:
            self._state.crossing.follow(copy, site, in_turn=True)

    # -- to be told -------------------------------------------------------------------------------

    def compare(self, peer: str, copy: Copy) -> None:
        """Ask a peer whose link is up what it sees to; tell it again to what of its own no way leads.

        Who asked may have gone round this site meanwhile, and its word of that may be lost.
        """
        for site, open in copy.destinations.items():
            if open.via == peer:
                self._assigning.ask_still(copy, site, open, peer)
            elif peer not in open.asked_by or self._turns.has_joined(copy):
                continue
            elif not self._assigning.best(copy, site, open):
                self._words.note(peer, "no-way", copy.smuid, site)


@lru_cache(maxsize=64)  # of 256 sites at most
def _split(
    sites: tuple[str, ...], hops: tuple[str, ...], server: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of what a copy is for that has come to a server: where it is still to go, and where it has been."""
    come = tuple(site for site in sites if site in hops)
    return tuple(site for site in sites if site != server and site not in hops), come
