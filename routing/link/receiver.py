"""The receiving half of a link: what the router has in hand, and the acknowledgements it owes.

A unit that arrives is handed to the router once. If it comes again, on a new connection, while the router
still has it in hand, only its stamp is renewed: the answer that comes will do for both. A control that was
answered before is answered again at once; a transfer is handed over again, since the router knows by its
Smuid, on disk, what became of it.

Answers leave as ranges of numbers that came at the same moment and had the same outcome.
"""

from collections.abc import Iterable
from typing import Final

from routing.link.codec import RANGES_MAX, UnitRefusal
from routing.link.units import Acknowledge, Control, Outcome, Transfer

_Group = tuple[Outcome, int, str]
_EARLIER: Final = -1  # came on a connection that was lost: answered when it has come again


class LinkReceiver:
    """What one peer has sent to this site; outlives connections.

    Attributes:
        session: counts the boots of the peer that were seen; numbers of different sessions are unrelated.
    """

    def __init__(self, units_max: int) -> None:
        """`units_max`: units that may be unanswered at a time, transfers and controls each."""
        self._units_max = units_max
        self.session = 0
        self._peer: tuple[str, int] | None = None
        self._in_hand: dict[int, int] = {}  # number -> when it came, or _EARLIER
        self._of_connection = 0  # of those in hand, the ones that came on this connection
        self._last_control = 0
        self._answers: dict[_Group, list[int]] = {}

    @property
    def in_hand(self) -> int:
        """Units that the router has not answered."""
        return len(self._in_hand)

    @property
    def has_answers(self) -> bool:
        """Whether `take_answers` would give any."""
        return bool(self._answers)

    def connected(self, site: str, boot: int) -> bool:
        """A link is up. Returns whether the peer has restarted, so that its numbers begin again."""
        restarted = self._peer != (site, boot)
        if restarted:
            self._peer = (site, boot)
            self.session += 1
            self._in_hand.clear()
            self._last_control = 0
        self._answers.clear()
        self._of_connection = 0
        for number in self._in_hand:
            self._in_hand[number] = _EARLIER
        return restarted

    def arrived(self, unit: Transfer | Control, now_us: int) -> bool:
        """Whether the router is to be handed this unit. Raises UnitRefusal where the window is overrun."""
        number = unit.number
        if not number:
            return True
        if number in self._in_hand:
            self._of_connection += self._in_hand[number] == _EARLIER
            self._in_hand[number] = now_us
            return False
        # what a lost connection brought does not count: the peer may have forgotten those numbers
        if self._of_connection >= 2 * self._units_max:
            raise UnitRefusal("more units than the window allows are not acknowledged")
        if isinstance(unit, Control):
            if number <= self._last_control:
                self._answers.setdefault(("accepted", now_us, ""), []).append(number)
                return False
            self._last_control = number
        self._in_hand[number] = now_us
        self._of_connection += 1
        return True

    def refused(self, number: int, reason: str, now_us: int) -> None:
        """A unit with this number could not be read: it is denied, so that it does not come for ever."""
        self._answers.setdefault(("denied", now_us, reason), []).append(number)

    def answer(self, session: int, numbers: Iterable[int], outcome: Outcome, reason: str = "") -> None:
        """The router has on disk what the outcome promises.

        What a lost connection brought is acknowledged when it is repeated; what an earlier session brought
        never is, since nobody remembers its numbers.
        """
        if session != self.session:
            return
        for number in numbers:
            came_us = self._in_hand.pop(number, _EARLIER)
            if came_us != _EARLIER:
                self._of_connection -= 1
                self._answers.setdefault((outcome, came_us, reason), []).append(number)

    def take_answers(self, now_us: int) -> list[Acknowledge]:
        """The acknowledgements owed, stamped as leaving now."""
        acks = []
        for (outcome, came_us, reason), numbers in self._answers.items():
            ranges = _ranges(sorted(numbers))
            for start in range(0, len(ranges), RANGES_MAX):
                acks.append(
                    Acknowledge(
                        outcome=outcome,
                        ranges=tuple(ranges[start : start + RANGES_MAX]),
                        received_us=came_us,
                        sent_us=now_us,
                        reason=reason,
                    )
                )
        self._answers.clear()
        return acks


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Rising numbers as ranges."""
    ranges: list[tuple[int, int]] = []
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            ranges.append((first, last))
            first = number
        last = number
    ranges.append((first, last))
    return ranges
