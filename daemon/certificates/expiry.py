"""When certificates and revocation lists end: who is told of it, and from when on.

The daemon says it once a day of each, from 30 days before the end; `smqpd config check`, `smqpd status` and
the service manager show it as well.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

_log = logging.getLogger(__name__)

SOON: Final = timedelta(days=30)
SAID_EVERY: Final = timedelta(days=1)


class Expiry(msgspec.Struct, frozen=True):
    """The end of something in a file; `what` names it there, and `at` is in UTC, aware.

    `since`: from when on it is valid; None where it does not say.
    """

    path: Path
    what: str
    at: datetime
    since: datetime | None = None

    def is_invalid(self, now: datetime) -> bool:
        """Whether it is over at `now` (UTC, aware), or not begun."""
        return self.at <= now or self._is_early(now)

    def _is_early(self, now: datetime) -> bool:
        return self.since is not None and now < self.since

    def words(self, now: datetime) -> str | None:
        """What is to be said of it at `now`; None while it is valid and the end is far."""
        if self._is_early(now):
            begins = f"{self.since:%Y-%m-%d %H:%M} UTC"
            return f"{self.path}: {self.what} is not valid before {begins}; use another, or set the clock"
        if self.at - now >= SOON:
            return None
        if self.is_invalid(now):
            return f"{self.path}: {self.what} expired on {self.at:%Y-%m-%d %H:%M} UTC; renew it"
        days = (self.at - now).days
        left = f"in {days} day{'' if days == 1 else 's'}" if days else "within a day"
        return f"{self.path}: {self.what} expires on {self.at:%Y-%m-%d}, {left}; renew it"


def expiries_of(path: Path, certificates: Iterable[x509.Certificate]) -> list[Expiry]:
    """The ends of the certificates in a file, the first of which is its owner's."""
    found = []
    for number, certificate in enumerate(certificates):
        name = certificate.subject.rfc4514_string()
        what = "the certificate" if number == 0 else f"the certificate of {name}"
        found.append(Expiry(path, what, certificate.not_valid_after_utc, certificate.not_valid_before_utc))
    return found


class ExpiryWatch:
    """Logs what expires soon, or has expired, each once a day."""

    def __init__(self, wall_us: Callable[[], int]) -> None:
        """`wall_us`: Unix time in microseconds."""
        self._wall_us = wall_us
        self.expiries: tuple[Expiry, ...] = ()
        self._said: dict[Expiry, datetime] = {}

    @property
    def now(self) -> datetime:
        """The wall clock's time."""
        return datetime.fromtimestamp(self._wall_us() / 1e6, UTC)

    def watch(self, expiries: Iterable[Expiry]) -> None:
        """Watch these and no others, and say at once what is to be said."""
        self.expiries = tuple(expiries)
        self._said.clear()
        self.look()

    def look(self) -> None:
        """Say what has not been said for a day; to be called more often than that."""
        now = self.now
        for expiry in self.expiries:
            words, said = expiry.words(now), self._said.get(expiry)
            # a clock that was set back must not silence it
            if words is not None and (said is None or abs(now - said) >= SAID_EVERY):
                self._said[expiry] = now
                _log.log(logging.ERROR if expiry.is_invalid(now) else logging.WARNING, "%s", words)
