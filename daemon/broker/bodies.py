"""The messages themselves: those that have just been published, and a few more, in memory; the rest on disk.

A guaranteed message is certainly here until its transaction is committed, afterwards only while there is
room; an unguaranteed one is nowhere else.
"""

from collections.abc import Collection
from typing import Final

from routing.frames import decode_message, encode_message
from routing.message import Message

RECENT_BYTES_MAX: Final = 16 * 2**20
"""For messages whose subscriber is just behind: they are not read back from disk."""

OVERHEAD_BYTES: Final = 256


class Stored:
    """A message as the broker holds it: encoded, parsed, or both."""

    __slots__ = ("_header_bytes", "_message", "_wire", "shared")

    def __init__(self, *, wire: bytes | None = None, message: Message | None = None) -> None:
        self._wire = wire
        self._message = message
        self._header_bytes: int | None = None
        self.shared: object | None = None
        """For a front end to keep what it has encoded once for many subscribers."""

    @property
    def wire(self) -> bytes:
        """SMQP's header lines, an empty line, and the sections."""
        if self._wire is None:
            assert self._message is not None
            self._wire = encode_message(self._message)
        return self._wire

    @property
    def message(self) -> Message:
        """The message of `wire`, parsed."""
        if self._message is None:
            assert self._wire is not None
            self._message = decode_message(self._wire)
        return self._message

    @property
    def header_bytes(self) -> int:
        """`Message.header_bytes`, found once for all to whom it is delivered."""
        if self._header_bytes is None:
            self._header_bytes = self.message.header_bytes
        return self._header_bytes


class Bodies:
    """Finds messages by their id at this site.

    Attributes:
        newest_id: of what has come here; a message with a higher id is still among the router's decisions.
    """

    def __init__(self, newest_id: int = 0) -> None:
        self.newest_id = newest_id
        self._uncommitted: dict[int, Stored] = {}
        self._unguaranteed: dict[int, Stored] = {}
        self._recent: dict[int, Stored] = {}
        self._recent_bytes = 0

    def keep(self, id: int, stored: Stored) -> None:
        """Hold an unguaranteed message until `discard`."""
        self._unguaranteed[id] = stored
        self.newest_id = max(self.newest_id, id)

    def add(self, id: int, stored: Stored) -> None:
        """Hold a guaranteed message at least until `committed`."""
        self._uncommitted[id] = stored
        self.newest_id = max(self.newest_id, id)

    def committed(self, besides: Collection[int] = ()) -> None:
        """Note that what was added is on disk, so that it may go from memory; these messages are not yet."""
        waiting = {id: self._uncommitted.pop(id) for id in besides if id in self._uncommitted}
        for id, stored in self._uncommitted.items():
            self._recent[id] = stored
            self._recent_bytes += len(stored.wire) + OVERHEAD_BYTES
        self._uncommitted.clear()
        self._uncommitted.update(waiting)
        while self._recent_bytes > RECENT_BYTES_MAX:
            self._drop(next(iter(self._recent)))

    def discard(self, id: int) -> None:
        """Forget a message that has ended."""
        self._unguaranteed.pop(id, None)
        self._uncommitted.pop(id, None)
        if id in self._recent:
            self._drop(id)

    def find(self, id: int) -> Stored | None:
        """The message if it is in memory, else None."""
        return self._recent.get(id) or self._uncommitted.get(id) or self._unguaranteed.get(id)

    def _drop(self, id: int) -> None:
        self._recent_bytes -= len(self._recent.pop(id).wire) + OVERHEAD_BYTES
