"""Looking at much in steps, so that the loop is held no longer than `STEP_S` at a time."""

from collections.abc import AsyncGenerator, Iterable, Sequence
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


async def sums_in_steps(counted: Sequence[Iterable[int]]) -> list[int]:
    """The sum of the parts of each; others run between two parts where that takes long."""
    found: list[int] = []
    began = perf_counter()
    for parts in counted:
        sum_of_parts = 0
        for part in parts:
            sum_of_parts += part
            if perf_counter() - began > STEP_S:
                await trio.lowlevel.checkpoint()
                began = perf_counter()
        found.append(sum_of_parts)
    return found
