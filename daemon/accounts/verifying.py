"""The slow hashes: a few at a time in threads, in turn for each address, and once for tries that are alike.

    1,000 clients of one account that come back together     one verification
    a flood of tries from one address                         others wait for one of it, not for all

Whoever waits may be cancelled; what was begun for it is finished, for those who wait for the same.
"""

import os
from collections import OrderedDict, deque
from typing import Final

import trio

from daemon.accounts.passwords import verify_password

VERIFICATIONS_MAX: Final = max(2, min(os.cpu_count() or 2, 8))
"""At a time: each holds 19 MiB and a core."""


class _Try:
    """One password for one hash, and all who want to know whether it is right."""

    def __init__(self, password: str, phc: str) -> None:
        self.password = password
        self.phc = phc
        self.waiting = 0
        self.begun = False
        self.done = trio.Event()
        self.right = False
        self.error: Exception | None = None


class Verifier:
    """Owned by `daemon.accounts.accounts`."""

    def __init__(self) -> None:
        self._tries: dict[bytes, _Try] = {}
        self._queues: OrderedDict[str, deque[_Try]] = OrderedDict()  # by address, the next in turn first
        self._working = 0

    async def verify(self, mark: bytes, password: str, phc: str, address: str) -> bool:
        """Whether the password is right; tries with one `mark` are the same one."""
        one = self._tries.get(mark)
        if one is None or one.phc != phc:
            one = self._tries[mark] = _Try(password, phc)
        if not one.begun:
            self._queues.setdefault(address, deque()).append(
                one
            )  # in the queue of each address that wants it
        one.waiting += 1
        try:
            if self._working < VERIFICATIONS_MAX:
                self._working += 1
                trio.lowlevel.spawn_system_task(self._work, name="password verification")
            await one.done.wait()
        finally:
            one.waiting -= 1
            if not one.waiting and self._tries.get(mark) is one:
                del self._tries[mark]
        if one.error is not None:
            raise one.error
        return one.right

    async def _work(self) -> None:
        """Verify until nobody waits."""
        try:
            while (one := self._next()) is not None:
                one.begun = True
                try:
                    one.right = await trio.to_thread.run_sync(verify_password, one.password, one.phc)
                except Exception as error:  # an error of ours, for whoever waits to raise
                    one.error = error
                one.done.set()
        finally:
            self._working -= 1

    def _next(self) -> _Try | None:
        while self._queues:
            address, queue = self._queues.popitem(last=False)
            while queue:
                one = queue.popleft()
                if one.waiting and not one.begun:
                    if queue:
                        self._queues[address] = queue  # behind all others
                    return one
        return None
