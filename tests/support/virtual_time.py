"""Virtual time that stands still while a thread works: how long that takes is the machine's affair."""

import math

import trio
from trio.testing import MockClock


def virtual_clock(autojump_threshold: float = math.inf) -> MockClock:
    """See `MockClock`; what the daemon waits for is a thread more often than a socket."""
    clock = MockClock(autojump_threshold=autojump_threshold)
    jump = clock._autojump

    def jump_unless_a_thread_works() -> None:
        if not _is_a_thread_at_work():
            jump()

    clock._autojump = jump_unless_a_thread_works  # type: ignore[method-assign] # it cannot be subclassed
    return clock


def _is_a_thread_at_work() -> bool:
    borrowers = trio.to_thread.current_default_thread_limiter().statistics().borrowers
    # a test that takes threads away does so in the name of such as these
    return any(type(each) not in (object, int) for each in borrowers)
