"""Which misuse is told of: whoever does it a thousand times a second must not fill the log with it.

Of each bare JID once a minute, and of `TOLD_MAX` JIDs a minute in all; what was passed over is counted.
"""

from typing import Final

INTERVAL_S: Final = 60.0
TOLD_MAX: Final = 100


class Misuse:
    """Of the last minute."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._began_at = 0.0
        self._passed_over = 0

    def noted(self, bare_jid: str, now: float) -> int | None:
        """How many were passed over since the last one that was told of; None where this one is too."""
        if now - self._began_at >= INTERVAL_S:
            self._told.clear()
            self._began_at = now
        if bare_jid in self._told or len(self._told) >= TOLD_MAX:
            self._passed_over += 1
            return None
        self._told.add(bare_jid)
        passed_over, self._passed_over = self._passed_over, 0
        return passed_over
