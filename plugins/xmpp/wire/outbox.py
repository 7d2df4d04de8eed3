"""What waits to be sent to the server, and what was sent but may not have been read by it.

XEP-0114 acknowledges nothing. A server handles the stanzas of a stream in their order, though, so a ping
that the component sends to itself proves, when it comes back, that everything before it has been routed.
Each write ends with such a mark unless one is still on its way; until the mark is back, what was written
counts as not delivered. When the stream breaks, what may come twice is sent again over the next one (a
client ignores the answer to a question it no longer asks), and what else was written is reported as lost to
whoever sent it, who knows whether it may be repeated. What was not written yet goes over the next stream,
unless nobody has asked what becomes of it: that is made anew for each stream.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

WRITE_BYTES: Final = 65_536
MARK_PREFIX: Final = "mark-"


class Outgoing(msgspec.Struct):
    """One stanza.

    Attributes:
        settled: called once, with whether the server has certainly read it; None where nobody asks.
        again: send it again over the next stream instead of reporting it lost.
    """

    data: bytes
    settled: Callable[[bool], None] | None = None
    again: bool = False


class StanzaOutbox:
    """The order of what is sent. `mark` makes the ping with the id it is given."""

    def __init__(self, mark: Callable[[str], bytes]) -> None:
        self._mark = mark
        self._waiting: deque[Outgoing] = deque()
        self._written: deque[Outgoing] = deque()
        self._marks = 0
        self._behind_mark = 0
        self.mark_out = False
        self.bytes = 0
        """Of all that is not known to have been read."""
        self.unwritten_bytes = 0

    def put(self, stanza: Outgoing) -> None:
        """Add to the end."""
        self._waiting.append(stanza)
        self.bytes += len(stanza.data)
        self.unwritten_bytes += len(stanza.data)

    @property
    def has_work(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._waiting) or (not self.mark_out and bool(self._written))

    def take(self, *, force_mark: bool = False) -> bytes:
        """What to write next, about `WRITE_BYTES`, ending in a mark if none is on its way."""
        parts: list[bytes] = []
        size = 0
        while self._waiting and size < WRITE_BYTES:
            stanza = self._waiting.popleft()
            parts.append(stanza.data)
            size += len(stanza.data)
            self._written.append(stanza)
        self.unwritten_bytes -= size
        if not self.mark_out and (self._written or force_mark):
            self.mark_out = True
            self._marks += 1
            self._behind_mark = len(self._written)
            parts.append(self._mark(f"{MARK_PREFIX}{self._marks}"))
        return b"".join(parts)

    def marked(self, id: str) -> None:
        """Settle what was written before a mark that has come back: it has been read."""
        if not self.mark_out or id != f"{MARK_PREFIX}{self._marks}":
            return
        self.mark_out = False
        for _ in range(self._behind_mark):
            stanza = self._written.popleft()
            self.bytes -= len(stanza.data)
            if stanza.settled is not None:
                stanza.settled(True)

    def drop(self) -> None:
        """Drop what was not written, but for what may come twice: there has been no stream for long."""
        dropped = [stanza for stanza in self._waiting if not stanza.again]
        self._waiting = deque(stanza for stanza in self._waiting if stanza.again)
        size = sum(len(stanza.data) for stanza in dropped)
        self.bytes -= size
        self.unwritten_bytes -= size
        for stanza in dropped:
            if stanza.settled is not None:
                stanza.settled(False)

    def broken(self) -> None:
        """Note that the stream is gone: keep what goes over the next, report what may have been lost."""
        kept = [stanza for stanza in self._written if stanza.again]
        kept += [stanza for stanza in self._waiting if stanza.again or stanza.settled is not None]
        lost = [stanza.settled for stanza in self._written if not stanza.again and stanza.settled is not None]
        self._written.clear()
        self._waiting.clear()
        self.mark_out = False
        self.bytes = self.unwritten_bytes = 0
        for stanza in kept:
            self.put(stanza)
        for settled in lost:
            settled(False)
