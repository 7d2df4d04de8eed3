"""What a site measures while it works: how long things take, what is refused and why.

What goes through, by topic, the router counts itself (`routing.traffic`). Here are sums that only rise, so
that whoever reads them now and then can make rates of them; and all of it costs a message a fraction of a
microsecond: the times of a transaction are put into their buckets together.
"""

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import trio

from routing.errors import Refusal

STEPS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of all times, seconds."""

LOOK_EVERY_S: Final = 0.1
"""A pause that is shorter may go unnoticed."""

LONG_PAUSE_S: Final = 0.02
"""From which a turn of the event loop is a long pause."""

ASK_EVERY_S: Final = 0.005
"""How long the thread of the loop has worked."""

LATELY: Final = 600
"""Looks among which the longest pause is that of lately: a minute."""

REASONS_MAX: Final = 64
"""Reasons that are told apart; all others are `other`."""


class Histogram:
    """How many times fell into each bucket.

    Attributes:
        counts: by `STEPS_S`, and of what took longer than all of them.
        sum_s: of all times.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(STEPS_S) + 1)
        self.sum_s = 0.0

    @property
    def count(self) -> int:
        """How many times."""
        return sum(self.counts)

    def note(self, seconds: float, count: int = 1) -> None:
        """Count so many things that took so long each."""
        self.counts[bisect_left(STEPS_S, seconds)] += count
        self.sum_s += seconds * count

    def note_since(self, began_at: Sequence[float], now: float) -> None:
        """Count what has ended now and began at these times, each at or after the one before."""
        end = len(began_at)
        if end == 1:  # as where little happens
            self.note(now - began_at[0])
            return
        for place, step_s in enumerate(STEPS_S):
            begin = bisect_left(began_at, now - step_s, 0, end)
            self.counts[place] += end - begin
            end = begin
            if not end:
                break
        self.counts[-1] += end
        self.sum_s += now * len(began_at) - sum(began_at)


class Metrics:
    """Of one run of a site. Each sum has one owner, which alone adds to it; everybody may read.

    Attributes:
        commit_s: transactions of the store, each with its fsync.
        stored_s: from a message's coming, from a client or a peer, to its being on disk.
        delivered_s: from then to its first being handed to a subscription; of messages of earlier runs, from
            the start of this one.
        pause_s: how much later than it was to the event loop came to something, looked at ten times a second.
        long_pauses: turns of the event loop that took more than `LONG_PAUSE_S`, by whether its own work alone
            did (`work`), or it stood still (`wait`), for the disk or for a core.
        refused: requests of clients, by the code of the refusal; what front ends refuse themselves, too. Of
            logins those that were no wrong password: see `logins_refused`.
        over_quota: what was refused of these for the quota of an account, by the quota's name.
        slowed: times that a client was not read from, since it or its account publishes as fast as it may.
        turned_away: copies that were denied, dropped or not taken twice, by what became of them and why.
        logins, logins_refused: of all front ends.
    """

    def __init__(self) -> None:
        self.commit_s = Histogram()
        self.stored_s = Histogram()
        self.delivered_s = Histogram()
        self.pause_s = Histogram()
        self.long_pauses: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.over_quota: Counter[str] = Counter()
        self.slowed = 0
        self.turned_away: Counter[tuple[str, str]] = Counter()
        self.logins = 0
        self.logins_refused = 0
        self._lately: deque[float] = deque(maxlen=LATELY)

    @property
    def longest_pause_s(self) -> float:
        """Of the event loop, in the last minute."""
        return max(self._lately, default=0.0)

    def refuse(self, refusal: Refusal) -> None:
        """Count a refused request."""
        self.refused[refusal.code] += 1
        refusal.counted = True

    def tell_refused(self, refusal: Refusal) -> None:
        """Count what a front end tells a client, unless it was counted where it was refused."""
        if not refusal.counted:
            self.refuse(refusal)

    def turn_away(self, event: str, reason: str) -> None:
        """Count what was denied or dropped, or not taken twice."""
        key = (event, reason[:80])
        if key not in self.turned_away and len(self.turned_away) >= REASONS_MAX:
            key = (event, "other")
        self.turned_away[key] += 1

    async def watch_pauses(self) -> None:
        """Notice when the event loop stands still. Runs until cancelled."""
        while True:
            due_at = trio.current_time() + LOOK_EVERY_S
            await trio.sleep_until(due_at)
            late_s = max(trio.current_time() - due_at, 0.0)
            self.pause_s.note(late_s)
            self._lately.append(late_s)


class LoopWatch(trio.abc.Instrument):
    """Measures each turn of an event loop, from the end of its wait for anything to the next.

    How long its thread has worked costs ten times as much to ask as the time of day: it is asked at times.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = self._asked_at = time.perf_counter()
        self._worked_s = time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        """Note when a turn of the loop begins."""
        self._began = began = time.perf_counter()
        if began - self._asked_at > ASK_EVERY_S:
            self._asked_at, self._worked_s = began, time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        """Count a turn that ends after a long pause, and whether it worked or waited."""
        if time.perf_counter() - self._began > LONG_PAUSE_S:
            before_s = self._began - self._asked_at  # at most so much of what it worked was before
            is_work = time.thread_time() - self._worked_s - before_s > LONG_PAUSE_S
            self._metrics.long_pauses["work" if is_work else "wait"] += 1


@contextmanager
def loop_watched(metrics: Metrics) -> Iterator[None]:
    """Measure each turn of this event loop meanwhile."""
    watch = LoopWatch(metrics)
    trio.lowlevel.add_instrument(watch)
    try:
        yield
    finally:
        with suppress(KeyError):  # trio drops one that raises
            trio.lowlevel.remove_instrument(watch)
