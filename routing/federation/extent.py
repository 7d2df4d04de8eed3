"""How far a way could be: what is told of wants that are further is not true any more.

Every site is a want too, or says so in news, so each site knows how far the farthest is. Who wants something
is no farther, and ways more than twice as long are of no use even where a link is down: any circle can be
gone round the other way. Where links stop some messages, the farthest is so for those that have to go round
all of these links. The ways to a site itself are hardly longer than there are sites.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

DETOUR_LINKS: Final = 2
"""What a way may be longer than twice the way to the farthest site."""


class Extent:
    """Told where peers tell of sites; bounds are found anew by `measure`.

    Attributes:
        to_site: what is told to be so many links from a peer, or more, is no site.
        to_any: the same of other wants.
    """

    def __init__(self) -> None:
        self.to_site = self.to_any = 0
        self._nearest: dict[str, int] = {}  # links from here to each other site
        self._sites_at: Counter[int] = Counter()  # how many sites there are at each distance

    @property
    def sites(self) -> Collection[str]:
        """Those that peers tell of."""
        return self._nearest.keys()

    def place(self, site: str, distances: Iterable[int]) -> None:
        """Note how far another site is now from the peers that tell of it."""
        before = self._nearest.pop(site, None)
        if before is not None:
            self._sites_at[before] -= 1
            if not self._sites_at[before]:
                del self._sites_at[before]
        told = min(distances, default=None)
        if told is not None:
            nearest = self._nearest[site] = told + 1
            self._sites_at[nearest] += 1

    def measure(self, sites: Collection[str], farthest: int) -> None:
        """Find the bounds again; by news there are these sites, the farthest so many links away."""
        # a power of two, so that the bound is the same for nearly every site that comes or goes
        self.to_site = 1 << len(self._nearest.keys() | sites).bit_length()
        farthest = max(farthest, max(self._sites_at, default=0))
        self.to_any = min(self.to_site, 2 * farthest + DETOUR_LINKS)
