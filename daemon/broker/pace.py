"""How fast somebody may publish: a rate, and a burst that may come at once before it holds.

A token bucket, which only what has to be taken together overdraws: then nothing more may come until that is
paid for.
"""

from typing import Final

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
