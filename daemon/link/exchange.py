"""What passes between this site and one peer, connection after connection: between units and broker.

Owned by the manager, one a peer; at most one connection at a time feeds it units and asks it for bytes.
Nothing here waits. A unit that is bad is denied, logged and counted, and the next one is taken.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import trio

from daemon.link.port import Arrived, ControlArrived, RouterPort
from daemon.system.log import one_line
from routing.errors import Refusal
from routing.frames import decode_message
from routing.link.agreement import Agreement
from routing.link.codec import REASON_CHARACTERS_MAX, UnitRefusal, encode
from routing.link.forgery import forged
from routing.link.receiver import LinkReceiver
from routing.link.sender import LinkSender
from routing.link.units import Acknowledge, Control, Hello, Lane, Transfer, TransferOutcome
from routing.message import Message

_log = logging.getLogger(__name__)

COMPLAINTS_EVERY_S = 10.0
"""A peer that sends bad units by the thousand fills no log: the lines say how many there were."""

NOT_IN_FLIGHT_MAX: Final = 10_000
"""Numbers in one acknowledgement that have an end already: an honest peer names none."""


class Exchange:
    """Sender and receiver of one peer, and the broker behind them."""

    def __init__(
        self,
        peer: str,
        *,
        window_units: int,
        window_bytes: int,
        port: RouterPort,
        wall_us: Callable[[], int],
    ) -> None:
        self.peer = peer
        self.sender = LinkSender(window_units, window_bytes)
        self.receiver = LinkReceiver(window_units, window_bytes)
        self._wake: Callable[[], None] = _nothing
        self._port = port
        self._wall_us = wall_us
        self._received_us = 0
        self._bad_units: Counter[str] = Counter()
        self._complained_at: dict[str, float] = {}

    def connected(
        self, hello: Hello, agreement: Agreement, connection: int, wake: Callable[[], None]
    ) -> bool:
        """Begin with the connection of this number. Returns whether the peer has restarted since the last.

        `wake` is called when there is something to be written, until the link is down.
        """
        self._wake = wake
        self.sender.connected(agreement.window_units, agreement.window_bytes)
        return self.receiver.connected(hello.site, hello.boot, connection)

    def disconnected(self) -> None:
        """Note that the link is down."""
        self._wake = _nothing
        dropped = self.sender.disconnected()
        if dropped:
            self._port.dropped(self.peer, dropped)

    def put(self, unit: Transfer | Control, lane: Lane) -> int:
        """See `Links.send`."""
        number = self.sender.put(unit, lane, trio.current_time())
        self._wake()
        return number

    def answer(self, connection: int, numbers: Iterable[int], outcome: TransferOutcome, reason: str) -> None:
        """See `Links.acknowledge`."""
        self.receiver.answer(connection, numbers, outcome, reason)
        if self.receiver.has_answers:
            self._wake()

    def answers(self) -> bytes:
        """Take the acknowledgements that are due, stamped as leaving now."""
        if not self.receiver.has_answers:
            return b""
        return b"".join(encode(ack) for ack in self.receiver.take_answers(self._wall_us()))

    def has_waiting(self, lane: Lane) -> bool:
        """Whether there is something to be written in the lane, now or once the peer's window allows it."""
        return self.sender.has_waiting(lane) or (lane is Lane.CONTROL and self.receiver.has_answers)

    def fill(self, lane: Lane, bytes_max: int) -> bytes:
        """Units of the lane that may go now, about `bytes_max`."""
        had_room = self.sender.has_room
        data = self.sender.take(lane, bytes_max, trio.current_time(), self._wall_us())
        if not had_room and self.sender.has_room:  # an unguaranteed copy is gone once it is written
            self._port.room(self.peer)
        return data

    def begin_batch(self) -> None:
        """Take the time for the units that follow, which have come now."""
        self._received_us = self._wall_us()

    def take(self, unit: Transfer | Control | Acknowledge) -> None:
        """Take a unit that has arrived. Raises UnitRefusal for one that breaks the rules of the link."""
        match unit:
            case Transfer():
                self._take_transfer(unit)
            case Control():
                self.receiver.arrived(unit, self._received_us)
                connection = self.receiver.connection
                self._port.control_arrived(
                    ControlArrived(peer=self.peer, connection=connection, control=unit)
                )
            case Acknowledge():
                self._check_numbers(unit)
                had_room = self.sender.has_room
                for settled in self.sender.acknowledged(unit, self._received_us):
                    self._port.acknowledged(self.peer, settled)
                if unit.outcome == "denied":
                    self._complain("denied", unit.reason or "no reason given")
                if not had_room and self.sender.has_room:
                    self._port.room(self.peer)
                if self.sender.waiting:
                    self._wake()

    def _check_numbers(self, ack: Acknowledge) -> None:
        """Raises UnitRefusal where it names far more than can be meant: each number is looked for."""
        named = sum(last - first + 1 for first, last in ack.ranges)
        if named > self.sender.in_flight + NOT_IN_FLIGHT_MAX:
            raise UnitRefusal(
                f"ACK: names {named} numbers, where {self.sender.in_flight} are not acknowledged"
            )

    def refuse(self, refusal: UnitRefusal) -> None:
        """Deny a unit that could not be read, if its number is known."""
        text = one_line(refusal.text, REASON_CHARACTERS_MAX)  # it may quote what cannot be sent back
        if refusal.number:
            self.receiver.refused(refusal.number, text, self._received_us)
            self._wake()
        self._complain("sent what was refused", text)

    def _take_transfer(self, transfer: Transfer) -> None:
        received_us = self._received_us
        self.receiver.arrived(transfer, received_us)
        message: Message | None = None
        try:
            message = decode_message(transfer.wire)
            reason = forged(self.peer, transfer.hops, message, transfer.mode)
        except Refusal as refusal:
            reason = refusal.text
        if reason is None and message is not None:
            connection = self.receiver.connection
            self._port.transfer_arrived(
                Arrived(
                    peer=self.peer,
                    connection=connection,
                    transfer=transfer,
                    message=message,
                    received_us=received_us,
                )
            )
            return
        reason = one_line(reason or "", REASON_CHARACTERS_MAX)
        self._port.transfer_refused(self.peer, transfer, message, reason)
        self._complain("sent what was refused", f"a message to {transfer.topic}: {reason}")
        if transfer.number:
            self.answer(self.receiver.connection, [transfer.number], "denied", reason)

    def _complain(self, what: str, text: str) -> None:
        """Log what goes wrong with the peer's units, or with ours at the peer."""
        self._bad_units[what] += 1
        now = trio.current_time()
        if now - self._complained_at.get(what, -math.inf) >= COMPLAINTS_EVERY_S:
            _log.warning("%s %s (%d so far): %s", self.peer, what, self._bad_units[what], text)
            self._complained_at[what] = now


def _nothing() -> None:
    """Do nothing: there is no connection to be woken."""
