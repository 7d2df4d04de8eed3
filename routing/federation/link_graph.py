"""The links that all sites say they have, at one moment, and what may cross them. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from routing.message import DEPTH_UNLIMITED
from routing.peering.copies import capped, onward

SHUT_MAX: Final = 1_000
"""Topics of which it is remembered which links are shut to them."""

Shut = frozenset[tuple[str, str]]

OPEN: Final[Shut] = frozenset()
"""Of links: none that may not be crossed."""


class LinkEnd(msgspec.Struct, frozen=True):
    """What one site says of its link with one peer; see `routing.peering.copies.PeerRules`.

    Attributes:
        is_limited: not all topics may come from the peer, or go there.
    """

    up: bool = True
    depth_max: int = DEPTH_UNLIMITED
    flood: bool = False
    is_limited: bool = False


_UNSAID: Final = LinkEnd()


class Neighbours(dict[str, Collection[str]]):
    """By site, the peers with which it has a link, up or down, found when they are asked for."""

    def __init__(self, said: Mapping[str, Mapping[str, LinkEnd]]) -> None:
        super().__init__()
        self._said = said

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """By site that says nothing, those that say that it is their peer."""
        said, found = self._said, dict[str, list[str]]()
        for site, peers in said.items():
            if not peers.keys() <= said.keys():
                for peer in peers:
                    if peer not in said:
                        found.setdefault(peer, []).append(site)
        return found

    def __missing__(self, site: str) -> Collection[str]:
        said = self._said
        if site not in said:
            return self.named.get(site, ())
        # what one says and the other denies is no link
        found = {peer: None for peer in said[site] if peer not in said or site in said[peer]}.keys()
        self[site] = found
        return found


class LinkGraph:
    """What each site says of its links, and what follows from that for one link.

    Args:
        said: by site, what it says of its link with each peer; a site that says nothing is not in it, and
            has those links that its peers say it has.
        may_cross: whether the rules of a link let a message pass; sender, receiver and topic.

    Attributes:
        neighbours: by site, the peers with which it has a link.
    """

    def __init__(
        self, said: Mapping[str, Mapping[str, LinkEnd]], may_cross: Callable[[str, str, str], bool]
    ) -> None:
        self.said = said
        self.neighbours = Neighbours(said)
        self._may_cross = may_cross
        self._shut: dict[str, Shut] = {}

    def __contains__(self, site: str) -> bool:
        return bool(self.neighbours[site])

    @property
    def sites(self) -> Iterator[str]:
        """Those that say something, after those of which only their peers do; some may have no link."""
        yield from self.neighbours.named
        yield from self.said

    def _end(self, site: str, peer: str) -> LinkEnd:
        return self.said.get(site, {}).get(peer, _UNSAID)

    # -- up, or down ------------------------------------------------------------------------------

    def is_up(self, site: str, peer: str) -> bool:
        """Whether a link is up at both ends, or at the only one that says anything."""
        said = self.said
        own, other = said.get(site), said.get(peer)
        if own is not None and not own.get(peer, _UNSAID).up:
            return False
        return other is None or other.get(site, _UNSAID).up

    def is_linked(self, site: str) -> bool:
        """Whether a link of a site is up."""
        return any(self.is_up(site, peer) for peer in self.neighbours[site])

    # -- what may cross ---------------------------------------------------------------------------

    @cached_property
    def limited(self) -> Shut:
        """The links, from and to, that not all topics may cross."""
        return frozenset(
            (one, other)
            for site, peers in self.said.items()
            for peer, end in peers.items()
            if end.is_limited and peer in self.neighbours[site]
            for one, other in ((site, peer), (peer, site))
        )

    @cached_property
    def has_bounds(self) -> bool:
        """Whether a link bounds the depth of what crosses it."""
        ends = (end for peers in self.said.values() for end in peers.values())
        return any(end.depth_max != DEPTH_UNLIMITED for end in ends)

    @property
    def stop_some(self) -> bool:
        """Whether it depends on the message which ways there are."""
        return self.has_bounds or bool(self.limited)

    def shut(self, topic: str) -> Shut:
        """The links, from and to, that a message of a topic may not cross."""
        if not self.limited:
            return OPEN
        found = self._shut.get(topic)
        if found is None:
            if len(self._shut) >= SHUT_MAX:
                self._shut.clear()
            found = frozenset(link for link in self.limited if not self._may_cross(*link, topic))
            self._shut[topic] = found
        return found

    def coming(self, depth: int, sender: str, receiver: str) -> int | None:
        """The depth with which a message comes to the next site; None if it may not go there."""
        going = onward(depth)
        return None if going is None else capped(going, self.depth_max(sender, receiver))

    def depth_max(self, sender: str, receiver: str) -> int:
        """The depth with which a message that comes over a link is taken at most."""
        return self._end(receiver, sender).depth_max

    def flooding(self, sites: Iterable[str]) -> tuple[str, str] | None:
        """One of these sites, and a peer to which it sends everything within depth; None where none does.

        A link that the peer says it has not got is none.
        """
        for site in sites:
            for peer, end in self.said.get(site, {}).items():
                if end.flood and peer in self.neighbours[site]:
                    return site, peer
        return None
