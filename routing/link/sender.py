"""The sending half of a link: what is to go, and what has gone and is not acknowledged.

A unit is *waiting* in its lane until it is written, then *in flight* until the peer says what became of
it. When the connection is lost all of them are forgotten: they are still the router's, which sends them
again on the next one. Numbers run on over connections, since a peer may remember them for as long as it
sees the same boot, and begin at 1 with each start of the daemon.

Unguaranteed copies have no number: once written they are forgotten, and nobody sends them again.

The window bounds transfers in flight by what the peer said in its HELLO; controls have the same bound in
number, but are never held back by transfers. However many controls wait they are taken, and so that a peer
cannot fill the memory of this site by answering none of them, `overdue` says when its connection is to end.
"""

from collections import deque
from typing import Final

import msgspec

from routing.link.codec import UnitRefusal, encode_control, encode_transfer
from routing.link.units import UNIT_OVERHEAD_BYTES, Acknowledge, Control, Lane, Transfer, TransferOutcome

CONTROL_ANSWER_S: Final = 600.0
"""How long a peer may take to acknowledge a control, which it does once its disk has what follows from it.

A disk that is full for minutes is no reason to end a link: all that is unanswered would go over it again.
"""

CONTROL_BYTES_MAX: Final = 512 * 2**20
"""Of controls of one peer: all news and wants that a site can know, told at once, are 341 MiB."""


class Waiting(msgspec.Struct, gc=False):
    """One unit of the sender, from `put` to its end."""

    unit: Transfer | Control
    put_at: float
    size: int
    sent_us: int = 0  # once it is written


class Settled(msgspec.Struct, frozen=True):
    """A unit whose end is known.

    Attributes:
        unit: as it was given to `put`.
        sent_us, acknowledged_us: by this site's clock.
        peer_received_us, peer_sent_us: by the peer's.
        reason: in words, where it was denied.
    """

    unit: Transfer | Control
    outcome: TransferOutcome
    sent_us: int
    peer_received_us: int
    peer_sent_us: int
    acknowledged_us: int
    reason: str = ""


