"""The receiving half of a link: what the router has in hand, and the acknowledgements it owes.

All of it is of one connection, which has a number: what came before the connection was lost and had no
acknowledgement is still the peer's. It comes again, and the router knows a copy by its Smuid, on disk.

Answers leave as ranges of numbers that came at the same moment and had the same outcome.
"""

from collections.abc import Iterable

from routing.link.codec import RANGES_MAX, UnitRefusal
from routing.link.units import UNIT_OVERHEAD_BYTES, Acknowledge, Control, Transfer, TransferOutcome

_Group = tuple[TransferOutcome, int, str]


class LinkReceiver:
    """What one peer sends to this site.

    Attributes:
        connection: the number of the one that there is or was last; what different ones number is unrelated.
        answers_waiting: units whose answer has not been taken.
    """

    def __init__(self, units_max: int, bytes_max: int) -> None:
        """The window that the peer was told; what is twice of it no honest peer comes near.

        Args:
            units_max: units that may be unanswered at a time, transfers and controls each.
            bytes_max: of the transfers among them.
        """
        self._units_max = units_max
        self._bytes_max = bytes_max
        self.connection = 0
        self.answers_waiting = 0
        self._peer: tuple[str, int] | None = None
        self._in_hand: dict[int, tuple[int, int]] = {}  # number -> when it came, and the size of a transfer
        self._bytes_in_hand = 0
        self._answers: dict[_Group, list[int]] = {}

    @property
    def in_hand(self) -> int:
        """Units that the router has not answered."""
        return len(self._in_hand)

    @property
    def has_answers(self) -> bool:
        """Whether `take_answers` would give any."""
        return self.answers_waiting > 0

    def connected(self, site: str, boot: int, connection: int) -> bool:
        """Begin with a connection. Returns whether the peer has restarted, or is another installation.

        `connection` is the number of no other one of this site, so that an answer which comes late is taken
        for none of them, also where the peer was none for a while.
        """
        restarted = self._peer != (site, boot)
        self._peer = (site, boot)
        self.connection = connection
        self._in_hand.clear()
        self._bytes_in_hand = 0
        self._take_all()
        return restarted

    def arrived(self, unit: Transfer | Control, now_us: int) -> None:
        """Note a unit that the router is to be handed. Raises UnitRefusal where it is not.

        That is where the window is overrun, in number or in bytes, or where the number names a unit that is
        in hand already. One transfer alone may be larger than the window: a sender lets one go.
        """
        number = unit.number
        if not number:
            return
        if number in self._in_hand:
            raise UnitRefusal(f"the number {number} comes again before it is acknowledged")
        if len(self._in_hand) >= 2 * self._units_max:
            raise UnitRefusal("more units than the window allows are not acknowledged")
        size = len(unit.wire) + UNIT_OVERHEAD_BYTES if isinstance(unit, Transfer) else 0
        if size and self._bytes_in_hand and self._bytes_in_hand + size > 2 * self._bytes_max:
            raise UnitRefusal("more bytes than the window allows are not acknowledged")
        self._in_hand[number] = now_us, size
        self._bytes_in_hand += size

    def refused(self, number: int, reason: str, now_us: int) -> None:
        """Deny a unit with this number that could not be read, so that it does not come for ever."""
        self._answer(("denied", now_us, reason), number)

    def answer(
        self, connection: int, numbers: Iterable[int], outcome: TransferOutcome, reason: str = ""
    ) -> None:
        """Have these acknowledged: the router has on disk what the outcome promises.

        What an earlier connection brought is not acknowledged, since nobody remembers its numbers.
        """
        if connection != self.connection:
            return
        for number in numbers:
            came = self._in_hand.pop(number, None)
            if came is not None:
                came_us, size = came
                self._bytes_in_hand -= size
                self._answer((outcome, came_us, reason), number)

    def _answer(self, group: _Group, number: int) -> None:
        self._answers.setdefault(group, []).append(number)
        self.answers_waiting += 1

    def take_answers(self, now_us: int) -> list[Acknowledge]:
        """The acknowledgements that are due, stamped as leaving now; each is given once."""
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
        self._take_all()
        return acks

    def _take_all(self) -> None:
        self._answers.clear()
        self.answers_waiting = 0


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
