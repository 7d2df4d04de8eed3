"""What peers say of the destinations of copies: see `routing.federation.destinations`."""

from collections.abc import Mapping

from routing.errors import Refusal
from routing.federation.assigning import Assigning
from routing.federation.destinations import Destinations
from routing.federation.itineraries import Itineraries
from routing.federation.peer import Peer
from routing.federation.words import SEEN_TO_MAX, TOLD_MAX, DestinationWords
from routing.lifecycle import Lifecycle
from routing.names import is_server_name, parse_smuid
from routing.peering.copies import Copy
from routing.peering.decisions import DestinationsWord
from routing.receipts import Receipts


class DestinationsHeard:
    """Takes what peers say."""

    def __init__(
        self,
        peers: Mapping[str, Peer],
        lifecycle: Lifecycle,
        receipts: Receipts,
        itineraries: Itineraries,
        destinations: Destinations,
        assigning: Assigning,
        words: DestinationWords,
    ) -> None:
        self._peers = peers
        self._lifecycle = lifecycle
        self._receipts = receipts
        self._itineraries = itineraries
        self._destinations = destinations
        self._assigning = assigning
        self._words = words

    def hear(self, now: float, peer: str, word: DestinationsWord, told: Mapping[str, list[str]]) -> None:
        """Take what a peer says of destinations. Raises Refusal where it makes no sense."""
        if len(told) > TOLD_MAX or max(map(len, told.values()), default=0) > SEEN_TO_MAX:
            raise Refusal(Refusal.TOO_MANY, f"destinations of more than {TOLD_MAX} messages, or too many")
        parts = {smuid: parse_smuid(smuid) for smuid in told}
        for sites in told.values():
            if len(set(sites)) != len(sites) or not all(map(is_server_name, sites)):
                raise Refusal(Refusal.BAD_FRAME, "a destination that is no server, or one twice")
        known = self._peers.get(peer)
        if known is None or not known.knows_destinations:
            return
        for smuid, sites in told.items():
            copy = self._destinations.held(smuid, parts[smuid])
            if copy is None:
                self._hear_of_none(peer, word, smuid, sites)
                continue
            topic = copy.entry.topic.name
            if not (known.may_come(topic) or known.may_go(topic)):
                continue  # it is none of its business
            if word == "arrived":
                self._hear_arrived(copy, peer, sites)
                self._receipts.look(copy.entry, now)
            elif word == "still":
                self._hear_still(copy, peer, sites)
            elif word == "no-way":
                self._hear_no_way(copy, peer, sites)
            elif word == "again":
                self._hear_again(copy, peer, sites)
            else:
                self._hear_unwanted(copy, peer, sites)
                self._receipts.look(copy.entry, now)

    def _hear_of_none(self, peer: str, word: DestinationsWord, smuid: str, sites: list[str]) -> None:
        """Say of a copy that is not held that it is to be sent again, or not to be asked for any more."""
        if word in ("still", "no-way"):
            have_it = self._destinations.seen_through.by(smuid)
            otherwise: DestinationsWord = "again" if word == "still" else "unwanted"
            for site in sites:
                self._words.note(peer, "arrived" if site in have_it else otherwise, smuid, site)

    def _hear_arrived(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Believe who was asked to see to it; who has asked does not ask any more.

        Others may ask still, or again: they are not told by that one's word that a site has it.
        """
        involved = []
        for site in sites:
            open = copy.destinations.get(site)
            if open is None:
                continue
            if peer in open.asked:
                involved.append(site)
            elif peer not in open.asked_by or not self._asks_no_more(copy, site, peer):
                continue
            elif copy.hops and not open.asked_by:
                involved.append(site)
                copy.seen_to = (copy.seen_to or frozenset()).difference((site,))
        if settled := self._destinations.settle(copy, peer, involved):
            self._lifecycle.arrived(copy.entry, peer, settled)

    def _asks_no_more(self, copy: Copy, site: str, peer: str) -> bool:
        """Take a peer's word that it does not ask any more, unless it has asked again, maybe since.

        Then it is told that there is no way: to that it says whether it asks, after all that it had said.
        """
        open = copy.destinations[site]
        if peer in open.asked_again:
            open.asked_again = tuple(other for other in open.asked_again if other != peer)
            self._words.note(peer, "no-way", copy.smuid, site)
            return False
        open.asked_by = tuple(other for other in open.asked_by if other != peer)
        self._assigning.keep(copy)
        return True

    def _hear_again(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Once for each time that the peer was asked: each costs a transfer."""
        told = frozenset(sites)
        open = copy.destinations
        again = [site for site in copy.via(peer) if site in told and open[site].still_asked == peer]
        if not again:
            return
        copy.denied_by.add(peer)
        copy.sent_to.pop(peer, None)
        for site in again:
            open[site].via = open[site].still_asked = ""
        self._assigning.give(copy, again)

    def _hear_no_way(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Give it to another peer; tell who does not know yet that it is asked no more."""
        for site in sites:
            if site not in copy.destinations:
                has_arrived = site in (copy.seen_to or ())
                self._words.note(peer, "arrived" if has_arrived else "unwanted", copy.smuid, site)
        told = frozenset(sites)
        self._assigning.give(
            copy, self._assigning.refused(copy, peer, [site for site in copy.via(peer) if site in told])
        )

    def _hear_unwanted(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Forget that a peer has asked: nobody may want it, or others may ask still.

        It is seen to all the same if this site knows that it is wanted, and may come there: who asked may
        have lost its copy.
        """
        found = self._itineraries.find(copy.entry.topic.name, copy.depth)
        unwanted = []
        for site in dict.fromkeys(sites):
            open = copy.destinations.get(site)
            if open is not None and peer in open.asked_by:
                if not self._asks_no_more(copy, site, peer) or open.asked_by or not copy.hops:
                    continue
                if found is None or site in found.destinations:
                    open.is_late = True
                else:
                    unwanted.append(site)
        if unwanted:
            self._destinations.forget(copy, unwanted)
            self._lifecycle.unwanted(copy.entry, tuple(unwanted))

    def _hear_still(self, copy: Copy, peer: str, sites: list[str]) -> None:
        """Where there is no way, who asks hears so: it may have passed that over when it was told."""
        lost = []
        for site in sites:
            open = copy.destinations.get(site)
            if open is None and site in (copy.seen_to or ()):
                self._words.note(peer, "arrived", copy.smuid, site)
            elif not copy.hops:  # it began here, where nobody asks
                self._words.note(peer, "no-way", copy.smuid, site)
            elif open is None or peer not in open.asked_by:
                self._words.note(peer, "again", copy.smuid, site)
            elif open.via in ("", peer):
                lost.append(site)
        self._assigning.give(copy, lost)
