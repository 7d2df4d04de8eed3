"""What has arrived in one lane: from bytes to units, handled one after the other.

The bytes of a lane are given back to its flow control only when its units have been handled and the broker
takes more: what a peer can make this site hold is the lane's window, and the one unit that is incomplete.
"""

from collections.abc import Callable
from typing import Final, Protocol

import trio

from routing.errors import FramingLost
from routing.link.codec import UnitReader, UnitRefusal
from routing.link.units import Lane, Unit

UNITS_AT_A_TIME: Final = 64
"""Handled before others get their turn."""


class UnitHandler(Protocol):
    """Who handles the units."""

    @property
    def is_over(self) -> bool:
        """Whether no more units are to be handled."""

    def begin_batch(self) -> None:
        """Called before units that came together: they have one time of arrival, and can share an answer."""

    def handle(self, unit: Unit) -> None:
        """Do what a unit asks for. Raises UnitRefusal."""

    def refuse(self, refusal: UnitRefusal) -> None:
        """Called for a unit that could not be read or handled."""

    def framing_lost(self, text: str) -> None:
        """Called where nothing more can be read from the lane, for the reason in `text`."""

    def credit(self, lane: Lane, flow_bytes: int) -> None:
        """Let the peer send as many bytes more as have been handled."""

    async def input_room(self) -> None:
        """Return once more units may be handled."""


class LaneInput:
    """The receiving end of one lane."""

    def __init__(self, lane: Lane, message_bytes_max: Callable[[], int]) -> None:
        self._lane = lane
        self._message_bytes_max = message_bytes_max
        self._reader = UnitReader(message_bytes_max())
        self._chunks: list[bytes] = []
        self._flow_bytes = 0
        self._arrived = trio.Event()
        self._handled = trio.Event()
        self._handling = False
        self._last_at = 0.0

    def add(self, data: bytes, flow_bytes: int, now: float) -> None:
        """Take bytes that have come."""
        self._chunks.append(data)
        self._flow_bytes += flow_bytes
        self._last_at = now
        self._arrived.set()

    def silent_s(self, now: float) -> float:
        """Seconds for which nothing has come though a unit is incomplete; 0 where none is."""
        return now - self._last_at if self._reader.buffered and not self._handling else 0.0

    async def emptied(self) -> None:
        """Wait until what has come is handled."""
        while self._chunks or self._handling:
            self._handled = trio.Event()
            await self._handled.wait()

    async def consume(self, consumer: UnitHandler) -> None:
        """Handle what comes, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            chunks, self._chunks = self._chunks, []
            flow_bytes, self._flow_bytes = self._flow_bytes, 0
            self._handling = True
            self._reader.bound(self._message_bytes_max())
            for chunk in chunks:
                self._reader.feed(chunk)
            consumer.begin_batch()
            await self._handle_all(consumer)
            await consumer.input_room()
            self._handling = False
            self._handled.set()
            if flow_bytes:
                consumer.credit(self._lane, flow_bytes)

    async def _handle_all(self, consumer: UnitHandler) -> None:
        handled = 0
        while not consumer.is_over:
            try:
                unit = self._reader.take()
                if unit is None:
                    return
                consumer.handle(unit)
            except UnitRefusal as refusal:
                consumer.refuse(refusal)
            except FramingLost as lost:
                consumer.framing_lost(lost.text)
            handled += 1
            if handled % UNITS_AT_A_TIME == 0:
                await consumer.input_room()
                await trio.lowlevel.checkpoint()
