"""What each account may use of the site, and uses: sessions, what is held, memory, how fast it publishes.

The bounds are the account's own, else those of all (`[quotas]`), and a reload changes both. What is held of
an account is counted by the router (`routing.shares`), what has begun to come in
`daemon.connections.unfinished`.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Final

from daemon.accounts.accounts import Accounts
from daemon.broker.pace import Pace
from daemon.connections.unfinished import Unfinished
from daemon.metrics import Metrics
from daemon.operating.accounts import Used
from daemon.settings import Settings
from daemon.system.clock import Clock
from routing.errors import Refusal
from routing.quotas import Quotas
from routing.shares import Share

SESSIONS: Final = "sessions_max"
"""What there may be too many of, as the subject of a refusal."""


class AccountUse:
    """All accounts of a site.

    Args:
        held: what the site holds of an account.

    Attributes:
        unfinished: what has begun to come, of all connections.
    """

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        held: Callable[[str], Share],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._held = held
        self._metrics = metrics
        self._clock = clock
        self._sessions: Counter[str] = Counter()
        self._paces: dict[str, Pace] = {}
        self.unfinished = Unfinished(
            lambda: self._settings.limits.unfinished_bytes_max,
            lambda account: self.quotas(account).unfinished_bytes_max,
        )

    def reconfigure(self, settings: Settings) -> None:
        """Take on new bounds."""
        self._settings = settings
        for account in self._paces:
            self._limit_pace(account)

    def quotas(self, account: str) -> Quotas:
        """What an account may use now."""
        return self._accounts.quotas(account, self._settings.quotas)

    def held_max(self, account: str) -> tuple[float, float]:
        """How many messages, and bytes of them, may be held of an account."""
        quotas = self.quotas(account)
        return quotas.held_messages_max or math.inf, quotas.held_bytes_max or math.inf

    def of(self, account: str) -> Used:
        """What an account uses now."""
        share = self._held(account)
        return Used(
            sessions=self._sessions[account],
            held_messages=share.messages,
            held_bytes=share.bytes,
            unfinished_bytes=self.unfinished.of_account(account),
        )

    def begin_session(self, account: str) -> None:
        """Count one more session. Raises Refusal where there are as many as may be."""
        sessions_max = self.quotas(account).sessions_max
        if sessions_max and self._sessions[account] >= sessions_max:
            text = f"{account} is logged in {sessions_max} times, as often as it may (sessions_max)"
            self._metrics.over_quota[SESSIONS] += 1
            raise Refusal(Refusal.TOO_MANY, text, subject=SESSIONS)
        self._sessions[account] += 1

    def end_session(self, account: str) -> None:
        """Count one session less."""
        self._sessions[account] -= 1
        if not self._sessions[account]:
            del self._sessions[account]

    def pace(self, account: str) -> Pace:
        """How fast an account may publish, over all its sessions: also those that come after one another."""
        if account not in self._paces:
            self._paces[account] = Pace(self._clock.now())
            self._limit_pace(account)
        return self._paces[account]

    def _limit_pace(self, account: str) -> None:
        quotas = self.quotas(account)
        rate_per_s, burst = quotas.publish_rate_per_s_max, quotas.publish_burst_max
        self._paces[account].limit(rate_per_s, burst, self._clock.now())
