"""How much memory is held at once."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class HeldAtOnce:
    """The most bytes that were held at once, beyond those at the beginning."""

    bytes = 0


@contextmanager
def held_at_once() -> Iterator[HeldAtOnce]:
    """Told once the block has been left."""
    most = HeldAtOnce()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield most
        most.bytes = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
