"""Messages read back from the store; one that cannot be read is set aside, and blocks nobody.

That is one whose checksum is wrong, whose bytes are no message, at which the disk or SQLite fails, or which
is not there. It ends at this site with the record `dropped`, which says so; what there is of it goes into the
quarantine (`daemon.store.tables.quarantine`).
"""

import logging
import math
from collections.abc import Sequence
from typing import Final

import trio

from daemon.broker.asking import Asker
from daemon.broker.bodies import Stored
from daemon.store.store import Loaded, Store
from routing.door import Door
from routing.errors import Refusal
from routing.queue import Entry

_log = logging.getLogger(__name__)

NOT_STORED: Final = "it is not in the store"

TOLD_MAX: Final = 20
TOLD_EVERY_S: Final = 60.0
"""So many have a line in the log each; after them, one in so long a time."""


class Reading:
    """Owned by the broker.

    Attributes:
        lock: held while a thread reads.
    """

    def __init__(self, door: Door, store: Store) -> None:
        self._door = door
        self._store = store
        self.lock = trio.Lock()
        self._unread = 0
        self._told_at = -math.inf

    async def load_some(self, ids: Sequence[int], bytes_max: float) -> tuple[dict[int, Stored], int]:
        """The first of these messages, until they have so many bytes, and how many of `ids` that were.

        Those that have ended, or cannot be read, are left out.
        """
        if not ids:
            return {}, 0
        async with self.lock:
            loaded = await trio.to_thread.run_sync(self._store.load, ids, bytes_max)
        found = _decoded(loaded)
        for id in ids[: loaded.ids]:
            entry = self._door.view.entry(id)
            if id not in found and entry is not None:
                self._set_aside(entry, loaded.unreadable.get(id, NOT_STORED))
        return found, loaded.ids

    def load_now(self, entry: Entry) -> Stored | None:
        """One message, for the thread of the event loop; None where it cannot be read."""
        loaded = self._store.load([entry.id])
        found = _decoded(loaded).get(entry.id)
        if found is None:
            self._set_aside(entry, loaded.unreadable.get(entry.id, NOT_STORED))
        return found

    def _set_aside(self, entry: Entry, reason: str) -> None:
        smuid = entry.smuid(self._door.server)
        self._tell(smuid, entry.topic.name, reason)
        self._door.set_aside(entry, f"it cannot be read and was set aside: {reason}")

    def _tell(self, smuid: str, topic: str, reason: str) -> None:
        self._unread += 1
        now = trio.current_time()
        if self._unread > TOLD_MAX and now - self._told_at < TOLD_EVERY_S:
            return
        self._told_at = now
        _log.error("%s to %s cannot be read and was set aside: %s", smuid, topic, reason)
        if self._unread >= TOLD_MAX:
            _log.error("%d messages could not be read so far; not each is named here", self._unread)

    async def drop(self, smuid: str) -> int:
        """Forget what was set aside of a message, or of all (""), for good; how many that were.

        Raises Refusal where the store fails.
        """
        async with self.lock:
            every = await trio.to_thread.run_sync(self._store.quarantined)
        count = sum(1 for one in every if smuid in ("", one.smuid))
        if count:
            asker = Asker()
            request = asker.request()
            self._door.drop_set_aside(smuid, asker.consumer, request)
            await asker.answer(request)
        return count


def _decoded(loaded: Loaded) -> dict[int, Stored]:
    """What is a message; the rest is `unreadable` from now on."""
    found = {}
    for id, wire in loaded.wires.items():
        stored = Stored(wire=wire)
        try:
            _ = stored.message
        except Refusal as refusal:
            loaded.unreadable[id] = f"its bytes are no message ({refusal.text})"
        else:
            found[id] = stored
    return found
