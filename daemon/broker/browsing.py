"""What a topic holds, as front ends are shown it."""

import math
from bisect import bisect_right
from collections.abc import AsyncGenerator
from typing import Final

import trio

from daemon.broker.bodies import Bodies, Stored
from daemon.broker.reading import Reading
from daemon.frontend import HeldMessage, HeldPage
from daemon.system.clock import Clock
from daemon.system.stepping import in_steps
from routing.door import Door
from routing.queue import Entry
from routing.view import SiteView

PAGE_BYTES_MAX: Final = 4 * 2**20
"""Messages on one page; a larger body is on a page of its own.

Of those that are in memory only the bodies count, as they are there in any case. Of others nobody knows how
long their headers are before they are read: the last one that is may be too large.
"""

FOUND_AT_ONCE: Final = 2_000
"""Messages that are found in one look at all that are in no order."""


class Browsing:
    """Reads what is not in memory; owned by the broker."""

    def __init__(self, door: Door, bodies: Bodies, reading: Reading, clock: Clock) -> None:
        self._door = door
        self._bodies = bodies
        self._reading = reading
        self._clock = clock

    async def page(self, topic: str, after: int, count: int, *, backwards: bool = False) -> HeldPage:
        """See `daemon.frontend.Session.browse`; what is just decided, and nowhere yet, is not shown."""
        return await self._page(topic, after, count, None, backwards=backwards)

    async def every(
        self, topic: str, after: int, count: int, at_once: int
    ) -> AsyncGenerator[list[HeldMessage], None]:
        """The same, so many on a page, with what only waits for those who were there, or for other sites."""
        scattered = Scattered(self._door.view, topic)
        while count > 0:
            page = await self._page(topic, after, min(count, at_once), scattered)
            yield page.held
            if not page.more:
                return
            count -= len(page.held)
            after = page.held[-1].message_id

    async def _page(
        self, topic: str, after: int, count: int, scattered: "Scattered | None", *, backwards: bool = False
    ) -> HeldPage:
        held: list[HeldMessage] = []
        room = PAGE_BYTES_MAX
        while True:
            wanted = count - len(held)
            shown = await self._shown(topic, after, wanted, scattered, backwards=backwards)
            fitting = _fitting(shown, room, at_least=0 if held else 1)
            found = {entry.id: self._bodies.find(entry.id) for entry, _ in fitting}
            loaded: dict[int, Stored] = {}
            if missing := [id for id, stored in found.items() if stored is None]:
                loaded, count_read = await self._reading.load_some(missing, room)
                if count_read < len(missing):
                    fitting = fitting[: list(found).index(missing[count_read])]
            else:
                await trio.lowlevel.checkpoint()
            for entry, locked in fitting:
                if (stored := found[entry.id] or loaded.get(entry.id)) is not None:
                    held.append(self._held(entry, stored, locked=locked))
                    room -= len(stored.wire) if entry.id in loaded else entry.size
            if len(fitting) == len(shown) < wanted:
                return HeldPage(held, more=False)
            if len(held) == count or (held and len(fitting) < len(shown)):
                return HeldPage(held, more=True)
            # some ended while they were being read
            after = fitting[-1][0].id

    async def _shown(
        self, topic: str, after: int, count: int, scattered: "Scattered | None", *, backwards: bool
    ) -> list[tuple[Entry, bool]]:
        """What the view shows, without what is among the router's decisions, and so nowhere yet."""
        besides = None if scattered is None else await scattered.after(after, count)
        view, newest = self._door.view, self._bodies.newest_id
        if backwards:
            return view.browse_back(topic, min(after or newest + 1, newest + 1), count)
        return [each for each in view.browse(topic, after, count, scattered=besides) if each[0].id <= newest]

    def _held(self, entry: Entry, stored: Stored, *, locked: bool) -> HeldMessage:
        left_s = entry.deadline - self._clock.now()
        return HeldMessage(
            message_id=entry.id,
            smuid=entry.smuid(self._door.server),
            locked=locked,
            stored=stored,
            expires_in_s=None if entry.deadline == math.inf else max(left_s, 0.0),
        )


def _fitting(shown: list[tuple[Entry, bool]], room: int, at_least: int) -> list[tuple[Entry, bool]]:
    """As many of them, from the first, as have room, and so many in any case."""
    for number, (entry, _) in enumerate(shown):
        room -= entry.size
        if room < 0 and number >= at_least:
            return shown[:number]
    return shown


class Scattered:
    """What a topic holds in no order: the first of it by id, which are found once for many pages."""

    def __init__(self, view: SiteView, topic: str) -> None:
        self._view = view
        self._topic = topic
        self._found: list[Entry] = []
        self._are_all = False

    async def after(self, id: int, count: int) -> list[Entry]:
        """Up to `count` entries that are held now, by id; others run where they are to be found first."""
        while True:
            later = self._found[bisect_right(self._found, id, key=_id) :]
            held = [entry for entry in later if self._view.entry(entry.id) is entry][:count]
            if len(held) == count or self._are_all:
                return held
            await self._find(id)

    async def _find(self, after: int) -> None:
        topic = self._view.found_topic(self._topic)
        found: dict[int, Entry] = {}
        last = math.inf
        async for some in in_steps(() if topic is None else self._view.scattered(topic)):
            found |= {
                entry.id: entry
                for entry in some
                if after < entry.id < last and entry.topic is topic and self._view.entry(entry.id) is entry
            }
            if len(found) > 2 * FOUND_AT_ONCE:
                found = dict(sorted(found.items())[:FOUND_AT_ONCE])
                last = max(found)
        self._are_all = last == math.inf
        self._found = [entry for _, entry in sorted(found.items())]


def _id(entry: Entry) -> int:
    return entry.id
