"""Between the router and the links: carries what the router wants told to peers, brings what peers say.

Implements `daemon.link.port.RouterPort`. The router's decisions come here as effects, so that a peer is
told nothing that is not on disk. Copies stay in the router's hands until a peer has answered for them:
when a link goes down the links forget what was sent, and on the next one the router sends it again.

A copy whose message is in memory goes at once while the link has room; others wait in order, and are
loaded from the store when there is.
"""

import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import trio

from daemon.broker.bodies import Bodies, Stored
from daemon.broker.deferred_copies import DeferredCopies
from daemon.broker.hearing import Hearing
from daemon.broker.transfers import arrival_of, refused
from daemon.control.enquiring import Enquiring
from daemon.hops.examine import Awaited
from daemon.link.controls import (
    CHANGES_MAX,
    DestinationsTold,
    InterestTold,
    NewsKnown,
    NewsTold,
    ReceiptTold,
    Removed,
    WantsTold,
    transfer_flags,
)
from daemon.link.peers_file import PeerEntry
from daemon.link.port import Arrived, ControlArrived, Links
from daemon.link.refusals import Refusals
from daemon.system.clock import Clock
from daemon.system.mishaps import OWN_ERROR, Mishaps
from routing.copy_states import is_on_offer
from routing.decisions import Refused
from routing.door import Door
from routing.errors import Refusal
from routing.link.agreement import Agreement
from routing.link.sender import Settled
from routing.link.units import Control, Lane, Probe, Transfer
from routing.message import Message
from routing.peering.copies import Answered, Arrival, PeerRules
from routing.peering.counts import COUNTS
from routing.peering.decisions import (
    AcknowledgeUnit,
    Send,
    TellCounts,
    TellDestinations,
    TellInterest,
    TellKnownNews,
    TellNews,
    TellReceipt,
    TellRemoved,
    TellWants,
)
from routing.peering.news import DESTINATIONS, NEWS
from routing.peering.wants import PATTERNS, WANTS_FROM_NEWS
from routing.queue import GUARANTEED, ONE, STATED

_log = logging.getLogger(__name__)

URGENT_PRIORITY: Final = 5
"""From here on a copy does not wait behind others of less."""

LOAD_MAX: Final = 64
"""Messages of those that wait for a peer that are looked for at a time."""

LOAD_BYTES: Final = 2**20
"""Read from disk for a peer at a time: a message of any size, or several until they have so many bytes."""

BACKLOG_MAX: Final = 20_000
"""Decisions that wait for the disk; above it peers are read no further."""


