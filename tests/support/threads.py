"""Threads that are all taken: what is to be done in one waits, as for a slow disk."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


@contextmanager
def no_thread_left() -> Iterator[trio.CapacityLimiter]:
    """Until the end of the block; `statistics` of what is yielded says how many tasks wait for one."""
    limiter = trio.to_thread.current_default_thread_limiter()
    taken = [object() for _ in range(int(limiter.available_tokens))]
    for each in taken:
        limiter.acquire_on_behalf_of_nowait(each)
    try:
        yield limiter
    finally:
        for each in taken:
            limiter.release_on_behalf_of(each)
