"""How much memory calls leave behind: what anybody may say is not to be kept."""

import gc
import tracemalloc
from collections.abc import Callable


def bytes_kept(call: Callable[[int], object], times: int = 100) -> int:
    """Of so many calls, each with its number; what they return is dropped."""
    call(times)
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(times):
            call(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
