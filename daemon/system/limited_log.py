"""Lines of the log that others bring about: so many a second at most, and then how many were left out."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

PER_S: Final = 10.0
AT_ONCE: Final = 100.0
"""Lines; a crowd that comes back after a restart is told of whole, or nearly."""


class LimitedLog:
    """Of one kind of event; `what` names them, in the plural. `now` is any clock that does not go back."""

    def __init__(
        self, logger: logging.Logger, what: str, now: Callable[[], float] = trio.current_time
    ) -> None:
        self._logger = logger
        self._what = what
        self._now = now
        self._room = AT_ONCE
        self._at = 0.0
        self._left_out = 0

    def log(self, level: int, text: str, *values: object, fields: Mapping[str, object] | None = None) -> None:
        """Log a line, or count it; `fields` are what programs look for, as in `daemon.system.journal`."""
        now = self._now()
        self._room = min(AT_ONCE, self._room + max(now - self._at, 0.0) * PER_S)
        self._at = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        if self._left_out:
            self._logger.log(
                level, "%d more %s are not in the log: too many at once", self._left_out, self._what
            )
            self._left_out = 0
        self._logger.log(level, text, *values, stacklevel=2, extra={"fields": fields or {}})
