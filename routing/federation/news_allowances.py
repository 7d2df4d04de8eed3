"""How much of news peers may tell and ask for, and how often a site may say something, whoever tells it.

What one site can make of others: beyond this its news is refused, and the next one, or who is asked for it,
brings what was missed.
"""

from typing import Final

from routing.federation.allowance import Allowance

SITES_MAX: Final = 2_000

CHECKS_PER_S: Final = 100.0
CHECKS_AT_ONCE: Final = 2.0 * SITES_MAX
"""Signatures that one peer may have looked at: some 0.3 ms each. All that there is fits."""

SAID_PER_S: Final = 1.0
SAID_AT_ONCE: Final = 100.0
"""Pieces that one site may say: twice what it does at most. The longest that can be counts as 76."""

WANTS_PER_S: Final = 2.0**20
WANTS_AT_ONCE: Final = 128.0 * 2**20
"""Bytes of buckets that one peer may tell."""

SITE_WANTS_PER_S: Final = 2.0**16
SITE_WANTS_AT_ONCE: Final = 16.0 * 2**20
"""Bytes of buckets that one site may change: twice what it does, and more than all that it may want."""

ASKS_PER_S: Final = 0.2
ASKS_AT_ONCE: Final = 20.0
"""How often one peer may ask for what it lacks; not again before it has acknowledged the answer."""


class NewsAllowances:
    """Each question takes what it asks for, where that is allowed."""

    def __init__(self) -> None:
        self._checks: dict[str, Allowance] = {}  # by peer
        self._asks: dict[str, Allowance] = {}
        self._bytes_told: dict[str, Allowance] = {}
        self._said: dict[str, Allowance] = {}  # by site
        self._bytes_said: dict[str, Allowance] = {}

    def may_be_checked(self, now: float, peer: str) -> bool:
        """Whether a peer may have one more signature looked at."""
        return self._checks.setdefault(peer, Allowance(CHECKS_PER_S, CHECKS_AT_ONCE)).take(now)

    def may_ask(self, now: float, peer: str) -> bool:
        """Whether a peer may ask once more for what it lacks."""
        return self._asks.setdefault(peer, Allowance(ASKS_PER_S, ASKS_AT_ONCE)).take(now)

    def may_tell(self, now: float, peer: str, size: int) -> bool:
        """Whether a peer may tell a bucket of so many bytes."""
        return self._bytes_told.setdefault(peer, Allowance(WANTS_PER_S, WANTS_AT_ONCE)).take(now, size)

    def may_say(self, now: float, site: str, pieces: float) -> bool:
        """Whether a site may say so many pieces of news."""
        return self._said.setdefault(site, Allowance(SAID_PER_S, SAID_AT_ONCE)).take(now, pieces)

    def may_change(self, now: float, site: str, size: int) -> bool:
        """Whether a site may change a bucket to one of so many bytes."""
        return self._of_changes(site).take(now, size)

    def not_changed(self, site: str, size: int) -> None:
        """Give back what `may_change` took, where it was not the site that changed."""
        self._of_changes(site).give_back(size)

    def _of_changes(self, site: str) -> Allowance:
        return self._bytes_said.setdefault(site, Allowance(SITE_WANTS_PER_S, SITE_WANTS_AT_ONCE))

    def forget_peer(self, peer: str) -> None:
        """Forget how much a peer has told, which is none any more."""
        for allowances in (self._checks, self._asks, self._bytes_told):
            allowances.pop(peer, None)

    def forget_site(self, site: str) -> None:
        """Forget how much a site has said, whose news is forgotten."""
        for allowances in (self._said, self._bytes_said):
            allowances.pop(site, None)
