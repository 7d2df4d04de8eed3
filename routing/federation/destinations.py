"""Mode ALL: a copy names the sites that it is for, and each site on the way splits them among its peers.

Where a copy begins, its destinations are the sites that want it and are within its depth, by what is known
of all links and wants. Each peer on a shortest way is asked to see to some of them; it delivers, and asks its
own peers for the rest. So nobody who is not on such a way ever has it (explicit multicast, RFC 5058).

A site keeps a guaranteed copy until all its destinations have it. A peer's acknowledgement says that the peer
itself does; `arrived` says it of those beyond, and goes back to whoever asked. What was asked for stays so
until then, whoever else is asked meanwhile: each site on the way is a second source.

    a link, anywhere, comes or goes      destinations whose peer is on no shortest way any more are given to
                                         one that is; where there is none, they stay where they are
    a peer would not, or says `no-way`   to another one; where there is none, that is told to whoever asked,
                                         and tried again with the next change, or each minute
    a link comes up                      `still`: does the peer still see to these? It says `arrived` of those
                                         that it does not, having seen to them
    a site does not want it any more     nobody sees to it any more
    a site begins to want it             where the timeout is stated, the site where it began sees to it;
                                         where that cannot be reached, whoever holds it

A copy goes wherever it is wanted, as `forwarding` has it, where its destinations cannot be known: where a
site within its depth does not say what it wants, or knows no destinations, or floods a link; where peers tell
of somebody nearer than any destination, so that news is late; where there are more than `DESTINATIONS_MAX`.
One that came without destinations goes on without. Source: routing contract 4.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from routing.errors import Refusal
from routing.federation.copies import Copy, Forward, Open, within
from routing.federation.decisions import DestinationsWord, StoreCopy, TellDestinations
from routing.federation.forwarding import Forwarding
from routing.federation.interest import Interest
from routing.federation.topology import Topology
from routing.federation.wants import Want
from routing.lifecycle import Lifecycle, advance
from routing.link.codec import DESTINATIONS_MAX
from routing.link.units import TransferOutcome
from routing.names import is_server_name, parse_smuid
from routing.queue import COUNTER_BITS, EXPIRED, GONE, GUARANTEED, STATED, Entry
from routing.receipts import Receipts
from routing.state import SiteState

PLANS_MAX: Final = 10_000

TOLD_MAX: Final = 500
"""Messages of which one control tells."""


class Itinerary(msgspec.Struct, frozen=True):
    """Where messages of one topic and depth go that begin here.

    Attributes:
        wanting: the other sites that want them, however far they are.
        sites: those within depth.
        by_peer: which of them each peer is to see to.
    """

    wanting: frozenset[str]
    sites: frozenset[str]
    by_peer: Mapping[str, list[str]]


class Destinations:
    """Sees to the destinations of the copies that are held here."""

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        lifecycle: Lifecycle,
        receipts: Receipts,
        interest: Interest,
        topology: Topology,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._interest = interest
        self._topology = topology
        self._plans: dict[tuple[str, int], Itinerary | None] = {}
        self._is_late: dict[tuple[str, int], bool] = {}
        self._are_within: dict[tuple[str, int], Collection[str] | None] = {}  # all that know destinations
        self._wanted: dict[str, frozenset[str]] = {}  # who wanted it by the last plan
        self._wanted_before: dict[str, frozenset[str]] = {}  # a minute ago at most
        self._wanted_long: dict[str, frozenset[str]] = {}  # a minute ago or longer
        self._planned = self._seen = -1  # versions of the topology
        self._unwanted: list[Entry] = []  # copies whose receipts may be known since
        self._untold: dict[tuple[str, DestinationsWord], dict[str, list[str]]] = {}

    # -- who is to have it ------------------------------------------------------------------------

    def plan(self, topic: str, depth: int) -> Itinerary | None:
        """Where a message goes that begins here; None where its destinations cannot be known."""
        if self._planned != self._topology.version:
            self._planned = self._topology.version
            self._plans.clear()
            self._is_late.clear()
            self._are_within.clear()
        try:
            return self._plans[topic, depth]
        except KeyError:
            pass
        if max(len(self._plans), len(self._is_late), len(self._wanted)) >= PLANS_MAX:
            for remembered in (self._plans, self._is_late, self._wanted):
                remembered.clear()
        plan = self._plans[topic, depth] = self._make_plan(topic, depth)
        if plan is not None:
            self._wanted[topic] = plan.wanting
            self._wanted_before.setdefault(topic, plan.wanting)
            self._wanted_long.setdefault(topic, plan.wanting)
        return plan

    def interest_changed(self) -> None:
        """Peers have told of wants: news of them may be late."""
        self._is_late.clear()

    def _make_plan(self, topic: str, depth: int) -> Itinerary | None:
        ways = self._topology.ways
        key = (topic if ways.has_rules else "", depth)
        if key not in self._are_within:
            self._are_within[key] = self._within(topic, depth)
        are_within = self._are_within[key]
        wanting = self._topology.wants.wanting("ALL", topic)
        if are_within is None or wanting is None:
            return None
        sites = frozenset(site for site in wanting if site in are_within and site != self._state.server)
        if len(sites) > DESTINATIONS_MAX:
            return None
        by_peer, _ = ways.assign(sorted(sites), topic, depth)
        return Itinerary(frozenset(wanting), sites, by_peer)

    def _within(self, topic: str, depth: int) -> Collection[str] | None:
        """The sites that a copy can come to; None where not all of them know destinations, or some flood."""
        topology = self._topology
        found = topology.ways.within(topic, depth)
        others = (site for site in found if site != self._state.server)
        if not all(map(topology.knows_destinations, others)) or topology.ways.floods(found):
            return None
        return found

    def _are_late(self, topic: str, depth: int, sites: Iterable[str]) -> bool:
        """Whether peers tell of somebody within depth who is nearer than all of these: news is on its way."""
        want: Want = ("ALL", topic)
        told = self._interest.distances(want)
        nearest = min(
            (
                distance + 1
                for peer, distance in told.items()
                if (known := self._forwarding.peers.get(peer)) is not None and known.may_go(topic)
            ),
            default=None,
        )
        if nearest is None or not within(nearest, depth):
            return False
        if nearest > 2 and self._interest.is_own(want):
            return False  # it may be this site, round a circle
        hops = self._topology.ways.reach(topic, depth, up=False).hops
        return all(hops[site] > nearest for site in sites)

    def are_known(self, copy: Copy) -> bool:
        """Whether who comes to want a copy is seen to by its destinations alone."""
        if copy.seen_to is None or self.plan(copy.entry.topic.name, copy.depth) is None:
            return False
        return not copy.hops or (seen := self._forwarding.known(copy.smuid)) is None or not seen.depth

    # -- to the peers -----------------------------------------------------------------------------

    def begin(self, copy: Copy, *, counted: bool) -> list[Forward] | None:
        """Send a copy that begins here to its destinations; None where they cannot be known.

        `counted`: peers that it goes to are asked for a receipt.
        """
        key = topic, depth = copy.entry.topic.name, copy.depth
        plan = self.plan(topic, depth)
        if plan is None:
            return None
        late = self._is_late.get(key)
        if late is None:
            late = self._is_late[key] = self._are_late(topic, depth, plan.sites)
        if late:
            return None
        self._destine(copy, plan.sites)
        return self._send(copy, plan.by_peer, (), counted=counted)

    def take_on(self, copy: Copy, peer: str, sites: Iterable[str], *, counted: bool) -> list[Forward]:
        """See to these as well, as a peer asks; returns what is sent for that."""
        open, server = copy.destinations, self._state.server
        again = []
        for site in sites:
            if site in open:
                if peer not in open[site].asked_by:
                    open[site].asked_by += (peer,)
                    self._keep(copy)
                if open[site].via in ("", peer):
                    again.append(site)
            elif copy.seen_to is not None and site in copy.seen_to:
                self._note(peer, "arrived", copy.smuid, site)
        new = [site for site in dict.fromkeys(sites) if site != server and site not in (copy.seen_to or ())]
        for site in new[self._room(copy) :]:
            self._note(peer, "no-way", copy.smuid, site)
        new = new[: self._room(copy)]
        self._destine(copy, new, (peer,))
        if copy.entry.flags & STATED:
            self.plan(copy.entry.topic.name, copy.depth)  # so that who comes later is seen to do so
        sent = self._assign(copy, new, counted=counted)
        if again:
            self._assign_again(copy, again)
        return sent

    def widened(self, copy: Copy) -> None:
        """A copy may go further than before: so may what had no way."""
        if astray := self._astray(copy):
            self._assign_again(copy, astray)

    def _room(self, copy: Copy) -> int:
        """How many more sites it can be for: all that are open may have to go to one peer."""
        return DESTINATIONS_MAX - len(copy.destinations)

    def _destine(self, copy: Copy, sites: Collection[str], asked_by: tuple[str, ...] = ()) -> None:
        entry = copy.entry
        copy.seen_to = copy.seen_to.union(sites) if copy.seen_to else frozenset(sites)
        self._state.crossing.destined[entry.id] = copy
        if not entry.flags & GUARANTEED:
            return
        if not copy.destinations:
            copy.destinations = {}
        for site in sites:
            copy.destinations[site] = Open(asked_by=asked_by)
            advance(entry, "destined")

    def _assign(self, copy: Copy, sites: Iterable[str], *, counted: bool) -> list[Forward]:
        """Ask a peer on a shortest way to see to each; tell those who asked where there is none."""
        open = copy.destinations
        shut = {
            site: (*open[site].asked_by, *open[site].refused)
            for site in sites
            if site in open and (open[site].asked_by or open[site].refused)
        }
        by_peer, nowhere = self._topology.ways.assign(
            sites, copy.entry.topic.name, copy.depth, copy.hops, shut
        )
        return self._send(copy, by_peer, nowhere, counted=counted)

    def _send(
        self, copy: Copy, by_peer: Mapping[str, list[str]], nowhere: Iterable[str], *, counted: bool
    ) -> list[Forward]:
        open = copy.destinations
        for peer, sites in by_peer.items():
            for site in sites:
                if (known := open.get(site)) is not None:
                    known.via = peer
                    if peer not in known.asked:
                        known.asked += (peer,)
        for site in nowhere:
            if (known := open.get(site)) is not None:
                known.via = ""
                for peer in known.asked_by:
                    self._note(peer, "no-way", copy.smuid, site)
        return [
            self._forwarding.send_for(copy, peer, sites, counted=counted) for peer, sites in by_peer.items()
        ]

    # -- what peers say ---------------------------------------------------------------------------

    def acknowledged(self, copy: Copy, peer: str, outcome: TransferOutcome) -> list[str]:
        """A peer has answered for a copy: note who has it; returns the sites that it does not see to."""
        if outcome == "denied":
            return self._refused(
                copy, peer, [site for site, open in copy.destinations.items() if open.via == peer]
            )
        knows = self._forwarding.peers[peer].knows_destinations if peer in self._forwarding.peers else False
        # one that knows no destinations has sent it wherever it is wanted, and tells of none
        has = [site for site, open in copy.destinations.items() if open.via == peer and not knows]
        for _ in self._settle(copy, peer, (peer, *has)):
            advance(copy.entry, "arrived")
        if outcome != "loop":
            return []
        return self._refused(
            copy, peer, [site for site, open in copy.destinations.items() if open.via == peer]
        )

    def _refused(self, copy: Copy, peer: str, sites: Iterable[str]) -> list[str]:
        found = []
        for site in sites:
            open = copy.destinations.get(site)
            if open is not None and open.via == peer:
                open.via = ""
                open.refused += (peer,)
                found.append(site)
        return found

    def give(self, copy: Copy, sites: Collection[str]) -> None:
        """Ask others to see to these, which a peer does not."""
        if sites and not copy.entry.flags & (GONE | EXPIRED):
            self._assign_again(copy, sites)

    def _assign_again(self, copy: Copy, sites: Collection[str], *, counted: bool = True) -> None:
        pending = self._receipts.pending(copy.entry) if counted else None
        sent = self._assign(copy, sites, counted=pending is not None)
        if pending is not None:
            self._receipts.ask(pending, [forward.query for forward in sent])
        self._keep(copy)

    def _keep(self, copy: Copy) -> None:
        if copy.entry.flags & GUARANTEED:
            self._state.out.append(StoreCopy(copy.entry.id))

    def hear(self, peer: str, word: DestinationsWord, told: Mapping[str, list[str]], now: float) -> None:
        """Take what a peer says of destinations. Raises Refusal where it makes no sense."""
        if len(told) > TOLD_MAX or sum(map(len, told.values())) > TOLD_MAX * DESTINATIONS_MAX:
            raise Refusal(Refusal.TOO_MANY, f"destinations of more than {TOLD_MAX} messages")
        for smuid, sites in told.items():
            parse_smuid(smuid)
            if not all(map(is_server_name, sites)):
                raise Refusal(Refusal.BAD_FRAME, "a destination that is no server")
        for smuid, sites in told.items():
            if word == "still":
                self._hear_still(peer, smuid, sites)
            elif (copy := self._held(smuid)) is not None:
                if word == "arrived":
                    self._hear_arrived(copy, peer, sites)
                    self._receipts.look(copy.entry, now)
                elif again := self._refused(copy, peer, sites):
                    self.give(copy, again)

    def _held(self, smuid: str) -> Copy | None:
        seen = self._forwarding.known(smuid)
        if seen is not None:
            id = seen.entry_id
        else:
            parts = parse_smuid(smuid)
            if parts.server != self._state.server:
                return None
            id = parts.boot << COUNTER_BITS | parts.counter
        copy = self._state.crossing.destined.get(id)
        return copy if copy is not None and copy.smuid == smuid and not copy.entry.flags & EXPIRED else None

    def _hear_arrived(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Who was asked to see to it is believed; who has asked does not ask any more."""
        involved = []
        for site in sites:
            open = copy.destinations.get(site)
            if open is None:
                continue
            if peer in open.asked:
                involved.append(site)
            elif peer in open.asked_by:
                open.asked_by = tuple(other for other in open.asked_by if other != peer)
                self._keep(copy)
                if copy.hops and not open.asked_by:
                    involved.append(site)
        if settled := self._settle(copy, peer, involved):
            self._lifecycle.arrived(copy.entry, peer, settled)

    def _hear_still(self, peer: str, smuid: str, sites: list[str]) -> None:
        copy = self._held(smuid)
        has_been_here = self._forwarding.known(smuid) is not None
        for site in sites:
            if copy is not None and (open := copy.destinations.get(site)) is not None and copy.hops:
                if peer not in open.asked_by:
                    open.asked_by += (peer,)
                    self._keep(copy)
            elif has_been_here and (copy is None or site in (copy.seen_to or ())):
                self._note(peer, "arrived", smuid, site)
            else:
                self._note(peer, "no-way", smuid, site)

    def _settle(self, copy: Copy, teller: str, sites: Iterable[str]) -> tuple[str, ...]:
        """Note that these have it, or are not to any more, and tell all who were asked or have asked."""
        settled = []
        for site in sites:
            open = copy.destinations.pop(site, None)
            if open is None:
                continue
            settled.append(site)
            for other in dict.fromkeys((*open.asked_by, *open.asked)):
                if other not in (teller, site):
                    self._note(other, "arrived", copy.smuid, site)
        if settled:
            self._keep(copy)
        return tuple(settled)

    def _forget(self, copy: Copy, sites: Iterable[str]) -> None:
        """These do not want it, by what is known here, which may be less than whoever asked knows."""
        for site in sites:
            for other in copy.destinations.pop(site).asked_by:
                self._note(other, "no-way", copy.smuid, site)
        copy.seen_to = (copy.seen_to or frozenset()).difference(sites)
        self._keep(copy)

    # -- what has changed -------------------------------------------------------------------------

    def link_up(self, peer: str) -> None:
        """A link is up: ask what its peer still sees to of what it has acknowledged."""
        knows = self._forwarding.peers[peer].knows_destinations
        for copy in self._state.crossing.destined.values():
            forward = copy.forwards.get(peer)
            if forward is not None and not forward.unacknowledged:
                for site, open in copy.destinations.items():
                    if open.via == peer and knows:
                        self._note(peer, "still", copy.smuid, site)
                    elif open.via == peer:
                        open.via = ""  # one of an earlier version tells of none: it is sent it once more

    def peer_removed(self, peer: str) -> None:
        """Whoever is no peer any more sees to nothing, and has nothing told."""
        for copy in self._state.crossing.destined.values():
            for open in copy.destinations.values():
                open.via = "" if open.via == peer else open.via
                open.asked_by = tuple(other for other in open.asked_by if other != peer)
        self._topology.links_changed()

    def try_again(self, now: float) -> None:
        """Each minute: where there was no way, there may be one now."""
        self._seen = -1
        self.reconsider()
        self._send_kept()
        self._wanted_long, self._wanted_before = self._wanted_before, dict(self._wanted)
        unwanted, self._unwanted = self._unwanted, []
        for entry in unwanted:
            self._receipts.look(entry, now)

    def reconsider(self) -> None:
        """Links or wants may have changed: see that all destinations are on their way."""
        if self._seen == self._topology.version:
            return
        self._seen = self._topology.version
        for copy in list(self._state.crossing.destined.values()):
            if not copy.entry.flags & (GONE | EXPIRED):
                self._reconsider(copy)

    def _reconsider(self, copy: Copy) -> None:
        entry, topic = copy.entry, copy.entry.topic.name
        is_kept = entry.flags & STATED
        if not (copy.destinations or is_kept):
            return
        plan = self.plan(topic, copy.depth)
        if plan is not None:
            gone = [site for site in copy.destinations if site not in plan.wanting]
            if is_kept and (late := self._late(copy, plan)):
                self._destine(copy, late)
                self._assign_again(copy, late, counted=False)
            if gone:
                self._forget(copy, gone)
                self._lifecycle.unwanted(entry, tuple(gone))
                self._unwanted.append(entry)
        if astray := self._astray(copy):
            self._assign_again(copy, astray)

    def _send_kept(self) -> None:
        """What is kept for late subscribers goes wherever it is wanted where these cannot be known any more."""
        for copy in list(self._state.crossing.destined.values()):
            if copy.entry.flags & STATED and self.plan(copy.entry.topic.name, copy.depth) is None:
                self._forwarding.send_to_all(copy, counted=False)

    def _late(self, copy: Copy, plan: Itinerary) -> list[str]:
        """The sites that want it now and did not, as far as they are for this site to see to.

        Where it did not begin, all that have wanted it for more than a minute or two are for others.
        """
        seen_to = copy.seen_to or frozenset()
        if plan.sites <= seen_to:
            return []
        late = plan.sites - seen_to
        if copy.hops:
            topic = copy.entry.topic.name
            reach = self._topology.ways.reach(topic, copy.depth)
            if topic not in self._wanted_long or copy.hops[0] in reach.hops:
                return []
            late -= self._wanted_long[topic]
        return sorted(late.difference(copy.hops))[: self._room(copy)]

    def _astray(self, copy: Copy) -> list[str]:
        """Destinations that another peer can see to now, and that whoever was asked to cannot."""
        ways, topic = self._topology.ways, copy.entry.topic.name
        found = []
        for site, open in copy.destinations.items():
            open.refused = ()
            best = ways.best(site, topic, copy.depth)
            for peer in (*copy.hops, *open.asked_by):
                best &= ~ways.bit(peer)
            if not open.via or (best and not best & ways.bit(open.via)):
                found.append(site)
        return found

    def restore(self, copy: Copy, destinations: dict[str, Open], seen_to: frozenset[str]) -> None:
        """A copy that the store holds, with what it is still to be seen to."""
        copy.destinations, copy.seen_to = destinations, seen_to.union(destinations)
        self._state.crossing.destined[copy.entry.id] = copy
        for _ in destinations:
            advance(copy.entry, "destined")

    # -- to be told -------------------------------------------------------------------------------

    def _note(self, peer: str, word: DestinationsWord, smuid: str, site: str) -> None:
        known = self._forwarding.peers.get(peer)
        if known is not None and known.up and known.knows_destinations:
            self._untold.setdefault((peer, word), {}).setdefault(smuid, []).append(site)

    def tell(self) -> None:
        """Tell what there is to be told, together."""
        if not self._untold:
            return
        untold, self._untold = self._untold, {}
        for (peer, word), sites in untold.items():
            smuids = list(sites)
            for first in range(0, len(smuids), TOLD_MAX):
                some = {smuid: sites[smuid] for smuid in smuids[first : first + TOLD_MAX]}
                self._state.out.append(TellDestinations(peer, word, some))
