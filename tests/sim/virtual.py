"""Virtual time and a scheduler that does the same again for the same seed.

Time stands while a task can run, and jumps to the next deadline when none can. trio decides by chance in
which order tasks of one moment run; here that chance is drawn from the seed, so that each seed is another
schedule, and the same seed the same one.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from trio._core import _run as trio_scheduler

STEPS_MAX: Final = 20_000
"""Turns of the scheduler at one moment of virtual time: more is a site that turns in circles."""

LASTS_MAX_S: Final = 3_600.0
"""Of virtual time. Each wait of a run has a bound of minutes, but those for a site to start and to end."""

TICK_S: Final = 1e-9
"""Time never stands quite still: what was rounded to a moment too early is asked again a moment later."""


class Livelock(Exception):
    """Tasks have kept each other busy without an end, or one waits for what never comes."""


class VirtualTime(trio.abc.Clock):
    """Seconds since the start of the run; jumps as soon as nothing can run."""

    def __init__(self) -> None:
        self._now = 0.0

    def start_clock(self) -> None:
        """See `trio.abc.Clock`."""

    def current_time(self) -> float:
        """See `trio.abc.Clock`."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """See `trio.abc.Clock`; trio asks only when no task can run."""
        if deadline == math.inf:
            return math.inf
        self._now = max(self._now + TICK_S, deadline)
        if self._now > LASTS_MAX_S:
            # from here it ends whatever shields itself from being cancelled, too
            raise Livelock(f"the run does not end: {self._now:.0f} s")
        return 0.0


class Restless(trio.abc.Instrument):
    """Ends a run in which time stands still."""

    def __init__(self, clock: VirtualTime) -> None:
        self._clock = clock
        self._now = -1.0
        self._steps = 0
        self.scope: trio.CancelScope | None = None
        self.found = False

    def before_io_wait(self, timeout: float) -> None:
        """See `trio.abc.Instrument`."""
        now = self._clock.current_time()
        if now != self._now:
            self._now, self._steps = now, 0
            return
        self._steps += 1
        if self._steps > STEPS_MAX and self.scope is not None:
            self.found = True
            self.scope.cancel()


def run(seed: int, main: Callable[[], Awaitable[None]]) -> None:
    """Run `main` on virtual time, scheduled by `seed`. Raises Livelock, and what `main` raises."""
    clock = VirtualTime()
    restless = Restless(clock)
    drawn_before = trio_scheduler._r.getstate()
    deterministic_before = trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    trio_scheduler._r.seed(seed)
    trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc] # as trio's own tests do

    async def guarded() -> None:
        with trio.CancelScope() as restless.scope:
            await main()

    threads_before: Any = trio.to_thread.run_sync
    try:
        trio.run(guarded, clock=clock, instruments=[restless])
    except trio.TrioInternalError as error:
        if not isinstance(error.__cause__, Livelock):
            raise
        raise error.__cause__ from None
    finally:
        trio.to_thread.run_sync = threads_before
        trio_scheduler._r.setstate(drawn_before)
        trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = deterministic_before  # type: ignore[misc] # likewise
    if restless.found:
        raise Livelock(f"time stands still at {clock.current_time():.6f} s")
