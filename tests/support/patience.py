"""How long a test waits for what has to come.

A guard against hanging, and no promise of speed: a busy machine may take a hundred times as long as a quiet
one. Where a time is under test, it is virtual.
"""

from collections.abc import Callable
from typing import Final

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

PATIENCE_S: Final = 240.0
"""Less than the time that pytest gives a test (`pyproject.toml`): the failure says what did not come."""


async def pass_time(clock: MockClock, seconds: float) -> None:
    """Let virtual time pass between all that can happen before it and all that comes of it."""
    await wait_all_tasks_blocked()
    clock.jump(seconds)
    await wait_all_tasks_blocked()


async def until(condition: Callable[[], object], *witnesses: object) -> None:
    """Wait for something; should it not come, the failure says how far the witnesses were."""
    with trio.move_on_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.01)
        return
    raise AssertionError("\n".join(map(repr, witnesses)))
