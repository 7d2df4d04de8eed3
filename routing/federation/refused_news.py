"""What peers would not have of news, as they answer: they have to hear in another way what is wanted there.

One may not trust a site that others do, have no room for what it wants, or be told more than it takes at a
time. What it has from another peer meanwhile it does not refuse any more.
"""

import itertools
from collections.abc import Callable, Iterable

from routing.federation.missed import NEWS
from routing.peering.leaves import Hashes


class RefusedNews:
    """Part of `Spreading`, which tells it what is told.

    Args:
        changed: called with a peer and a site where it refuses something of that now and did not, or the
            other way round.
    """

    def __init__(self, changed: Callable[[str, str], None]) -> None:
        self._changed = changed
        self._numbers = itertools.count(1)
        self._under_way: dict[str, dict[int, tuple[str, frozenset[int]]]] = {}  # by peer and number
        self._refused: dict[str, dict[str, set[int]]] = {}  # `NEWS`, or buckets, by peer and site

    def by(self, peer: str) -> frozenset[str]:
        """The sites of which a peer refuses something."""
        return frozenset(self._refused.get(peer, ()))

    def link_down(self, peer: str) -> None:
        """Forget what a peer refuses, which is told anew on the next link."""
        self._under_way.pop(peer, None)
        self._refused.pop(peer, None)

    def note_told(self, peer: str, site: str, parts: Iterable[int]) -> int:
        """Remember that a peer is told `NEWS` of a site, or buckets; returns the number of the control."""
        number = next(self._numbers)
        self._under_way.setdefault(peer, {})[number] = site, frozenset(parts)
        return number

    def note_answered(self, peer: str, number: int, *, taken: bool) -> None:
        """Remember whether a peer has taken what a control tells."""
        site, parts = self._under_way.get(peer, {}).pop(number, ("", frozenset[int]()))
        if taken:
            self.note_has(peer, site, parts)
        elif parts:
            refused = self._refused.setdefault(peer, {})
            is_new = site not in refused
            refused.setdefault(site, set()).update(parts)
            if is_new:
                self._changed(peer, site)

    def note_has(self, peer: str, site: str, parts: Iterable[int]) -> None:
        """Note that a peer has this, whoever has told it."""
        refused = self._refused.get(peer)
        if refused is not None and site in refused:
            refused[site].difference_update(parts)
            if not refused[site]:
                del refused[site]
                self._changed(peer, site)

    def keep(self, site: str, hashes: Hashes) -> None:
        """Forget all buckets of a site that were refused but these."""
        for peer in list(self._refused):
            parts = self._refused[peer].get(site, set[int]())
            self.note_has(peer, site, parts.difference(hashes, (NEWS,)))

    def forget(self, site: str) -> None:
        """Forget a site of which nothing is known any more."""
        for peer in list(self._refused):
            self.note_has(peer, site, list(self._refused[peer].get(site, ())))
