"""What has been removed: heard of from peers, told on to all others, and told to each that comes back.

What is remembered of it is in `routing.peering.removals`.
"""

from routing.delivery import Deliveries
from routing.federation.forwarding import Forwarding
from routing.federation.peer import Peer
from routing.names import parse_smuid
from routing.peering.decisions import DiscardRemoval, StoreRemoval, TellRemoved
from routing.queue import CROSSES, Entry, own_id
from routing.state import SiteState


class Removing:
    """Removals of messages, at this site and over its links."""

    def __init__(self, state: SiteState, forwarding: Forwarding, deliveries: Deliveries) -> None:
        self._state = state
        self._forwarding = forwarding
        self._deliveries = deliveries

    def entry_id(self, smuid: str) -> int | None:
        """The number at this site of a message that is or was here; None if it never was."""
        seen = self._forwarding.known(smuid)
        if seen is not None:
            return seen.entry_id
        parts = parse_smuid(smuid)
        return own_id(parts) if parts.server == self._state.server else None

    def entry_ids(self, smuid: str) -> list[int]:
        """The numbers of all copies of a message that may be here.

        One of mode ONE may be here again while it is being handed to a peer, who has not answered yet.
        """
        return list(dict.fromkeys((*self._state.crossing.leaving.get(smuid, ()), self.entry_id(smuid) or 0)))

    def held(self, smuid: str) -> list[Entry]:
        """All copies of a message here."""
        state = self._state
        found = [state.entries.get(id) for id in self.entry_ids(smuid)]
        return [entry for entry in found if entry is not None and entry.smuid(state.server) == smuid]

    def note(self, smuid: str, topic: str, now: float, besides: str = "") -> bool:
        """Remember a removal and tell the peers; False if it was known, or if there are no peers."""
        state, peers = self._state, self._forwarding.peers
        if smuid in state.removed or not peers:
            return False
        removal = state.removed.note(smuid, topic, now, besides)
        state.out.append(StoreRemoval(smuid, topic))
        if (dropped := state.removed.make_room()) is not None:
            state.out.append(DiscardRemoval(dropped))
        for name, peer in peers.items():
            if peer.up and name != besides:
                state.out.append(TellRemoved(name, smuid, topic, removal.number))
        return True

    def hear(self, now: float, peer: str, smuid: str, topic: str) -> bool:
        """Remove what a peer says has been removed, and tell all others, once.

        False where that is not for the peer to say: the topic may not come from it, or the message is one of
        another topic, or has never left this site.
        """
        known = self._forwarding.peers.get(peer)
        if known is None or not known.may_come(topic):
            return False
        held = self.held(smuid)
        if not all(entry.topic.name == topic and entry.flags & CROSSES for entry in held):
            return False
        if self.note(smuid, topic, now, besides=peer):
            for entry in held:
                self._deliveries.retract(entry, now)
        return True

    def link_up(self, peer: Peer, *, restarted: bool) -> None:
        """Tell a peer what it is not known to have; all, where it has `restarted`."""
        if restarted:
            peer.has_removals = 0
        for removal in self._state.removed.after(peer.has_removals):
            self._state.out.append(TellRemoved(peer.name, removal.smuid, removal.topic, removal.number))

    def arrived(self, peer: str, number: int) -> None:
        """Note that a peer has a removal on disk, and so, as they are told in order, all before it."""
        if (known := self._forwarding.peers.get(peer)) is not None:
            known.has_removals = max(known.has_removals, number)
