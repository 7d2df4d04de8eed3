"""Refusals in the log: a warning the first time; who comes again and again fills no log, nor do many."""

import logging
from typing import Final

import trio

from daemon.system.limited_log import LimitedLog

LOGGED_EVERY_S: Final = 60.0
KNOWN_MAX: Final = 1_000


class Refusals:
    """Remembers who was refused for what, and when that was logged."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._limited = LimitedLog(logger, "refusals")
        self._logged_at: dict[tuple[str, str], float] = {}

    def log(self, who: str, shown: str, reason: str) -> None:
        """Log that `shown` was refused; the same `who` for the same reason is said once a minute."""
        now = trio.current_time()
        again = now - self._logged_at.get((who, reason), -LOGGED_EVERY_S) < LOGGED_EVERY_S
        if again:
            self._logger.debug("refused %s: %s", shown, reason)
        else:
            self._limited.log(logging.WARNING, "refused %s: %s", shown, reason)
            if len(self._logged_at) >= KNOWN_MAX:
                self._logged_at.clear()
            self._logged_at[who, reason] = now