class Federating:
    """The site among its peers, as the broker runs it.

    Args:
        wake: has the broker carry out what there is, if only that it does.
        load_some: reads messages, as `Reading.load_some` does.
        has_room: whether a message of so many bytes to a topic can be held now.
        store_has_room: whether the store can take copies from peers now.

    Attributes:
        links: set before the links run; without, the site has no peers.
        effects: how the router's decisions for peers are carried out.
        enquiring: questions that travel over the links.
    """

    def __init__(
        self,
        door: Door,
        bodies: Bodies,
        clock: Clock,
        wake: Callable[[], None],
        load_some: Callable[[Sequence[int], float], Awaitable[tuple[dict[int, Stored], int]]],
        has_room: Callable[[str, int], bool],
        store_has_room: Callable[[], bool],
        mishaps: Mishaps,
    ) -> None:
        self.links: Links | None = None
        self._door = door
        self._bodies = bodies
        self._clock = clock
        self._wake = wake
        self._load_some = load_some
        self._store_has_room = store_has_room
        self._mishaps = mishaps
        self._deferred = DeferredCopies(self._has_room_for, self._door.outlook.would_hold)
        self._waiting: dict[str, deque[Send]] = {}
        self._opening: Counter[str] = Counter()
        self._due = trio.Event()
        self._room = trio.lowlevel.ParkingLot()  # of every lane of every link
        self._probes: list[tuple[str, Probe]] = []
        self._connections: dict[str, int] = {}  # by peer, the number of that by which copies came last
        self._refusals = Refusals(_log)
        self.enquiring = Enquiring(door, clock, wake, self._tell, self._why_down, has_room, self.awaited)
        self._hearing = Hearing(door, self.enquiring, self._refusals)
        self.effects: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            AcknowledgeUnit: self._acknowledge,
            TellInterest: self._tell_interest,
            TellReceipt: self._tell_receipt,
            TellCounts: self._tell_counts,
            TellRemoved: self._tell_removed,
            TellDestinations: self._tell_destinations,
            TellKnownNews: self._tell_known_news,
            TellNews: self._tell_news,
            TellWants: self._tell_wants,
        }

    # -- to the peers -----------------------------------------------------------------------------

    def _send(self, d: Send) -> None:
        waiting = self._waiting.get(d.peer)
        if waiting is None or self.links is None:
            return
        stored = self._bodies.find(d.copy.entry.id)
        if not d.copy.entry.flags & GUARANTEED:
            if stored is not None and self.links.has_memory(d.peer):
                self._transfer(d, stored.wire)
            else:
                self._drop(d)
        elif stored is not None and self.links.has_room(d.peer) and not waiting:
            self._transfer(d, stored.wire)
        else:
            waiting.append(d)
            self._due.set()

    def _drop(self, d: Send) -> None:
        """Without the field `peer`, which of a dropped copy says whom it came from."""
        entry = d.copy.entry
        reason = f"more waits for the link with {d.peer} than fits"
        smuid = entry.smuid(self._door.server)
        self._door.not_copied(
            Refused("dropped", entry.topic.name, "", reason, entry.size, smuid, depth=d.depth)
        )

    def _transfer(self, d: Send, wire: bytes) -> None:
        assert self.links is not None
        entry = d.copy.entry
        left_s = max(entry.deadline - self._clock.now(), 0.0) if entry.flags & STATED else None
        unit = Transfer(
            topic=entry.topic.name,
            wire=wire,
            attempt=d.attempt,
            depth=d.depth,
            hops=(*d.copy.hops, self._door.server),
            timeout_left_s=left_s,
            mode="ONE" if entry.flags & ONE else "ALL",
            guarantee=bool(entry.flags & GUARANTEED),
            flags=transfer_flags(d.query, d.earlier),
            destinations=d.destinations,
            reference=entry.id,
        )
        self.links.send(d.peer, unit, Lane.URGENT if entry.priority >= URGENT_PRIORITY else Lane.BULK)

    async def run(self) -> None:
        """Send what had to wait, as soon as there is room for it. Runs until cancelled."""
        while True:
            await self._due.wait()
            self._due = trio.Event()
            for peer in list(self._waiting):
                try:
                    await self._send_waiting(peer)
                except Exception as error:  # of ours: a new link begins with all that is owed
                    self._mishaps.note(f"what waits for {peer}", error)
                    self.end_link(peer, OWN_ERROR)

    async def _send_waiting(self, peer: str) -> None:
        waiting = self._waiting.get(peer)
        while waiting and self.links is not None and self.links.has_room(peer):
            sends = list(islice(waiting, LOAD_MAX))
            found = {send.copy.entry.id: self._bodies.find(send.copy.entry.id) for send in sends}
            missing = [id for id, stored in found.items() if stored is None]
            loaded, count_read = await self._load_some(missing, LOAD_BYTES)
            if self._waiting.get(peer) is not waiting:
                return
            unread = missing[count_read : count_read + 1]
            for send in sends:
                entry = send.copy.entry
                if entry.id in unread:
                    break
                waiting.popleft()
                stored = found[entry.id] or loaded.get(entry.id)
                # the rules of the peer may have changed meanwhile
                is_due = is_on_offer(entry) and send.copy.unanswered(peer) is not None
                if is_due and stored is not None:
                    self._transfer(send, stored.wire)

    def _acknowledge(self, d: AcknowledgeUnit) -> None:
        if self.links is not None:
            self.links.acknowledge(d.peer, d.unit.connection, [d.unit.number], d.outcome, d.reason)

    def _tell_interest(self, d: TellInterest) -> None:
        if d.opens:
            self._open(d.peer)
            if not d.whole:
                return
        for first in range(0, max(len(d.changes), 1), CHANGES_MAX):
            changes = d.changes[first : first + CHANGES_MAX]
            more = first + CHANGES_MAX < len(d.changes)
            self._tell(d.peer, "interest", InterestTold(changes, d.whole, more))

    def _open(self, peer: str) -> None:
        """What follows was decided for a link that came up.

        What had been decided before it came up must not go over it: the router sends that again, in order.
        """
        self._opening[peer] -= 1
        if not self._opening[peer]:
            del self._opening[peer]
            if self._door.outlook.is_up(peer):
                self._waiting[peer] = deque()

    def _tell_receipt(self, d: TellReceipt) -> None:
        told = ReceiptTold(d.query, d.due, d.have, d.closed)
        self._tell(d.peer, "receipt", told, d.query if d.closed else None)

    def _tell_counts(self, d: TellCounts) -> None:
        self._tell(d.peer, "counts", d.told)

    def _tell_removed(self, d: TellRemoved) -> None:
        self._tell(d.peer, "removed", Removed(d.smuid, d.topic), d.number)

    def _tell_destinations(self, d: TellDestinations) -> None:
        self._tell(d.peer, d.word, DestinationsTold(d.sites))

    def _tell_known_news(self, d: TellKnownNews) -> None:
        for first in range(0, max(len(d.has), 1), CHANGES_MAX):
            more = first + CHANGES_MAX < len(d.has)
            self._tell(d.peer, "news-known", NewsKnown(d.has[first : first + CHANGES_MAX], more))

    def _tell_news(self, d: TellNews) -> None:
        signed, age_s = d.news.signed, max(self._clock.now() - d.news.said_at, 0.0)
        told = NewsTold(
            signed.statement, signed.certificate, signed.signature, age_s=age_s, buckets=d.buckets
        )
        self._tell(d.peer, "news", told, d.number)

    def _tell_wants(self, d: TellWants) -> None:
        said = d.news.statement
        self._tell(d.peer, "wants", WantsTold(said.site, said.boot, said.number, d.buckets), d.number)

    def _tell(self, peer: str, kind: str, value: msgspec.Struct, reference: int | None = None) -> bool:
        if self.links is None or peer not in self._waiting:
            return False
        payload = msgspec.json.encode(value)
        self.links.send(peer, Control(kind=kind, payload=payload, reference=reference), Lane.CONTROL)
        return True

    def end_link(self, peer: str, reason: str) -> None:
        """End the link with a peer, which begins anew."""
        if self.links is not None:
            self.links.end(peer, reason)

    def awaited(self, smuid: str) -> list[Awaited]:
        """Of which peers an answer for a message is awaited."""
        outlook, found = self._door.outlook, []
        for one in outlook.unanswered(smuid):
            attempt, sent_us = (0, 0) if self.links is None else self.links.last_sent(one.peer, one.entry_id)
            may_have = one.may_have or attempt > 0
            found.append(
                Awaited(one.peer, outlook.is_up(one.peer), may_have, attempt or one.attempt, sent_us)
            )
        return found

    def _why_down(self, peer: str) -> str:
        links = self.links.status() if self.links is not None else []
        return next((link.why_down for link in links if link.peer == peer), "")

    def carried_out(self) -> None:
        """Answer what waited for the broker to have carried out what there was, and take deferred copies."""
        probes, self._probes = self._probes, []
        for peer, probe in probes:
            if self.links is not None:
                self.links.answer_probe(peer, probe)
        self.enquiring.carried_out()
        for arrival in self._deferred.admit(self._clock.now()):
            try:
                self._door.arrive(arrival)
            except Exception as error:  # of ours: it ends the link, as for a copy that did not wait
                self._mishaps.note(f"a copy from {arrival.peer} to {arrival.topic}", error)
                self.end_link(arrival.peer, OWN_ERROR)
        if self._door.view.untaken < BACKLOG_MAX:
            self._room.unpark_all()

    @property
    def again_at(self) -> float:
        """See `DeferredCopies`."""
        return self._deferred.again_at

    def put_back(self, arrivals: list[Arrival]) -> None:
        """Defer copies that were taken, and for the first of which there was no room on the disk."""
        left = [
            one for one in arrivals if one.unit and one.unit.connection == self._connections.get(one.peer)
        ]
        if left:
            self._deferred.put_back(left, self._clock.now())

    def _has_room_for(self, arrival: Arrival) -> bool:
        size = arrival.message.size_bytes
        return self._store_has_room() and self._door.outlook.has_room(arrival.peer, arrival.topic, size)

    # -- from the links ---------------------------------------------------------------------------

    def peers_changed(self, peers: Mapping[str, PeerEntry]) -> None:
        """See `daemon.link.port.RouterPort`."""
        for name in [name for name in self._waiting if name not in peers]:
            del self._waiting[name]
        self.enquiring.peers_changed(peers)
        self._door.set_peers(
            {
                name: PeerRules(
                    allow_in=peer.allow_in,
                    allow_out=peer.allow_out,
                    depth_max=peer.depth_max,
                    flood=peer.flood,
                )
                for name, peer in peers.items()
            }
        )

    def link_up(self, peer: str, agreement: Agreement, restarted: bool) -> None:
        """See `RouterPort`."""
        self._opening[peer] += 1
        self._hearing.forget(peer)
        self.enquiring.link_up(peer, agreement.features)
        self._door.link_up(
            peer,
            restarted=restarted,
            knows_patterns=PATTERNS in agreement.features,
            knows_news=NEWS in agreement.features,
            knows_destinations=DESTINATIONS in agreement.features,
            wants_from_news=WANTS_FROM_NEWS in agreement.features,
            knows_counts=COUNTS in agreement.features,
        )

    def link_down(self, peer: str, reason: str) -> None:
        """See `RouterPort`."""
        self._waiting.pop(peer, None)
        self._hearing.forget(peer)
        self._connections.pop(peer, None)
        self._deferred.forget(peer)
        self._door.link_down(peer)

    def transfer_arrived(self, arrived: Arrived) -> None:
        """See `RouterPort`."""
        try:
            arrival = arrival_of(arrived)
        except Refusal as refusal:
            self.transfer_refused(arrived.peer, arrived.transfer, arrived.message, refusal.text)
            if (number := arrived.transfer.number) and self.links is not None:
                self.links.acknowledge(arrived.peer, arrived.connection, [number], "denied", refusal.text)
            return
        self._connections[arrived.peer] = arrived.connection
        if self._deferred.defer(arrival, self._clock.now()):
            shown = f"copies to {arrival.topic} from {arrival.peer} for now, which keeps them"
            self._refusals.log(arrival.topic, shown, "there is no room")
        else:
            self._door.arrive(arrival)

    def transfer_refused(self, peer: str, transfer: Transfer, message: Message | None, reason: str) -> None:
        """See `RouterPort`."""
        self._door.not_copied(refused(peer, transfer, message, reason))

    def control_arrived(self, arrived: ControlArrived) -> None:
        """See `RouterPort`."""
        self._hearing.hear(arrived)

    def acknowledged(self, peer: str, settled: Settled) -> None:
        """See `RouterPort`."""
        unit = settled.unit
        if isinstance(unit, Transfer):
            answered = Answered(
                settled.outcome,
                unit.attempt,
                settled.sent_us,
                settled.peer_received_us,
                settled.peer_sent_us,
                settled.acknowledged_us,
            )
            self._door.acknowledged(peer, unit.reference, answered)
        elif unit.kind == "removed":
            self._door.removal_arrived(peer, unit.reference)
        elif unit.kind in ("news", "wants"):
            self._door.news_arrived(peer, unit.reference, taken=settled.outcome == "accepted")
        elif unit.reference is not None:
            self._door.answer_arrived(peer, unit.reference)

    def dropped(self, peer: str, transfers: list[Transfer]) -> None:
        """See `RouterPort`. Their records say that they were sent, and nobody waits for an answer."""
        _log.info("%d unguaranteed messages were lost with the link to %s", len(transfers), peer)

    def room(self, peer: str) -> None:
        """See `RouterPort`."""
        self._due.set()

    def probe_arrived(self, peer: str, probe: Probe) -> None:
        """See `RouterPort`."""
        self._probes.append((peer, probe))
        self._wake()

    async def input_room(self) -> None:
        """See `RouterPort`."""
        while self._door.view.untaken >= BACKLOG_MAX:
            await self._room.park()
