"""Places for strangers in their handshake: so many in all, and when they are full, fair by address.

Who comes then takes the place of the one that has waited longest of the address that has most, unless that is
its own: a flood from one address costs nobody else a link.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Handshakes:
    """The places of one listening site; addresses are as `daemon.connections.addresses` counts them."""

    def __init__(self, places_max: int) -> None:
        self._places_max = places_max
        self._taken: dict[str, list[trio.CancelScope]] = {}
        self._count = 0

    @contextmanager
    def admit(self, address: str) -> Iterator[bool]:
        """A place for the time of the block, which is cancelled where another address has to have it.

        False where there is no place: the address itself has as many as any.
        """
        own = self._taken.get(address, [])
        if self._count >= self._places_max:
            most = max(self._taken, key=lambda name: len(self._taken[name]))
            if len(own) + 1 >= len(self._taken[most]):
                yield False
                return
            oldest = self._taken[most][0]
            oldest.cancel()
            self._leave(most, oldest)
        with trio.CancelScope() as place:
            self._taken.setdefault(address, []).append(place)
            self._count += 1
            try:
                yield True
            finally:
                self._leave(address, place)

    def _leave(self, address: str, place: trio.CancelScope) -> None:
        places = self._taken.get(address, [])
        if place in places:
            places.remove(place)
            self._count -= 1
            if not places:
                del self._taken[address]
