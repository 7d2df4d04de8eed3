"""Memory that is free goes back to the system: glibc keeps what lies below anything that is still in use.

Once a large block has been freed, glibc takes bodies, and what hashes of passwords need, from the heap, where
small things that stay come to lie between them. To give them pages of their own (M_MMAP_THRESHOLD) would do
so as well, but then each password that is verified clears its 19 MiB anew, which costs almost half as much
again as its hash. All threads share one heap: each would have its own, of which glibc never gives back the
end, so that 19 MiB would stay for each that ever verified a password.
"""

import ctypes
from collections.abc import Callable
from typing import Final

_M_ARENA_MAX: Final = -8

_mallopt: Final[Callable[[int, int], int] | None] = getattr(ctypes.CDLL(None), "mallopt", None)
_trim: Final[Callable[[int], int] | None] = getattr(ctypes.CDLL(None), "malloc_trim", None)


def share_one_heap() -> None:
    """Have threads that begin from now on share one heap. Does nothing with another C library."""
    if _mallopt is not None:
        _mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Give back what is free, in whole pages; takes milliseconds. Does nothing with another C library."""
    if _trim is not None:
        _trim(0)
