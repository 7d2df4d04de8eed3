"""Dead letters: the log of all, and those that wait for room on the disk, as decisions to be carried out."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from daemon.broker.retries import Retries
from daemon.system.limited_log import LimitedLog
from routing.decisions import INPUT_END, Bury, Decision

_log = logging.getLogger(__name__)


class _Held(msgspec.Struct, frozen=True):
    bury: Bury
    is_told: bool
    """The log has it."""


class Burials:
    """Owned by the executor.

    Args:
        smuid_of: the Smuid of what is buried.
        now: site time.
    """

    def __init__(self, smuid_of: Callable[[Bury], str], now: Callable[[], float]) -> None:
        self._smuid_of = smuid_of
        self._held: deque[_Held] = deque()
        self._released: dict[int, _Held] = {}  # by identity of the decision
        self._retries = Retries()
        self._told: Final = LimitedLog(_log, "dead letters", now)

    @property
    def again_at(self) -> float:
        """Site time from which on some are tried again; `inf` where none waits."""
        return self._retries.again_at

    def hold(self, burials: list[Bury], now: float) -> None:
        """Keep those that were undone, since the first of them found no room, for later."""
        first, *others = (_Held(bury, is_told=True) for bury in burials)
        self._held.extendleft(reversed(others))
        self._held.append(first)  # behind the others, which may be smaller
        self._retries.found_no_room(now)

    def release(self, now: float) -> list[Decision]:
        """What is to be tried again now."""
        held = self._held
        if not held:
            return []
        released: list[Decision] = []
        for _ in range(min(self._retries.due(now) or 0, len(held))):
            one = held.popleft()
            self._released[id(one.bury)] = one
            released += (one.bury, INPUT_END)
        if not held:
            self._retries.none_left()
        elif released:
            self._retries.tried(now)
        return released

    def carry_out(self, bury: Bury) -> bool:
        """Whether to carry out a decision now, which is told; else it waits behind others, kept here."""
        one = self._released.pop(id(bury), None)
        if one is None and self._retries.waiting:
            self._held.append(_Held(bury, is_told=False))
            return False
        if one is None or not one.is_told:
            self._told.log(
                logging.WARNING,
                "dead letter: %s of %s, which %s could not take in %d deliveries: %s",
                self._smuid_of(bury),
                bury.entry.topic.name,
                bury.subscription.label,
                bury.attempts,
                bury.reason or "no reason given",
            )
        return True
