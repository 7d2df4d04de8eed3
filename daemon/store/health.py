"""Whether the store works, and what the log says of it.

On a disk that is full what is small may still fit, so that transactions fail and succeed in turns: the log
says that the store failed, and that it works again only once it has for a while.
"""

import logging
from typing import Final

import trio

_log = logging.getLogger(__name__)

CALM_S: Final = 60.0


class StoreHealth:
    """Told of each transaction.

    Attributes:
        failed: why the last one failed; None where it did not.
    """

    def __init__(self) -> None:
        self.failed: str | None = None
        self._failed_at = 0.0
        self._is_told = False

    def fails(self, error: Exception) -> None:
        """Note that a transaction could not be committed."""
        self.failed = str(error)
        self._failed_at = trio.current_time()
        if not self._is_told:
            self._is_told = True
            _log.error("the store failed, publishers are refused while it does: %s", error)

    def works(self) -> None:
        """Note that a transaction is on disk."""
        self.failed = None
        if self._is_told and trio.current_time() - self._failed_at >= CALM_S:
            self._is_told = False
            _log.warning("the store works again, and has for %g s", CALM_S)
