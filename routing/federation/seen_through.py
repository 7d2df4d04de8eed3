"""Who has the copies that this site saw to, once it holds them no more: whoever comes late with one hears it.

In memory alone, and of the latest: one that is not remembered goes on to its destination once more, which
answers that it has it.
"""

from typing import Final

COPIES_MAX: Final = 50_000
SITES_MAX: Final = 8
"""Of one copy: of one for more, nothing is remembered."""

_NOBODY: Final = frozenset[str]()


class SeenThrough:
    """By Smuid, sites that have it: they have said so, or whoever was asked to see to them has.

    Peers are believed in that, and of one that knows no destinations it is supposed of all behind it, as
    where a copy that is held ends by it.
    """

    def __init__(self) -> None:
        self._sites: dict[str, frozenset[str]] = {}

    def note(self, smuid: str, sites: frozenset[str]) -> None:
        """All these sites that a copy was ever for have it."""
        if len(sites) > SITES_MAX:
            return
        self._sites[smuid] = sites
        if len(self._sites) > COPIES_MAX:
            del self._sites[next(iter(self._sites))]

    def by(self, smuid: str) -> frozenset[str]:
        """The sites that have it, as far as it is remembered."""
        return self._sites.get(smuid, _NOBODY)
