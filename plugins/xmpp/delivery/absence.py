"""Who is away, and when to look for them again.

    ask_later      a JID was found to be away: after `FIRST_S`, then after pauses that double
    ask_now        a new stream: all that subscribe are looked for at once
    seen           it is let in again, or has no account any more: there is nothing to look for

Nothing else wakes a client that is back and says nothing to the service. Nobody can be asked under a bare
JID, for which its server answers: what waits for it is tried again, and it is there where nothing comes back.
"""

import heapq
from collections.abc import Iterable
from typing import Final

FIRST_S: Final = 5.0
LAST_S: Final = 300.0


class Absence:
    """Those who are away, by JID."""

    def __init__(self) -> None:
        # The next pause, and when the last one ends.
        self._pauses: dict[str, tuple[float, float]] = {}
        self._at: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []

    def ask_now(self, jids: Iterable[str], now: float) -> None:
        """Look for all of these, whatever was known of them."""
        for jid in jids:
            self._pauses[jid] = FIRST_S, now
            self._ask_at(jid, now)

    def ask_later(self, jid: str, now: float) -> None:
        """Look for a JID that is away, after a pause that is longer each time.

        Not after one in which it was tried, and nothing has come back for as long as any pause is.
        """
        if jid in self._at:
            return
        pause_s, tried_at = self._pauses.get(jid, (FIRST_S, now))
        if now - tried_at > LAST_S:
            pause_s = FIRST_S
        at = now + pause_s
        self._pauses[jid] = min(2 * pause_s, LAST_S), at
        self._ask_at(jid, at)

    def _ask_at(self, jid: str, at: float) -> None:
        self._at[jid] = at
        heapq.heappush(self._due, (at, jid))

    def seen(self, jid: str) -> None:
        """Look for a JID no more: it is there, or does not subscribe any more."""
        self._at.pop(jid, None)
        self._pauses.pop(jid, None)

    def due(self, now: float) -> list[str]:
        """Those to be looked for now. Whoever is not found is named again by `ask_later`."""
        jids = []
        while self._due and self._due[0][0] <= now:
            at, jid = heapq.heappop(self._due)
            if self._at.get(jid) == at:
                del self._at[jid]
                jids.append(jid)
        return jids

    def next_at(self) -> float:
        """When `due` has something, at the earliest; inf for never."""
        return self._due[0][0] if self._due else float("inf")
