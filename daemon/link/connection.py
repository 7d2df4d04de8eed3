"""One connection with a peer, from its first byte to its end.

    reader      bytes -> HTTP/2 -> the lanes' buffers; ends when the peer closes
    writer      rounds: some of each lane, control first; ends after the GOAWAY
    consumers   one a lane: bytes -> units -> exchange; gives flow control back when units are handled
    prober      a probe, its answer, a pause; ends the connection when no answer comes, to it or to a control

A connection greets first: HELLO both ways, then WELCOME from the site that decides. Only then do units
pass. `end` says goodbye and closes; whatever goes wrong in any task ends in one reason, the same in the
logs of both sites as far as the peer could be told.
"""

import logging
import math
from collections.abc import Callable
from typing import Final, Literal, Protocol

import trio

from daemon.link.exchange import Exchange
from daemon.link.lane_input import LaneInput
from daemon.link.lanes import LaneData, LaneError, Lanes, PeerClosed
from daemon.link.transport import LinkTransport, Secured
from daemon.settings import LinkSettings
from daemon.system.log import one_line
from routing.link.codec import REASON_CHARACTERS_MAX, UnitRefusal, encode
from routing.link.units import (
    Acknowledge,
    Control,
    Goodbye,
    Hello,
    Lane,
    Probe,
    ProbeReply,
    Transfer,
    Unit,
    Unknown,
    Welcome,
)

_log = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 65_536
SLICE_BYTES: Final = 16_384
"""Handled at a time, so that a peer that sends many small frames stops nobody else for long."""
ROUND_BYTES: Final = 65_536
"""Of each lane in one round: what an urgent message may have to wait for."""
BAD_UNITS_MAX: Final = 100
PROBES_MAX: Final = 64
"""Of a peer, and not answered: it asks the next when it has the answer."""
GOODBYE_S: Final = 2.0
"""How long a peer gets to take the reason for an end."""
SILENCE_S: Final = 60.0
"""A lane that stops in the middle of a unit for so long ends the connection."""
LEAVING_S: Final = 60.0
"""How long a peer that has said GOODBYE may take to close, in which it is sent nothing new.

That is its `drain_s`, 10 s as a rule. One that needs longer loses nothing: what is unanswered goes again.
"""
DRAINING: Final = "draining"
LINKED: Final = "already linked"
"""A peer of 0.1 knows both ends by these words alone."""

LinkEnding = Literal["left", "linked", "refused", "other"]
"""What the end of a connection is.

    left      the site that ended it stops, and has said so before with GOODBYE if this was the link
    linked    there is a link already; where a peer of 0.1 says so, it is `other`, as it does in words alone
    refused   this site refused the peer; what a peer refuses is `other`
"""


class ConnectionOwner(Protocol):
    """What a connection reports to the manager; all but `input_room` are synchronous."""

    def greeted(self, connection: "PeerConnection") -> None:
        """Called with the peer's HELLO in `connection.hello`: refuse it, welcome it, or await its WELCOME."""

    def welcomed(self, connection: "PeerConnection") -> None:
        """Called when the peer has decided that this connection is the link."""

    def ended(self, connection: "PeerConnection") -> None:
        """Called when the connection has a `reason` and carries no more units; its stream may take longer."""

    def proved(self, connection: "PeerConnection") -> None:
        """Called when a probe has gone through the peer's broker and back."""

    def probe_arrived(self, peer: str, probe: Probe) -> None:
        """Have it answered from where arrivals are handled."""

    async def input_room(self) -> None:
        """Return once more units may be handled."""


