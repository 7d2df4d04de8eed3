"""Judges where what has one owner comes to rest: messages of mode ONE, and those for an account.

A site keeps one where somebody there has it in hand, or is to have it again in a moment; and where nobody who
takes it is within the depth that it has left, over the sites and links that are not lost. Of mode ONE these
are those who are attached, and only where none of them is within it, subscriptions that nobody is attached
to: with one of these it rests then. At a site that does not say who is attached it rests with one always.

By the contract one that has a way rests nonetheless

    under way     where it was handed to a peer that is lost, or over such a link: only that knows whose it is
    told of       where its ways all lead back, and a peer beyond a lost link has told, besides news, that it
                  is a nearer one; but not of ways to who is attached, at a site that says itself who is
    to and fro    where it was handed over each link that a way begins with as often as may be at once

and in no other case. Clients are to be calm: each takes what comes, and finishes it at once.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

import msgspec

from routing.federation.custody import CROSSINGS_MAX
from routing.federation.forwarding import want_of
from routing.names import parse_address
from routing.queue import GUARANTEED, ONE, Entry
from routing.router import Router
from tests.sim.ledger import Ledger
from tests.sim.scenario import PlannedReader


class RestingMessage(msgspec.Struct):
    """A message at a site, in nobody's hand.

    Attributes:
        name: of the message, for people.
        takers: sites where somebody takes it, and is attached.
        left: sites where a subscription takes it that nobody is attached to.
        depth: that it has left.
        hops: the sites that it came through.
        handed_to: the peer that is to answer for it; "" for none.
        told: links from peers to who takes it, as they have told besides news.
    """

    site: str
    name: str
    takers: set[str]
    left: set[str] = set()
    depth: int = 0
    hops: tuple[str, ...] = ()
    handed_to: str = ""
    told: Mapping[str, int] = {}

    def may_go(self, distance: int) -> bool:
        """Whether its depth suffices for a way that goes on so many links after the first."""
        return self.depth == -1 or distance < self.depth

    def is_spent(self, peer: str) -> bool:
        """Whether it was handed to a peer as often as may be at once."""
        steps = [*pairwise((*self.hops, self.site))]
        return steps.count((self.site, peer)) >= CROSSINGS_MAX


class Resting:
    """Finds what rests where it should not.

    Args:
        lost: sites and links.
    """

    def __init__(self, ledger: Ledger, lost: Collection[str | tuple[str, str]]) -> None:
        self._scenario = ledger.scenario
        self._publications = ledger.publications
        self._keys = {smuid: key for key, told in ledger.told.items() for smuid in told.smuids}
        self._lost = lost

    def overdue(self, routers: Mapping[str, Router]) -> Iterator[str]:
        """What waits at one of these sites, guaranteed, and has a way; in words."""
        for site, router in routers.items():
            for held in self._waiting(site, router):
                if why := self._why_overdue(held):
                    yield f"{held.name} {why}"

    def _waiting(self, site: str, router: Router) -> Iterator[RestingMessage]:
        """What nobody has in hand at a site."""
        federation, in_hand = router.federation, _in_hand(router)
        for entry in router._state.entries.values():
            if not (entry.flags & ONE and entry.flags & GUARANTEED) or entry.id in in_hand:
                continue
            smuid = entry.smuid(site)
            key = self._keys.get(smuid, entry.topic.name)
            held = RestingMessage(site, f"{key} ({smuid})", *self._takers(entry, key))
            if (copy := federation.outlook.copies.get(entry.id)) is not None:
                held.depth, held.hops, held.handed_to = copy.depth, copy.hops, copy.custody_to
                held.told = federation.interest.told(want_of(entry.topic, "ONE"))
            yield held

    def _takers(self, entry: Entry, key: str) -> tuple[set[str], set[str]]:
        """The sites where somebody is who takes it, and those where a subscription is left that does."""
        if entry.topic.is_system:
            return {parse_address(entry.topic.name).server}, set()
        publication = self._publications.get(key)
        if publication is None:
            return set(), set()
        readers = [each for each in self._scenario.readers if each.takes(publication) and takes_one(each)]
        return (
            {reader.site for reader in readers if reader.leaves_at is None},
            {reader.site for reader in readers if reader.leaves_at is not None},
        )

    def _why_overdue(self, held: RestingMessage) -> str | None:
        """What is wrong with it; None where it may rest."""
        if held.handed_to:
            answers = held.handed_to in self._peers(held.site)
            return f"was handed to {held.handed_to} by {held.site}, and is not answered" if answers else None
        if held.site in held.takers:
            return f"waits at {held.site}, where somebody takes it"
        is_left = held.site in held.left
        if is_left and held.site not in self._scenario.tell_attached:
            return None
        ways = self._ways(held, held.takers)
        to_attached = bool(ways) and held.site in self._scenario.tell_attached
        if not ways and not is_left:
            ways = self._ways(held, held.left)
        if not ways or (not to_attached and self._waits_for_told(held, ways)):
            return None
        by = ", ".join(f"{peer} ({1 + distance})" for peer, distance in ways.items())
        return f"waits at {held.site} with depth {held.depth}, and has a way by {by}"

    def _ways(self, held: RestingMessage, takers: Collection[str]) -> dict[str, int]:
        """The peers by which it can come to one of these; links from each to the nearest."""
        ways = {}
        for peer in self._peers(held.site):
            distances = self._scenario.distances(peer, without={*self._lost, held.site})
            nearest = min((distances[taker] for taker in takers if taker in distances), default=None)
            if nearest is not None and held.may_go(nearest) and not held.is_spent(peer):
                ways[peer] = nearest
        return ways

    def _waits_for_told(self, held: RestingMessage, ways: Mapping[str, int]) -> bool:
        """Whether all ways lead back, and a peer that is out of reach has told that it is a nearer one."""
        if not ways.keys() <= set(held.hops):
            return False
        out_of_reach = held.told.keys() - self._peers(held.site)
        return any(
            held.told[peer] < min(ways.values()) and held.may_go(held.told[peer]) for peer in out_of_reach
        )

    def _peers(self, site: str) -> set[str]:
        """Those with which a site has a link, neither of them lost."""
        distances = self._scenario.distances(site, without=self._lost)
        return {other for other, distance in distances.items() if distance == 1}


def takes_one(reader: PlannedReader) -> bool:
    """Whether a subscription takes messages of mode ONE until the end."""
    return reader.accepts != "ALL" and reader.ends_at is None


def _in_hand(router: Router) -> set[int]:
    """The ids of messages that subscriptions have, or that wait to be offered again as they have failed."""
    state = router._state
    found = {lock.entry.id for _, _, lock in state.delayed}
    return found.union(*((*each.locks, *each.received) for each in state.subscriptions.values()))
