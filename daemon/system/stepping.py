"""Looking at much in steps, so that the loop is held no longer than `STEP_S` at a time."""

from collections.abc import AsyncGenerator, Iterable
from time import perf_counter
from typing import Final, TypeVar

import trio

STEP_S: Final = 0.001
LOOKED_AT: Final = 64
"""Between two looks at the clock."""

T = TypeVar("T")


async def in_steps(things: Iterable[T]) -> AsyncGenerator[list[T], None]:
    """All of them, some at a time; others run between. What is shown later may have changed meanwhile."""
    some: list[T] = []
    began = perf_counter()
    for thing in things:
        some.append(thing)
        if len(some) == LOOKED_AT:
            yield some
            some = []
            if perf_counter() - began > STEP_S:
                await trio.lowlevel.checkpoint()
                began = perf_counter()
    yield some
    await trio.lowlevel.checkpoint()
