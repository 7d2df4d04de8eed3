"""Who has the copies that this site saw to, once it holds them no more: whoever comes late with one hears it.

In memory alone, and of the latest. One that is not remembered, as after a start, is taken up again, for its
destinations alone, and goes on to them once more: they answer that they have it, and it ends a second time.
"""

from typing import Final

COPIES_MAX: Final = 50_000
SITES_MAX: Final = 400_000
"""Of all these copies together."""

_NOBODY: Final = frozenset[str]()


class SeenThrough:
    """By Smuid, sites that have it: they have said so, or whoever was asked to see to them has.

    Peers are believed in that, and of one that knows no destinations it is supposed of all behind it, as
    where a copy that is held ends by it.
    """

    def __init__(self) -> None:
        self._sites: dict[str, frozenset[str]] = {}
        self._uncounted: dict[str, frozenset[str]] = {}  # of these, where there are any
        self._count = 0

    def note(self, smuid: str, sites: frozenset[str], uncounted: frozenset[str]) -> None:
        """Remember that all sites that a copy was ever for have it; it may have been here before, for others.

        `uncounted`: those of them that nobody was asked to count.
        """
        before = self._sites.pop(smuid, _NOBODY)
        uncounted |= self._uncounted.pop(smuid, _NOBODY).difference(sites)
        self._sites[smuid] = sites = before | sites if before else sites
        if uncounted:
            self._uncounted[smuid] = uncounted
        self._count += len(sites) - len(before)
        while len(self._sites) > COPIES_MAX or self._count > SITES_MAX:
            oldest = next(iter(self._sites))
            self._count -= len(self._sites.pop(oldest))
            self._uncounted.pop(oldest, None)

    def by(self, smuid: str) -> frozenset[str]:
        """The sites that have it, as far as it is remembered."""
        return self._sites.get(smuid, _NOBODY)

    def counted_by(self, smuid: str) -> frozenset[str]:
        """Those of them that have been asked to count who has it."""
        return self.by(smuid).difference(self._uncounted.get(smuid, _NOBODY))
