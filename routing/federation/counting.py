"""Asks the sites that a message was for how many have it there, where their answers may not come back.

What peers are asked with a copy they answer over the way that it came, see `routing.receipts`. Where a link
or a site of that way is lost, the answer waits for it, though the message has gone round. So when links have
changed anywhere, the site that owes a publisher a receipt asks the others themselves: now and then, until it
is told, and of those messages alone that were under way then. Each answers for its own subscriptions, by the
way that is nearest now; what it says comes to the same however often it is said. A site remembers with the
Smuid what it has counted.

    mode ALL    asked are those that the copy was for, where that is remembered; once all of them have said
                their last word, peers are waited for no more; where peers count more, all others are asked
    mode ONE    all are, and the one where it ended ends the wait; for an account, the site of that. One that
                has handed it on is asked again: it may have it back since

What is told is the greater of both, of what peers have answered and of what sites say: of honest sites
neither is ever more than is true. Nothing of this is on disk, or repeated by whoever passes it on.
"""

import math
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

import msgspec

from routing.federation.allowance import Allowance
from routing.federation.forwarding import Forwarding
from routing.federation.link_graph import OPEN
from routing.federation.seen_through import SeenThrough
from routing.federation.topology import Topology
from routing.names import parse_address, parse_smuid
from routing.peering.counts import HOPS_MAX, SMUIDS_MAX, CountsAsked, CountsTold, SiteCounts
from routing.peering.decisions import TellCounts
from routing.queue import COUNTER_BITS, ONE, own_id
from routing.receipt import Receipt
from routing.receipts import Receipts
from routing.state import SiteState

AFTER_S: Final = 2.0
"""After a change, when news of it has gone round, and copies, too."""

AGAIN_S_MAX: Final = 64.0
"""How long it is waited until sites are asked again; twice as long each time until then."""

FLAPPING_S: Final = 16.0
"""So long at most where links have changed meanwhile."""

ASKED_MAX: Final = 10_000
"""Messages of which sites are asked at a time, each as often as there are sites to be asked."""

SMUIDS_PER_S: Final = 1_000.0
SMUIDS_AT_ONCE: Final = 30_000.0
"""Of which one peer may ask and tell, also for others."""


