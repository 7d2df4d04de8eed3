"""What a topic holds, as front ends are shown it."""

import math

import trio

from daemon.broker.bodies import Bodies, Stored
from daemon.broker.reading import Reading
from daemon.frontend import HeldMessage
from daemon.system.clock import Clock
from routing.door import Door
from routing.queue import Entry


class Browsing:
    """Reads what is not in memory; owned by the broker."""

    def __init__(self, door: Door, bodies: Bodies, reading: Reading, clock: Clock) -> None:
        self._door = door
        self._bodies = bodies
        self._reading = reading
        self._clock = clock

    async def page(self, topic: str, after: int, count: int, *, every: bool = False) -> list[HeldMessage]:
        """See `daemon.frontend.Session.browse`; what is just decided, and nowhere yet, is not shown.

        With `every` also what only waits for those who were there.
        """
        held: list[HeldMessage] = []
        while True:
            wanted = count - len(held)
            shown = self._door.view.browse(topic, after, wanted, every=every)
            found = {entry.id: self._bodies.find(entry.id) for entry, _ in shown}
            missing = [id for id, stored in found.items() if stored is None and id <= self._bodies.newest_id]
            if missing:
                found.update(await self._reading.load(missing))
            else:
                await trio.lowlevel.checkpoint()
            held += [
                self._held(entry, stored, locked=locked)
                for entry, locked in shown
                if (stored := found[entry.id]) is not None
            ]
            if len(shown) < wanted or len(held) == count:
                return held
            # some ended while they were being read
            after = shown[-1][0].id

    def _held(self, entry: Entry, stored: Stored, *, locked: bool) -> HeldMessage:
        left_s = entry.deadline - self._clock.now()
        return HeldMessage(
            message_id=entry.id,
            smuid=entry.smuid(self._door.server),
            locked=locked,
            stored=stored,
            expires_in_s=None if entry.deadline == math.inf else max(left_s, 0.0),
        )
