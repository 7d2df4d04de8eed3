"""A thread that does one kind of work for the event loop, again and again.

A lock wakes it, and a byte in a pipe the loop. `trio.to_thread` finds a thread for each call, names it,
copies a context and comes back through a queue: with a commit for each message a sixth of all CPU.
"""

import os
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, TypeVar

import trio

_T = TypeVar("_T")


class OwnThread:
    """Begins with the first call, and lasts until `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._rests = Lock()  # held while there is nothing to do
        self._call: Callable[[], Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    async def run_sync(self, call: Callable[[], _T]) -> _T:
        """Have the thread make a call; returns or raises what that does. One at a time.

        Where it is cancelled, it ends once the call has, which the whole loop waits for. Raises RuntimeError
        where the system has no thread to give: the next call asks it again.
        """
        if self._thread is None:
            self._begin()
        self._call = call
        self._rests.release()
        try:
            await trio.lowlevel.wait_readable(self._done)
        finally:
            os.read(self._done, 1)
            error, self._error = self._error, None
        if error is not None:
            raise error
        result: _T = self._result
        return result

    def close(self) -> None:
        """End the thread; no call is under way."""
        if self._thread is None:
            return
        self._call = None
        self._rests.release()
        self._thread.join()
        self._thread = None
        os.close(self._done)
        os.close(self._tells)

    def _begin(self) -> None:
        self._done, self._tells = os.pipe()
        self._rests.acquire()
        thread = Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._rests.release()
            os.close(self._done)
            os.close(self._tells)
            raise
        self._thread = thread

    def _work(self) -> None:
        while True:
            self._rests.acquire()
            if self._call is None:
                return
            try:
                self._result = self._call()
            except BaseException as error:
                self._error = error
            os.write(self._tells, b"\0")
