"""Standard output of commands that go on meanwhile: a thread waits for whoever is to read."""

from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio

from daemon.terminal import output

GRACE_S: Final = 1.0
"""For a write when its command is to end, so that whoever reads is not left with half a line."""


async def write(data: bytes) -> None:
    """Write all of it. Raises OSError, and Cancelled only where that took longer than GRACE_S then.

    It may wait for ever where nobody reads; cancelled, its thread is left to itself after that.
    """
    token = trio.lowlevel.current_trio_token()
    ended = trio.Event()
    outcomes: list[Any] = []

    def deliver(outcome: Any) -> None:
        outcomes.append(outcome)
        with suppress(trio.RunFinishedError):  # it was left to itself
            token.run_sync_soon(ended.set)

    trio.lowlevel.start_thread_soon(partial(output.write, data), deliver)
    try:
        await ended.wait()
    except trio.Cancelled:
        with trio.CancelScope(shield=True), trio.move_on_after(GRACE_S):
            await ended.wait()
        if not outcomes:
            raise
    outcomes[0].unwrap()
