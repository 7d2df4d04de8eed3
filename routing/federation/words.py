"""What peers are told of the destinations of copies, gathered until what happens at once is over."""

from collections.abc import Mapping
from typing import Final

from routing.federation.peer import Peer
from routing.link.codec import DESTINATIONS_MAX
from routing.peering.decisions import DestinationsWord, TellDestinations
from routing.state import SiteState

TOLD_MAX: Final = 500  # messages of which one control tells
TOLD_CHARACTERS_MAX: Final = 50_000  # of their sites: above that there is another

SEEN_TO_MAX: Final = 4 * DESTINATIONS_MAX
"""Sites that one copy was ever for."""


class DestinationWords:
    """For peers that are up, and know destinations; others hear nothing."""

    def __init__(self, state: SiteState, peers: Mapping[str, Peer]) -> None:
        self._state = state
        self._peers = peers
        self._untold: dict[tuple[str, DestinationsWord], dict[str, list[str]]] = {}

    def note(self, peer: str, word: DestinationsWord, smuid: str, site: str) -> None:
        """Note what a peer is to be told of a copy; nothing for one that does not know of destinations."""
        known = self._peers.get(peer)
        if known is not None and known.up and known.knows_destinations:
            self._untold.setdefault((peer, word), {}).setdefault(smuid, []).append(site)

    def tell(self) -> None:
        """Tell what there is to be told, together."""
        if not self._untold:
            return
        untold, self._untold = self._untold, {}
        for (peer, word), sites in untold.items():
            some: dict[str, list[str]] = {}
            size = 0
            for smuid, each in sites.items():
                if len(some) == TOLD_MAX or size > TOLD_CHARACTERS_MAX:
                    self._state.out.append(TellDestinations(peer, word, some))
                    some, size = {}, 0
                some[smuid] = list(dict.fromkeys(each))[:SEEN_TO_MAX]
                size += sum(map(len, some[smuid]))
            self._state.out.append(TellDestinations(peer, word, some))