class LinkSender:
    """What this site sends to one peer, connection after connection."""

    def __init__(self, queue_units_max: int, queue_bytes_max: int) -> None:
        """The bounds are of all transfers here, waiting and in flight; beyond them `has_room` is False."""
        self._queue_units_max = queue_units_max
        self._queue_bytes_max = queue_bytes_max
        self._window_units = queue_units_max
        self._window_bytes = queue_bytes_max
        self._next_number = 1
        self._lanes: tuple[deque[Waiting], ...] = tuple(deque() for _ in Lane)
        self._in_flight: dict[int, Waiting] = {}
        self._controls_in_flight: dict[int, float] = {}  # when they were written, by number
        self._control_bytes = 0
        self._bytes_in_flight = 0
        self._transfers = 0
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another transfer may be put."""
        return self._transfers < self._queue_units_max and self.has_memory

    @property
    def has_memory(self) -> bool:
        """Whether another unguaranteed transfer may be put: it waits for no answer, so many may wait."""
        return self._bytes < self._queue_bytes_max

    @property
    def waiting(self) -> int:
        """Units that have not been written on this connection."""
        return sum(len(lane) for lane in self._lanes)

    def has_waiting(self, lane: Lane) -> bool:
        """Whether units of the lane have not been written on this connection."""
        return bool(self._lanes[lane])

    @property
    def in_flight(self) -> int:
        """Units that have been written and are not acknowledged."""
        return len(self._in_flight)

    def last_sent(self, reference: object) -> tuple[int, int]:
        """The attempt and the time of a transfer in flight, the last with this reference; 0 where none is."""
        for one in reversed(self._in_flight.values()):
            if isinstance(one.unit, Transfer) and one.unit.reference == reference:
                return one.unit.attempt, one.sent_us
        return 0, 0

    def oldest_put_at(self) -> float | None:
        """When the oldest unit that has no end yet was put; None where there is none."""
        first = next(iter(self._in_flight.values()), None)
        heads = [lane[0] for lane in self._lanes if lane]
        return min((one.put_at for one in ([first] if first else []) + heads), default=None)

    def overdue(self, now: float) -> str:
        """Why the connection is to end: what the peer does not answer; "" where it does as it should."""
        written_at = next(iter(self._controls_in_flight.values()), now)
        if now - written_at > CONTROL_ANSWER_S:
            return f"no answer to a control within {CONTROL_ANSWER_S:g} s"
        if self._control_bytes > CONTROL_BYTES_MAX:
            return f"more than {CONTROL_BYTES_MAX} bytes of controls wait for it"
        return ""

    def put(self, unit: Transfer | Control, lane: Lane, now: float) -> int:
        """Take a unit to be sent; returns its number, 0 for an unguaranteed copy. Never refuses."""
        number = 0
        if isinstance(unit, Control):
            number = self._take_number()
            size = len(unit.payload) + UNIT_OVERHEAD_BYTES
            self._control_bytes += size
        else:
            if unit.guarantee:
                number = self._take_number()
            size = len(unit.wire) + UNIT_OVERHEAD_BYTES
            self._transfers += 1
            self._bytes += size
        unit.number = number
        self._lanes[lane].append(Waiting(unit, now, size))
        return number

    def connected(self, window_units: int, window_bytes: int) -> None:
        """Take the window of the peer, as a link is up."""
        self._window_units = max(window_units, 1)
        self._window_bytes = max(window_bytes, 1)

    def disconnected(self) -> list[Transfer]:
        """Forget everything, as the link is down. Returns the unguaranteed copies that were not written."""
        waiting = [one.unit for lane in self._lanes for one in lane]
        for lane in self._lanes:
            lane.clear()
        self._in_flight.clear()
        self._controls_in_flight.clear()
        self._control_bytes = self._bytes_in_flight = self._transfers = self._bytes = 0
        return [unit for unit in waiting if isinstance(unit, Transfer) and not unit.number]

    def take(self, lane: Lane, bytes_max: int, now: float, now_us: int) -> bytes:
        """Units of the lane as bytes, at least one if any may go, about `bytes_max`; b"" if none may."""
        parts: list[bytes] = []
        size = 0
        queue = self._lanes[lane]
        while queue and size < bytes_max and self._may_go(queue[0]):
            waiting = queue.popleft()
            data = self._write(waiting, now, now_us)
            size += len(data)
            parts.append(data)
        return b"".join(parts)

    def acknowledged(self, ack: Acknowledge, now_us: int) -> list[Settled]:
        """What an acknowledgement ends. Numbers that are not in flight are passed over: their end is known.

        Raises UnitRefusal for numbers that were never given.
        """
        if ack.ranges and ack.ranges[-1][1] >= self._next_number:
            raise UnitRefusal(f"ACK: the number {ack.ranges[-1][1]} was never sent")
        settled = []
        for first, last in ack.ranges:
            for number in self._known(first, last):
                waiting = self._in_flight.pop(number)
                if isinstance(waiting.unit, Control):
                    del self._controls_in_flight[number]
                    self._control_bytes -= waiting.size
                else:
                    self._bytes_in_flight -= waiting.size
                    self._forget(waiting)
                settled.append(
                    Settled(
                        waiting.unit,
                        ack.outcome,
                        waiting.sent_us,
                        ack.received_us,
                        ack.sent_us,
                        now_us,
                        ack.reason,
                    )
                )
        return settled

    def _known(self, first: int, last: int) -> list[int]:
        """The numbers in flight of a range: as much work as there are of them, however wide the range."""
        if last - first < len(self._in_flight):
            return [number for number in range(first, last + 1) if number in self._in_flight]
        return [number for number in self._in_flight if first <= number <= last]

    def _may_go(self, waiting: Waiting) -> bool:
        if isinstance(waiting.unit, Control):
            return len(self._controls_in_flight) < self._window_units
        if not waiting.unit.number:
            return True
        transfers = len(self._in_flight) - len(self._controls_in_flight)
        # One message larger than the whole window goes alone, else it never would.
        return transfers == 0 or (
            transfers < self._window_units and self._bytes_in_flight + waiting.size <= self._window_bytes
        )

    def _write(self, waiting: Waiting, now: float, now_us: int) -> bytes:
        unit = waiting.unit
        waiting.sent_us = now_us
        if isinstance(unit, Control):
            self._controls_in_flight[unit.number] = now
            self._in_flight[unit.number] = waiting
            return encode_control(unit)
        left_s = unit.timeout_left_s
        if left_s is not None:
            left_s = max(left_s - (now - waiting.put_at), 0.0)
        if unit.number:
            self._bytes_in_flight += waiting.size
            self._in_flight[unit.number] = waiting
        else:
            self._forget(waiting)
        return encode_transfer(unit, left_s)

    def _forget(self, transfer: Waiting) -> None:
        self._transfers -= 1
        self._bytes -= transfer.size

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1
