"""News and wants that peers have told, and that were refused for a while: what to ask whom for."""

from collections.abc import Callable
from typing import Final

import msgspec

MISSED_MAX: Final = 2_000
"""Of one peer: who tells what is forged can fill no more than this, and keeps others from nothing."""

MINUTES_MAX: Final = 32
"""Between two times that the same is asked of a peer."""

NEWS: Final = -1
"""In the place of the number of a bucket."""


class _Wait(msgspec.Struct):
    """In how many minutes it is asked for, and after how many of them again."""

    left: int = 1
    then: int = 2


class Missed:
    """Each is asked for after 1, 2, 4 minutes, and so on: what is refused for good costs little."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[tuple[str, int], _Wait]] = {}  # by peer, then by site and bucket

    def note(self, peer: str, site: str, index: int = NEWS) -> None:
        """Remember what a peer told of a site and was refused, or is doubted: a bucket, or its news."""
        waits = self._waits.setdefault(peer, {})
        if len(waits) < MISSED_MAX:
            waits.setdefault((site, index), _Wait())

    def note_news(self, site: str) -> None:
        """Forget that news of a site was missed: it has come, by whichever peer."""
        for waits in self._waits.values():
            waits.pop((site, NEWS), None)

    def note_bucket(self, peer: str, site: str, index: int) -> None:
        """Forget that a bucket was missed, which a peer has told and was taken."""
        if (waits := self._waits.get(peer)) is not None:
            waits.pop((site, index), None)

    def forget(self, peer: str) -> None:
        """Forget all that was missed of a peer whose link is gone: the next one begins anew."""
        self._waits.pop(peer, None)

    def hurry(self) -> None:
        """Let all be asked for within a minute, as others are trusted than before."""
        for waits in self._waits.values():
            for wait in waits.values():
                wait.left, wait.then = 1, 2

    def due(self, needs: Callable[[str, int], bool]) -> set[tuple[str, str]]:
        """Each minute: which peer to ask for which site. `needs`: whether a bucket of one is still needed."""
        due = set()
        for peer, waits in self._waits.items():
            for (site, index), wait in list(waits.items()):
                if index != NEWS and not needs(site, index):
                    del waits[site, index]
                    continue
                wait.left -= 1
                if wait.left <= 0:
                    wait.left, wait.then = wait.then, min(2 * wait.then, MINUTES_MAX)
                    due.add((peer, site))
        return due
