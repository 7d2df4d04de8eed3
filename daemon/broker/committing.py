"""How the transactions of the store follow each other.

A transaction costs a few hundred microseconds of CPU whatever it holds, so a busy site has to put much into
each, and one where little happens should wait for nothing:

    when it begins    after one that carried few decisions, at once; else the more it carried, the later after
                      its beginning, up to `gather_max_s`; what nobody waits for waits for the next one, some
                      milliseconds at most: so an acknowledgement shares the transaction of the next message
    where it waits    for a disk that answers sooner than a thread would, in place; for any other, for
                      a while after one that took long, and while the disk is kept busy by something
                      else of the site's, in a worker thread: inputs go on, and their decisions gather
"""

import math
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from resource import RUSAGE_THREAD, getrusage
from typing import Final

import trio

from daemon.metrics import Histogram
from daemon.store.store import Store

FEW_DECISIONS: Final = 20
"""About two messages."""

GATHER_S_PER_DECISION: Final = 50e-6
GATHER_MAX_S: Final = 0.004

PATIENCE: Final = 5
"""What nobody waits for may be put off so many times longer."""

IN_PLACE_S: Final = 0.0005
"""The hand-over to a thread and back takes about a quarter of it."""

STALL_S: Final = 0.01
DISTRUST_S: Final = 60.0
"""A disk that has stalled once stalls again soon: so long, nothing is waited for in place."""

SMOOTHING: Final = 0.1
"""The weight of the latest commit in the average."""


def _preempted() -> int:
    return getrusage(RUSAGE_THREAD).ru_nivcsw


class Commits:
    """Owned by the broker's one task.

    Args:
        took_s: told of each.
        in_thread: has a worker thread do something, and waits for it.
        preempted: how often the processor has been taken from this thread: of a commit in which it was, the
            time says nothing of the disk.

    Attributes:
        gather_max_s: the longest that a transaction is put off.
        in_place_s: commits that take less on average are waited for in place; 0 for none, inf for all.
    """

    def __init__(
        self,
        store: Store,
        took_s: Histogram,
        in_thread: Callable[[Callable[[], float]], Awaitable[float]],
        *,
        gather_max_s: float = GATHER_MAX_S,
        in_place_s: float = IN_PLACE_S,
        preempted: Callable[[], int] = _preempted,
    ) -> None:
        self.gather_max_s = gather_max_s
        self.in_place_s = in_place_s
        self._preempted = preempted
        self._in_thread = in_thread
        self._store = store
        self._took_s = took_s
        self._beside = 0
        self._trusts_at = 0.0
        self._begins_at = 0.0  # 0 for at once
        self._average_s = 2 * IN_PLACE_S
        self._failed_after_s = 0.0

    @property
    def patience_s(self) -> float:
        """The longest that is put off what nobody waits for."""
        return PATIENCE * self.gather_max_s

    @contextmanager
    def beside(self) -> Iterator[None]:
        """In the block, which syncs something large, let no commit wait in place: it waits for that, too."""
        self._beside += 1
        try:
            yield
        finally:
            self._beside -= 1

    async def gather(self) -> None:
        """Return when the next transaction may begin."""
        if self._begins_at and trio.current_time() < self._begins_at:
            await trio.sleep_until(self._begins_at)

    async def commit(self, decisions: int) -> None:
        """Commit the open transaction, which carries so many decisions; returns once it is on disk.

        Raises sqlite3.Error: nothing of it is stored.
        """
        now = trio.current_time()
        gather_s = min((decisions - FEW_DECISIONS) * GATHER_S_PER_DECISION, self.gather_max_s)
        self._begins_at = now + gather_s if gather_s > 0 else 0.0
        in_place = self._average_s < self.in_place_s and not self._beside and now >= self._trusts_at
        preempted = self._preempted() if in_place else -1
        try:
            took_s = self._timed_commit() if in_place else await self._in_thread(self._timed_commit)
        except sqlite3.Error:
            # one that came at once says nothing of how fast the disk is
            self._learn(max(self._failed_after_s, self._average_s), preempted)
            raise
        self._learn(took_s, preempted)
        self._took_s.note(took_s)

    def _timed_commit(self) -> float:
        began = time.perf_counter()
        try:
            self._store.commit()
        except sqlite3.Error:
            self._failed_after_s = time.perf_counter() - began
            raise
        return time.perf_counter() - began

    def _learn(self, took_s: float, preempted: int) -> None:
        # of one in a thread, some of the time is that of other threads, which it waited for
        if took_s > STALL_S and preempted == self._preempted() and self.in_place_s < math.inf:
            self._trusts_at = trio.current_time() + DISTRUST_S
        self._average_s += SMOOTHING * (took_s - self._average_s)
