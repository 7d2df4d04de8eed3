"""When the broker is to carry something out: at once, in a moment, or when its time has come.

    wake          the router has decisions for which somebody waits: at once
    wake_later    nobody waits for them: with the next transaction, or in a moment
    wake_in       something is tried again then
    record_later  hop records that no transaction has carried are made known to the store
    wake_at       of the router: time alone brings something about

There is one alarm for all that has a time. It is set where something is due sooner, and looked at anew when
it comes: to set it for each message would cost more.
"""

import math
from collections.abc import Callable
from typing import Final

import trio

from daemon.system.clock import Clock
from routing.router import Router

RECORD_S: Final = 0.5
"""Until the store knows of records that no transaction carried: a kill takes those that it does not know."""


class Waking:
    """What the one task of the broker waits for.

    Args:
        patience_s: until what nobody waits for is carried out.

    Attributes:
        record_due: a transaction is to be made for hop records alone.
    """

    def __init__(self, router: Router, clock: Clock, patience_s: Callable[[], float]) -> None:
        self._router = router
        self._clock = clock
        self._patience_s = patience_s
        self._work = trio.Event()
        self._alarm = trio.CancelScope()
        self._alarm_at = math.inf
        self._record_at = math.inf
        self.record_due = False
        self._carried_by = math.inf  # also what nobody waits for

    async def wait(self) -> None:
        """Return once there is something to carry out."""
        await self._work.wait()

    def begin(self) -> None:
        """Begin a transaction: what comes from now on is for the next."""
        self._work = trio.Event()

    def carry_out_all(self) -> None:
        """Note that this transaction carries out also what nobody waits for: no later one is to."""
        self._carried_by = math.inf  # the alarm may stay

    def wake(self) -> None:
        """Have a transaction begin as soon as may be."""
        self._work.set()
        self.note_time()

    def wake_later(self) -> None:
        """Have a transaction begin before long: there are decisions for which nobody waits."""
        if self._carried_by == math.inf and not self._work.is_set():
            self._carried_by = trio.current_time() + self._patience_s()
            if self._carried_by < self._alarm.deadline:  # else one that has been set for others comes before
                self._set_alarm()
        self.note_time()

    def wake_in(self, seconds: float) -> None:
        """Have a transaction begin after so many seconds: something is to be tried again."""
        self._carried_by = min(self._carried_by, trio.current_time() + seconds)
        self._set_alarm()

    def note_time(self) -> None:
        """Wake the router in time where something is due sooner now."""
        if self._router.wake_at < self._alarm_at:
            self._set_alarm()

    def record_later(self) -> None:
        """Have a transaction begin later: there may be hop records of which the store does not know."""
        if self._record_at == math.inf:
            self._record_at = trio.current_time() + RECORD_S
            self._set_alarm()

    def recorded(self) -> None:
        """Note that the store knows of all hop records."""
        self.record_due, self._record_at = False, math.inf

    async def keep_time(self, tick: Callable[[], None]) -> None:
        """Wake the broker, and `tick` where the router has something to do, in time. Runs until cancelled."""
        while True:
            with trio.CancelScope() as self._alarm:
                self._set_alarm()
                await trio.sleep_forever()
            if self._router.wake_at <= self._clock.now():
                tick()
            if self._record_at <= trio.current_time():
                self.record_due, self._record_at = True, math.inf
                self._work.set()
            if self._carried_by <= trio.current_time():
                self._carried_by = math.inf
                self._work.set()

    def _set_alarm(self) -> None:
        self._alarm_at = self._router.wake_at
        wakes_at = trio.current_time() + max(self._alarm_at - self._clock.now(), 0.0)
        self._alarm.deadline = min(wakes_at, self._record_at, self._carried_by)