class PeerConnection:
    """One connection; `run` it once.

    Attributes:
        hello: the peer's; None until it has come.
        reason: why it ended, in words; None while it has not.
        ending: the same for programs, once it has ended.
        by_peer: whether the reason is the peer's own.
        said: the reason in its words, where it is the peer's own and has any; such words are of the peer's
            view, and nobody has checked them.
        round_trip_s: of the last probe; None until one has come back.
        is_up: whether it is the link.
        leaving: whether it ends as soon as everything on its way has been acknowledged.
        goodbye_at: when this site or the peer said that it leaves; None while neither has.
    """

    def __init__(
        self,
        secured: Secured,
        *,
        dialled: bool,
        own: Hello,
        owner: ConnectionOwner,
        transport: LinkTransport,
        settings: LinkSettings,
        message_bytes_max: Callable[[], int],
        wall_us: Callable[[], int],
    ) -> None:
        self.secured = secured
        self.dialled = dialled
        self.hello: Hello | None = None
        self.reason: str | None = None
        self.ending: LinkEnding = "other"
        self.by_peer = False
        self.said = ""
        self.round_trip_s: float | None = None
        self.is_up = False
        self.leaving = False
        self.goodbye_at: float | None = None
        self._peer_leaving = False
        self._peer_leaves_by = math.inf
        self._peer_closed: PeerClosed | None = None  # once its GOAWAY has come: nothing can be sent then
        self._bad_units = 0
        self._owner = owner
        self._transport = transport
        self._settings = settings
        self._wall_us = wall_us
        self._exchange: Exchange | None = None
        self._lanes = Lanes(dialled=dialled, peer=secured.name, now=trio.current_time())
        self._inputs = {lane: LaneInput(lane, message_bytes_max) for lane in Lane}
        self._pending = {lane: memoryview(b"") for lane in Lane}
        self._unnumbered: list[bytes] = [encode(own)]
        self._wake = trio.Event()
        self._up = trio.Event()
        self._scope = trio.CancelScope()
        self._probe_number = 0
        self._probe_answered = trio.Event()
        self._probe_now = trio.Event()
        self._probes_asked = 0  # by the peer, and not answered by the broker
        self._owed_max = 2 * settings.window_units_max + PROBES_MAX
        self._answers_taken = trio.Event()

    async def run(self) -> None:
        """Serve the connection until its end, which is in `reason`. Closes the stream, also if cancelled."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._read)
                    for lane in Lane:
                        nursery.start_soon(self._consume, lane)
                    nursery.start_soon(self._watch_greeting)
                    nursery.start_soon(self._probe)
        except Exception:
            self._finish("an error of this site")
            raise
        finally:
            self._finish("this site stopped")
            await trio.aclose_forcefully(self.secured.stream)

    def establish(self, exchange: Exchange) -> None:
        """Make this connection the link: units pass from now on."""
        self._exchange = exchange
        self.is_up = True
        self._up.set()
        self.wake()

    def welcome(self) -> None:
        """Tell the peer that this is the link."""
        self._say(Welcome())

    def say_probed(self, probe: Probe) -> None:
        """Answer a probe."""
        self._probes_asked = max(self._probes_asked - 1, 0)  # an earlier connection may have asked
        self._say(ProbeReply(probe.number, probe.sent_us, self._wall_us()))

    def leave(self) -> None:
        """Send nothing new, and end once everything on its way has been acknowledged."""
        if not self.leaving:
            self.leaving = True
            self._note_goodbye()
            self._say(Goodbye(DRAINING))

    def _note_goodbye(self) -> None:
        if self.goodbye_at is None:
            self.goodbye_at = trio.current_time()

    def probe_soon(self) -> None:
        """Probe at once, whether or not it is time."""
        self._probe_now.set()

    def end(self, reason: str, ending: LinkEnding = "other", *, error: bool = False) -> None:
        """Tell the peer why, and close. Only the first reason counts."""
        if self.reason is None:
            reason = one_line(reason, REASON_CHARACTERS_MAX)  # it may quote what the peer sent
            self._lanes.close(reason, "error" if error else "linked" if ending == "linked" else "")
            self._scope.deadline = min(self._scope.deadline, trio.current_time() + GOODBYE_S)
            self._finish(reason, ending)
            self.wake()

    def wake(self) -> None:
        """Have the writer look for what there is to write."""
        self._wake.set()

    def _wake_if_needed(self) -> None:
        """As `wake`, where there is something to be written: what has come may have made room for it."""
        if self._lanes.has_outgoing or any(self._has_more(lane) for lane in Lane):
            self.wake()

    def _lost(self, reason: str, ending: LinkEnding = "other", *, by_peer: bool = False) -> None:
        """The peer is gone: nothing can be said any more."""
        self._finish(reason, ending, by_peer=by_peer)
        self._scope.cancel()

    def _finish(self, reason: str, ending: LinkEnding = "other", *, by_peer: bool = False) -> None:
        if self.reason is None:
            self.reason = reason
            self.ending = ending
            self.by_peer = by_peer
            self.is_up = False
            self._owner.ended(self)

    def _say(self, unit: Hello | Welcome | Goodbye | Probe | ProbeReply) -> None:
        self._unnumbered.append(encode(unit))
        self.wake()

    @property
    def _has_left(self) -> bool:
        """Whether this site is leaving, and nothing is on its way in either direction, nor any answer."""
        exchange = self._exchange
        if not self.leaving or self._unnumbered or any(self._pending.values()):
            return False
        if exchange is None:
            return True
        receiver = exchange.receiver
        return not (exchange.sender.in_flight or receiver.in_hand or receiver.has_answers)

    async def _read(self) -> None:
        stream = self.secured.stream
        while self._peer_closed is None:
            try:
                data = await stream.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError as error:
                self._lost(self._transport.explain(error))
                return
            if not data:
                self._lost("the peer closed the connection", by_peer=True)
                return
            for start in range(0, len(data), SLICE_BYTES):
                # After our own end, reading on lets the peer read our reason before the connection is reset;
                # what comes then would only have HTTP/2 say another one.
                if self.reason is not None:
                    break
                try:
                    self._receive(bytes(data[start : start + SLICE_BYTES]))
                except LaneError as error:
                    self.end(str(error), error=True)
                    break
                if len(data) > SLICE_BYTES:
                    await trio.lowlevel.checkpoint()
            self._wake_if_needed()
        self._note_answers_taken()
        # What the peer acknowledged before it closed still counts.
        await self._inputs[Lane.CONTROL].emptied()
        self._peer_ended(self._peer_closed)

    def _peer_ended(self, closed: PeerClosed) -> None:
        if self._peer_leaving and not closed.kind:
            self._lost(DRAINING, "left", by_peer=True)
            return
        if self.reason is None:
            self.said = closed.reason
        ending: LinkEnding = "linked" if closed.kind == "linked" else "other"
        self._lost(closed.reason or "the peer closed the connection", ending, by_peer=True)

    def _receive(self, data: bytes) -> None:
        now = trio.current_time()
        for event in self._lanes.receive(data, now):
            match event:
                case LaneData():
                    self._inputs[event.lane].add(event.data, event.flow_bytes, now)
                case PeerClosed():
                    if event.reason or self._peer_closed is None:
                        self._peer_closed = event

    async def _write(self) -> None:
        stream = self.secured.stream
        while True:
            self._wake = trio.Event()
            if not self._lanes.closed:
                self._fill()
            data = self._lanes.outgoing()
            if data:
                try:
                    await stream.send_all(data)
                except trio.BrokenResourceError as error:
                    # The reader may still find the peer's reason in what has arrived.
                    await trio.sleep(GOODBYE_S)
                    self._lost(self._transport.explain(error))
                    return
            elif self.reason is not None:
                # The peer closes when it has read it; the scope's deadline is for one that does not.
                return
            elif self._has_left:
                self.end(DRAINING, "left")
            else:
                await self._wake.wait()

    def _fill(self) -> None:
        """One round: of each lane as much as the peer and its share allow."""
        for lane in Lane:
            if not self._has_more(lane):
                continue
            room = min(self._lanes.capacity(lane), ROUND_BYTES)
            while room > 0:
                if not self._pending[lane]:
                    self._pending[lane] = memoryview(self._next(lane, room))
                    if not self._pending[lane]:
                        break
                part = self._pending[lane][:room]
                self._lanes.send(lane, part)
                self._pending[lane] = self._pending[lane][len(part) :]
                room -= len(part)

    def _has_more(self, lane: Lane) -> bool:
        if self._pending[lane] or (lane is Lane.CONTROL and self._unnumbered):
            return True
        return self._exchange is not None and self._exchange.has_waiting(lane)

    def _next(self, lane: Lane, bytes_max: int) -> bytes:
        exchange = self._exchange if self.is_up else None
        if lane is not Lane.CONTROL:
            return (
                b""
                if exchange is None or self.leaving or self._peer_leaving
                else exchange.fill(lane, bytes_max)
            )
        parts = self._unnumbered
        self._unnumbered = []
        if exchange is not None:
            parts.append(exchange.answers())
            self._note_answers_taken()
            if not (self.leaving or self._peer_leaving):
                parts.append(exchange.fill(lane, bytes_max))
        return b"".join(parts)

    async def _consume(self, lane: Lane) -> None:
        if lane is not Lane.CONTROL:
            await self._up.wait()
        await self._inputs[lane].consume(self)

    @property
    def is_over(self) -> bool:
        """Whether no more units are to be handled; see `daemon.link.lane_input.UnitHandler`."""
        return self.reason is not None

    def begin_batch(self) -> None:
        """See `daemon.link.lane_input.UnitHandler`."""
        if self._exchange is not None:
            self._exchange.begin_batch()

    def credit(self, lane: Lane, flow_bytes: int) -> None:
        """See `daemon.link.lane_input.UnitHandler`."""
        self._lanes.credit(lane, flow_bytes)
        self._wake_if_needed()

    async def input_room(self) -> None:
        """See `daemon.link.lane_input.UnitHandler`. A peer that takes no answers is not read on."""
        await self._owner.input_room()
        while self._owed > self._owed_max and not self._lanes.closed:
            await self._answers_taken.wait()

    def _note_answers_taken(self) -> None:
        self._answers_taken.set()
        self._answers_taken = trio.Event()

    @property
    def _owed(self) -> int:
        """Answers that have not been written, and of probes those that are to come."""
        answers = self._exchange.receiver.answers_waiting if self._exchange is not None else 0
        return answers + self._probes_asked + len(self._unnumbered)

    def framing_lost(self, text: str) -> None:
        """See `daemon.link.lane_input.UnitHandler`."""
        self.end(f"the framing is lost: {text}", error=True)

    def refuse(self, refusal: UnitRefusal) -> None:
        """Deny a unit with a number, however many there are; end the connection for too many without one."""
        self._bad_units += not refusal.number
        if self._exchange is None:
            self.end(f"before it was a link: {refusal.text}", error=True)
        elif self._bad_units > BAD_UNITS_MAX:
            self.end(
                f"more than {BAD_UNITS_MAX} units that make no sense; the last: {refusal.text}", error=True
            )
        else:
            self._exchange.refuse(refusal)

    def handle(self, unit: Unit) -> None:
        """Do what a unit asks for. Raises UnitRefusal."""
        exchange = self._exchange
        match unit:
            case Unknown():
                _log.debug("%s sent %s, which only a newer site knows", self.secured.name, unit.command)
            case Hello() if self.hello is None:
                self.hello = unit
                self._owner.greeted(self)
            case Welcome() if self.hello is not None and not self.is_up:
                self._owner.welcomed(self)
            case Transfer() | Control() | Acknowledge() if exchange is not None:
                exchange.take(unit)
                if self.leaving:  # once this was the last one, the writer is to end
                    self.wake()
            case Probe() if exchange is not None:
                self._probes_asked += 1
                self._owner.probe_arrived(self.secured.name, unit)
            case ProbeReply() if exchange is not None:
                if unit.number == self._probe_number:
                    self._probe_answered.set()
            case Goodbye() if exchange is not None:
                if not self._peer_leaving:
                    self._peer_leaving = True
                    self._note_goodbye()
                    self._peer_leaves_by = trio.current_time() + LEAVING_S
            case _:
                raise UnitRefusal(f"{type(unit).__name__.upper()} is out of place")

    async def _watch_greeting(self) -> None:
        with trio.move_on_after(self._settings.greeting_timeout_s) as waiting:
            await self._up.wait()
        if waiting.cancelled_caught:
            missing = "HELLO" if self.hello is None else "WELCOME"
            self.end(f"no {missing} within {self._settings.greeting_timeout_s:g} s")

    async def _probe(self) -> None:
        await self._up.wait()
        while True:
            self._probe_number += 1
            self._probe_answered = trio.Event()
            self._probe_now = trio.Event()
            self._say(Probe(self._probe_number, self._wall_us()))
            sent_at = trio.current_time()
            with trio.move_on_after(self._settings.probe_timeout_s) as waiting:
                await self._probe_answered.wait()
            if waiting.cancelled_caught:
                self.end(f"no answer to a probe within {self._settings.probe_timeout_s:g} s")
                return
            self.round_trip_s = trio.current_time() - sent_at
            self._owner.proved(self)
            with trio.move_on_after(self._settings.probe_interval_s):
                await self._probe_now.wait()
            self._end_if_silent()
            if trio.current_time() > self._peer_leaves_by:
                self.end(f"no end within {LEAVING_S:g} s of the goodbye")
            if self._exchange is not None and (overdue := self._exchange.sender.overdue(trio.current_time())):
                self.end(overdue)

    def _end_if_silent(self) -> None:
        for lane, lane_input in self._inputs.items():
            silent_s = lane_input.silent_s(trio.current_time())
            if silent_s > SILENCE_S:
                self.end(f"silent for {silent_s:.0f} s in the middle of a unit ({lane.name.lower()} lane)")
