"""Copies that end because they cannot be stored or read, or because an error of ours met them.

One that is guaranteed leaves what the store has of it for the operator. Its receipt is closed, and whoever
had it gets the next one.
"""

from collections.abc import Callable
from typing import Final

from routing.decisions import SetAside
from routing.lifecycle import Lifecycle
from routing.queue import GONE, GUARANTEED, Entry
from routing.state import SiteState

MET_BY_ERROR: Final = "an error of smqpd met it, which its log tells"


class SettingAside:
    """Owned by `Deliveries`.

    Args:
        drop: ends a copy everywhere at this site, at a site time and for a reason.
    """

    def __init__(
        self, state: SiteState, lifecycle: Lifecycle, drop: Callable[[Entry, float, str], None]
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._drop = drop

    def set_aside(self, now: float, entry: Entry, reason: str) -> None:
        """End a copy, if it has not ended, whatever else is wrong with it."""
        try:
            self._set_aside(now, entry, reason)
        except Exception as error:
            self.failed(entry, "what is set aside", error, now)

    def _set_aside(self, now: float, entry: Entry, reason: str) -> None:
        """End a copy, if it has not ended."""
        if not entry.flags & GONE:
            if entry.flags & GUARANTEED:
                self._state.out.append(SetAside(entry, reason))
            self._drop(entry, now, reason)

    def failed(self, entry: Entry, what: str, error: Exception, now: float) -> None:
        """End a copy that an error of ours met at `what`, whatever else is wrong with it.

        Never raises where `SiteState.mishap` does not.
        """
        what = f"{what} (topic {entry.topic.name}, number {entry.id})"
        self._state.mishap(what, error)
        try:
            self._set_aside(now, entry, MET_BY_ERROR)
        except Exception as again:
            self._state.mishap(what, again)
        self._lifecycle.end_anyhow(entry, MET_BY_ERROR)
