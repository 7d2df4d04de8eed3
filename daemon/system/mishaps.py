"""Errors of smqpd's own that a site survives: what caused one has been set aside, and the log tells of it.

The first of a kind is logged whole, with its traceback; those that follow are counted, and said once
a minute.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

LOGGED_EVERY_S: Final = 60.0
KNOWN_MAX: Final = 1_000

OWN_ERROR: Final = "an error of smqpd; the log of the site where it happened says more"
"""Why a session or a link has ended, as who was at its other end is told."""

AGAIN_S: Final = 1.0
"""After an error has ended a task that is to go on."""

_log = logging.getLogger(__name__)


class Mishaps:
    """Told of each.

    Attributes:
        count: since the start.
    """

    def __init__(self) -> None:
        self.count = 0
        self._logged_at: dict[tuple[type, str, int], float] = {}

    def note(self, what: str, error: Exception) -> None:
        """Count and log that `what` was set aside because of an error; to be called where that was caught."""
        self.count += 1
        now = trio.current_time()
        kind = _kind(error)
        logged_at = self._logged_at.get(kind)
        if logged_at is None:
            if len(self._logged_at) >= KNOWN_MAX:
                self._logged_at.clear()
            _log.error(
                "%s was set aside for an error of smqpd itself; please report it", what, exc_info=error
            )
        elif now - logged_at >= LOGGED_EVERY_S:
            _log.error("%s was set aside for %r, as before; %d errors so far", what, error, self.count)
        else:
            return
        self._logged_at[kind] = now

    async def keep_going(self, what: str, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task that goes on until it is cancelled or returns; one that an error ends begins anew."""
        while True:
            try:
                await task()
                return
            except Exception as error:
                self.note(what, error)
            await trio.sleep(AGAIN_S)


def _kind(error: Exception) -> tuple[type, str, int]:
    """Errors of one kind come from one line."""
    trace = error.__traceback__
    if trace is None:
        return type(error), "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
