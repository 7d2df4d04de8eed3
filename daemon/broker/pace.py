"""How fast somebody may publish: a rate, and a burst that may come at once before it holds.

A token bucket that may be overdrawn: who takes more than there is waits until it would be there again, so
that nothing has to be refused to who waits.
"""


class Pace:
    """Begins full. `rate_per_s` 0 is no limit; `burst` is 1 or more."""

    def __init__(self, now: float) -> None:
        self.rate_per_s = 0.0
        self._burst = 1.0
        self._tokens = 0.0
        self._at = now

    def limit(self, rate_per_s: float, burst: float, now: float) -> None:
        """Take on other limits; `burst` 0 is what comes in a second."""
        burst = max(burst or rate_per_s, 1.0)
        if (rate_per_s, burst) == (self.rate_per_s, self._burst):
            return
        self._tokens = min(self._tokens, burst) if self.rate_per_s else burst
        self.rate_per_s, self._burst, self._at = rate_per_s, burst, now

    def take(self, now: float) -> float:
        """Note a message; returns the seconds until another one may come."""
        rate_per_s = self.rate_per_s
        if not rate_per_s:
            return 0.0
        self._tokens = min(self._burst, self._tokens + (now - self._at) * rate_per_s) - 1.0
        self._at = now
        return max(1.0 - self._tokens, 0.0) / rate_per_s
