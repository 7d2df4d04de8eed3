"""When a peer is dialled again: soon at first, then ever later, and never in step with others."""

import random

import trio


class BackOff:
    """Delays that double up to a bound, each with a random half, so that sites do not dial in step."""

    def __init__(self, first_s: float, max_s: float, source: random.Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._random = source
        self._failures = 0
        self._hurry = trio.Event()

    def succeeded(self) -> None:
        """Let the next delay be a first one again."""
        self._failures = 0

    def hurry(self) -> None:
        """End the delay that is under way: something has changed."""
        self._hurry.set()

    async def wait(self) -> None:
        """Wait before the next dial."""
        delay_s = min(self._first_s * 2 ** min(self._failures, 32), self._max_s)
        self._failures += 1
        self._hurry = trio.Event()
        with trio.move_on_after(delay_s * self._random.uniform(0.5, 1.0)):
            await self._hurry.wait()
