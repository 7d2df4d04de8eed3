"""Memory that is free goes back to the system: glibc keeps what lies below anything that is still in use.

Once a large block has been freed, glibc takes bodies from the heap, where small things that stay come to lie
between them. To give bodies pages of their own (M_MMAP_THRESHOLD) would do so as well, but then each password
that is verified clears its 19 MiB anew, which costs half as much again as its hash.
"""

import ctypes
from collections.abc import Callable
from typing import Final

_trim: Final[Callable[[int], int] | None] = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Give back what is free, in whole pages; takes milliseconds. Does nothing with another C library."""
    if _trim is not None:
        _trim(0)