class Counting:
    """Part of `Federation`."""

    def __init__(
        self,
        state: SiteState,
        forwarding: Forwarding,
        receipts: Receipts,
        topology: Topology,
        seen_through: SeenThrough,
    ) -> None:
        self._state = state
        self._forwarding = forwarding
        self._receipts = receipts
        self._topology = topology
        self._seen_through = seen_through
        self._version = topology.version
        self._is_changed = False
        self._last_id = 0  # of the messages that were there when it changed
        self._asked_last = 0  # id of the message that was asked about last
        self._wait_s = AFTER_S
        self._due_at = math.inf
        self._allowances: dict[str, Allowance] = {}

    # -- where the message began ------------------------------------------------------------------

    def reconsider(self) -> None:
        """Look again which answers may still come back, if links have changed."""
        if self._version == self._topology.version:
            return
        self._version = self._topology.version
        self._last_id = self._state.last_id
        self._is_changed = True
        self._state.wake_at = 0.0

    @property
    def due_at(self) -> float:
        """Site time at which there is more to be done; `inf` for none."""
        return 0.0 if self._is_changed else self._due_at

    def tick(self, now: float) -> None:
        """Ask what there is to be asked."""
        if self._is_changed:
            self._is_changed = False
            self._wait_s = AFTER_S if self._due_at == math.inf else min(self._wait_s, FLAPPING_S)
            self._due_at = min(self._due_at, now + self._wait_s)
        if now >= self._due_at:
            self._due_at = math.inf
            self._ask(now)

    def _ask(self, now: float) -> None:
        receipts = [each for each in self._receipts.unanswered() if each.entry.id <= self._last_id]
        if not receipts:
            return
        receipts.sort(key=lambda each: (each.entry.id <= self._asked_last, each.entry.id))
        smuids: dict[str, list[str]] = {}
        for receipt, site in islice(self._to_be_asked(receipts), ASKED_MAX):
            smuids.setdefault(site, []).append(receipt.entry.smuid(self._state.server))
            receipt.asked.add(site)
            self._asked_last = receipt.entry.id
        for site, each in smuids.items():
            for first in range(0, len(each), SMUIDS_MAX):
                self._say(CountsAsked(site, (self._state.server,), (*each[first : first + SMUIDS_MAX],)), now)
        self._due_at = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, AGAIN_S_MAX)

    def _to_be_asked(self, receipts: list[Receipt]) -> Iterator[tuple[Receipt, str]]:
        """Each receipt with the sites that have not said their last word of it.

        Once all that it was for here have, peers count more: a site on the way knew of others besides.
        """
        for receipt in receipts:
            sites = _waited_for(receipt, self._counted(receipt))
            for site in sorted(sites or _waited_for(receipt, self._others(receipt))):
                yield receipt, site

    def _counted(self, receipt: Receipt) -> frozenset[str]:
        """Mode ALL: all sites whose subscriptions are counted; none where that is not remembered.

        After a start it is known only of those that were still to have it.
        """
        entry = receipt.entry
        if entry.flags & ONE or entry.id >> COUNTER_BITS != self._state.boot:
            return frozenset()
        copy = self._state.crossing.by_id.get(entry.id)
        if copy is not None and copy.seen_to is not None:
            counted = copy.seen_to.difference(copy.uncounted)
        else:
            counted = self._seen_through.counted_by(entry.smuid(self._state.server))
        return frozenset(filter(self._topology.exists, counted))

    def _others(self, receipt: Receipt) -> Collection[str]:
        """Those that may have it, where it is not known whose subscriptions are counted.

        Of mode ONE it may have come back here, in other hands than those that it left.
        """
        topic = receipt.entry.topic
        if receipt.entry.flags & ONE:
            return (parse_address(topic.name).server,) if topic.is_system else self._topology.sites
        return [site for site in self._topology.sites if site != self._state.server]

    def _heard(self, told: CountsTold, now: float) -> None:
        site = told.hops[0]
        for smuid, counts in told.counts.items():
            receipt = self._receipts.owed_here(own_id(parse_smuid(smuid)))
            if receipt is None or receipt.entry.smuid(self._state.server) != smuid:
                continue
            if site in receipt.asked and not _has_said_all(receipt, site):
                receipt.sites[site] = counts
                is_all = not counts.open and _is_all(receipt, self._counted(receipt))
                self._receipts.heard_of_sites(receipt, now, is_all=is_all)

    # -- where it came to -------------------------------------------------------------------------

    def _counts(self, smuid: str) -> SiteCounts | None:
        """Of this site alone; None of what was never here."""
        seen = self._forwarding.known(smuid)
        if seen is None:
            return None
        return self._receipts.counting_here(seen.entry_id) or SiteCounts(seen.due, seen.have)

    def _answer(self, asked: CountsAsked, now: float) -> None:
        found = {
            smuid: self._counts(smuid) for smuid in asked.smuids if parse_smuid(smuid).server == asked.hops[0]
        }
        known = {smuid: counts for smuid, counts in found.items() if counts is not None}
        if known:
            self._say(CountsTold(asked.hops[0], (self._state.server,), known), now)

    # -- on the way -------------------------------------------------------------------------------

    def hear(self, now: float, peer: str, told: CountsAsked | CountsTold) -> None:
        """Take, or pass on, what a peer asks or tells; of one that does so too often it is dropped."""
        allowance = self._allowances.setdefault(peer, Allowance(SMUIDS_PER_S, SMUIDS_AT_ONCE))
        if self._state.server in told.hops or not allowance.take(now, 1 + len(told.smuids)):
            return
        if told.to == self._state.server:
            self._say(told, now)
        elif len(told.hops) < HOPS_MAX:
            self._say(msgspec.structs.replace(told, hops=(*told.hops, self._state.server)), now)

    def peer_removed(self, peer: str) -> None:
        """Forget how much a peer has asked, which is none any more."""
        self._allowances.pop(peer, None)

    def _say(self, told: CountsAsked | CountsTold, now: float) -> None:
        """To the site that it is for, over the nearest peer; to nobody where no links lead there now."""
        if told.to != self._state.server:
            nearest = min(self._ways_for(told), default=None)
            if nearest is not None:
                self._state.out.append(TellCounts(nearest[1], told))
        elif isinstance(told, CountsAsked):
            self._answer(told, now)
        else:
            self._heard(told, now)

    def _ways_for(self, told: CountsAsked | CountsTold) -> Iterator[tuple[int, str]]:
        """Peers by which a site can be told something, and how far it is from them."""
        for name, peer in self._forwarding.peers.items():
            if peer.up and peer.knows_counts and name not in told.hops:
                reached = self._topology.ways.beyond(name, OPEN, up=True, is_bounded=False)
                if told.to in reached:
                    yield reached[told.to], name


def _is_all(receipt: Receipt, counted: frozenset[str]) -> bool:
    """Whether nothing more can be said of a receipt by any site."""
    said = receipt.sites
    if receipt.entry.flags & ONE:
        return any(each.due and not each.open for each in said.values())
    if sum(due for due, _ in receipt.children.values()) > sum(each.due for each in said.values()):
        return False  # by a site on the way it has come to others besides
    if any(each.due and each.open for each in said.values()):
        return False  # such a one has said so, and is still to say its last word
    return bool(counted) and not _waited_for(receipt, counted)


def _waited_for(receipt: Receipt, sites: Collection[str]) -> list[str]:
    """Those that have not said their last word."""
    return [site for site in sites if not _has_said_all(receipt, site)]


def _has_said_all(receipt: Receipt, site: str) -> bool:
    """Whether what a site has said is its last word: of mode ONE only where it ended there."""
    said = receipt.sites.get(site)
    return said is not None and not said.open and bool(said.due or not receipt.entry.flags & ONE)
