"""How often somebody may have something done."""


class Allowance:
    """So many at once, and so many a second after that."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._left = at_once
        self._at = 0.0

    def take(self, now: float, count: float = 1.0) -> bool:
        """Whether so many more are allowed now."""
        self._refill(now)
        if self._left < count:
            return False
        self._left -= count
        return True

    def spend(self, now: float, count: float) -> float:
        """Take so many, whether or not they are allowed; in how many seconds nothing is owed any more."""
        self._refill(now)
        self._left -= count
        return max(-self._left / self._per_s, 0.0)

    def give_back(self, count: float) -> None:
        """Give back what was taken and not used."""
        self._left = min(self._left + count, self._at_once)

    def _refill(self, now: float) -> None:
        self._left = min(self._left + max(now - self._at, 0.0) * self._per_s, self._at_once)
        self._at = now
