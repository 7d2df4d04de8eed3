"""How fast somebody may publish: a rate, and a burst that may come at once before it holds.

A token bucket, which only what has to be taken together overdraws: then nothing more may come until that is
paid for.
"""

from typing import Final

from routing.errors import Refusal

PUBLISH_RATE: Final = "publish_rate_per_s_max"
"""What is too fast, as the subject of a refusal."""

ENOUGH: Final = 1.0 - 1e-6
"""Of a token, for a message: who has waited as told has this much, however times are rounded."""


class Pace:
    """Begins full. `rate_per_s` 0 is no limit; `burst` is 1 or more."""

    def __init__(self, now: float) -> None:
        self.rate_per_s = 0.0
        self._burst = 1.0
        self._tokens = 0.0
        self._at = now

    def limit(self, rate_per_s: float, burst: float, now: float) -> None:
        """Take on other limits, with what is overdrawn forgiven; `burst` 0 is what comes in a second."""
        burst = max(burst or rate_per_s, 1.0)
        if (rate_per_s, burst) == (self.rate_per_s, self._burst):
            return
        self._tokens = min(max(self._tokens, 0.0), burst) if self.rate_per_s else burst
        self.rate_per_s, self._burst, self._at = rate_per_s, burst, now

    def wait_s(self, now: float) -> float:
        """Seconds until a message may come."""
        if not self.rate_per_s:
            return 0.0
        tokens = self._tokens_at(now)
        return 0.0 if tokens >= ENOUGH else (1.0 - tokens) / self.rate_per_s

    def take(self, now: float) -> None:
        """Note a message."""
        self._tokens, self._at = self._tokens_at(now) - 1.0, now

    def _tokens_at(self, now: float) -> float:
        return min(self._burst, self._tokens + (now - self._at) * self.rate_per_s)


class SessionPace:
    """Of one session (`own`), and of its account over all of them: a message keeps to both."""

    def __init__(self, account: str, of_account: Pace, now: float) -> None:
        self.own = Pace(now)
        self._account = account
        self._of_account = of_account

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit now."""
        return bool(self.own.rate_per_s or self._of_account.rate_per_s)

    def wait_s(self, now: float) -> float:
        """Seconds until a message may come."""
        return max(self.own.wait_s(now), self._of_account.wait_s(now))

    def keep(self, now: float, *, may_wait: bool) -> None:
        """Note a message. Raises Refusal (too-many) where it is one that has not waited, and had to."""
        if may_wait and (wait_s := self.wait_s(now)):
            raise Refusal(
                Refusal.TOO_MANY,
                f"{self._account} publishes as fast as it may ({PUBLISH_RATE}); try again in {wait_s:.3g} s",
                subject=PUBLISH_RATE,
            )
        self.own.take(now)
        self._of_account.take(now)
