"""STOMP connections over byte streams: for each, two tasks around the state machine of `protocol`.

    reader      receive -> all frames that came -> calls of the session; ends with the stream
    writer      session.events -> MESSAGE, RECEIPT -> one send; starts with the login

Whichever task has something to send sends all there is, so that there is one send at a time and frames
never mix; the other waits until it is done, which is how a client that does not read stops being read
from. Nor is a client read from to which too many answers are owed. Heart-beats: the writer sends a line end
where nothing was sent for the agreed interval, the reader gives a client up that was silent for its own
interval and some grace. A connection without heart-beats may be silent for ever once it is logged in.

Where the server ends a connection, the last frame is sent, then its half of the stream is closed, and the
reader throws away what still comes until the client has closed too, or for a moment: closing at once could
reset the connection before the client has read why.
"""

import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import trio

from daemon.connections.unless_left import unless_left
from daemon.frontend import UNCOUNTED_BYTES, Event, Session, Site
from plugins.stomp.connect import Connect
from plugins.stomp.protocol import Connection
from plugins.stomp.settings import StompSettings
from plugins.stomp.websocket import WebSocketTransport
from routing.errors import Refusal

_log = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 65_536
LINGER_S: Final = 2.0


class Transport(Protocol):
    """What carries the bytes: a TCP or TLS stream, or a WebSocket."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Some bytes; b"" at the end."""

    async def send_pieces(self, pieces: list[bytes]) -> None:
        """Send all of it: whole frames, each of which ends with the first piece that ends with NUL."""

    async def beat(self) -> None:
        """Send a heart-beat."""

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""


class StreamTransport:
    """A TCP or TLS stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.receive_some = stream.receive_some

    async def send_pieces(self, pieces: list[bytes]) -> None:
        """Frames follow one another."""
        await self._stream.send_all(b"".join(pieces))

    async def beat(self) -> None:
        """A line end."""
        await self._stream.send_all(b"\n")

    async def send_eof(self) -> None:
        """TLS has no half of its own to close; there the client is left to close first."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()


class StompServer:
    """The STOMP connections of one site."""

    def __init__(self, site: Site, settings: StompSettings) -> None:
        self._site = site
        self._settings = settings
        self._served: set[_Served] = set()

    async def serve_stream(self, stream: trio.abc.Stream, remote: str) -> None:
        """Carry one connection from CONNECT to its end; the caller closes the stream.

        Errors of the stream and silence end it without an exception.
        """
        await self._serve(StreamTransport(stream), remote)

    async def serve_websocket(self, stream: trio.abc.Stream, remote: str) -> None:
        """The same from the HTTP request on that begins a WebSocket."""
        transport = WebSocketTransport(stream)
        with trio.move_on_after(self._site.limits.login_timeout_s):
            try:
                await transport.shake_hands()
            except trio.BrokenResourceError:
                return
        if transport.open:
            await self._serve(transport, remote)

    async def _serve(self, transport: Transport, remote: str) -> None:
        connection = Connection(
            server_name=self._site.server_name,
            server_ident=self._site.server_ident,
            limits=self._site.limits,
            settings=self._settings,
            token=secrets.token_hex(8),
            wall_ms=lambda: time.time_ns() // 1_000_000,
        )
        served = _Served(self._site, self._settings, connection, transport, remote)
        self._served.add(served)
        try:
            await served.run()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("%s: connection lost", remote)
        except* _Silent:
            _log.info("%s: no heart-beat", remote)
        except* trio.TooSlowError:
            _log.info("%s: does not read", remote)
        finally:
            self._served.discard(served)

    async def drain(self) -> None:
        """Once the site drains, tell every client, after what it is owed, to go elsewhere."""
        await self._site.draining.wait()
        async with trio.open_nursery() as nursery:
            for served in list(self._served):
                nursery.start_soon(served.drain)


class _Silent(Exception):
    """The client has not sent its heart-beats."""


class _Served:
    """One connection while it is served."""

    def __init__(
        self,
        site: Site,
        settings: StompSettings,
        connection: Connection,
        transport: Transport,
        remote: str,
    ) -> None:
        self._site = site
        self._settings = settings
        self._connection = connection
        self._transport = transport
        self._remote = remote
        self._session: Session | None = None
        self._sending = False
        self._sent_at = 0.0
        self._sent = trio.lowlevel.ParkingLot()
        self._handled = trio.lowlevel.ParkingLot()
        self._reading = trio.CancelScope()
        self._said_goodbye = False
        self._held = 0  # bytes that the session knows of

    async def run(self) -> None:
        """Read until the client has closed, or the time to linger is over."""
        try:
            async with trio.open_nursery() as nursery:
                with self._reading:
                    await self._read(nursery)
                nursery.cancel_scope.cancel()
        finally:
            if self._session is not None:
                self._session.close(lost=not self._connection.said_goodbye)

    async def drain(self) -> None:
        """Say that the server stops. Errors of the stream are the reader's to see."""
        self._connection.drain(_stopping(self._site))
        try:
            await self._flush()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            self._reading.cancel()

    async def _read(self, nursery: trio.Nursery) -> None:
        connection = self._connection
        login_timeout_s = self._site.limits.login_timeout_s
        with trio.move_on_after(login_timeout_s) as login:
            while self._session is None:
                data = await self._transport.receive_some(RECEIVE_BYTES)
                if not data:
                    return
                connect = connection.receive(data)
                if connect is not None:
                    login.deadline = math.inf  # what the site takes from here on is not the client's time
                while connect is not None:
                    connect = await self._log_in(connect, nursery)
                await self._flush()
        if self._session is None:
            if not connection.closing:
                connection.refuse(
                    Refusal(Refusal.NOT_LOGGED_IN, f"no CONNECT came within {login_timeout_s:g} s")
                )
                await self._flush()
            return
        patience = None
        if connection.hears_every_s is not None:
            patience = connection.hears_every_s * self._settings.heart_beat_grace
        await self._make_room()
        while data := await self._receive(patience):
            connection.receive(data)
            await self._flush()
            await self._let_answers_catch_up()
            await self._make_room()

    async def _make_room(self) -> None:
        """Hold, of the memory that all connections share, what has come or was announced and is not whole."""
        held = self._connection.unfinished_bytes
        held = held if held > UNCOUNTED_BYTES else 0
        if held == self._held or self._session is None:
            return
        try:
            await self._session.hold(held)
            self._held = held
        except Refusal as refusal:
            self._connection.refuse_unfinished(refusal)
            await self._flush()

    async def _let_answers_catch_up(self) -> None:
        """Where as many answers are owed as may be, wait until half of them have been given.

        Nothing is read meanwhile, so that it cannot be told whether the client is still there: where no
        answer comes for long, the connection ends.
        """
        connection, limits = self._connection, self._site.limits
        if connection.unanswered < limits.unanswered_per_session_max:
            return
        while connection.unanswered > limits.unanswered_per_session_max // 2 and not connection.closing:
            with trio.move_on_after(limits.idle_timeout_s) as silence:
                await self._handled.park()
            if silence.cancelled_caught:
                text = f"the site could answer nothing for {limits.idle_timeout_s:g} s"
                connection.refuse(Refusal(Refusal.NOT_AVAILABLE, text))
                await self._flush()

    async def _receive(self, patience: float | None) -> bytes | bytearray:
        if patience is None:
            return await self._transport.receive_some(RECEIVE_BYTES)
        with trio.move_on_after(patience):
            return await self._transport.receive_some(RECEIVE_BYTES)
        raise _Silent

    async def _log_in(self, connect: Connect, nursery: trio.Nursery) -> Connect | None:
        site, connection = self._site, self._connection
        try:
            if site.draining.is_set():
                raise _stopping(site)
            identity = await unless_left(
                lambda: site.authenticate(connect.account, connect.password, self._remote),
                self._transport.receive_some,
                connection.read_ahead,
            )
            if connection.closing:
                return None
            channel = self._settings.channel if connect.channel is None else connect.channel
            self._session = site.open_session(identity, channel, protocol="stomp", remote=self._remote)
        except Refusal as refusal:
            if not connection.closing:
                connection.refuse(refusal)
            return None
        connection.accept(connect, self._session)
        nursery.start_soon(self._write, self._session)
        return connection.proceed()

    async def _write(self, session: Session) -> None:
        connection = self._connection
        while not connection.closing:
            events = await self._events(session)
            if connection.closing:
                return
            if not events:
                connection.refuse(Refusal(Refusal.NOT_AVAILABLE, "the session has ended"))
            connection.handle(events)
            self._handled.unpark_all()
            await self._flush()

    async def _events(self, session: Session) -> list[Event]:
        """The next events; heart-beats while there are none, or none of which anything was sent."""
        beat = self._connection.sends_every_s
        if beat is None:
            return await session.events()
        while True:
            if trio.current_time() >= self._sent_at + beat:
                await self._beat()
            with trio.move_on_at(self._sent_at + beat):
                return await session.events()

    async def _flush(self) -> None:
        """Send what there is; on return all that was there at the call has been sent."""
        while self._sending:
            await self._sent.park()
        self._sending = True
        try:
            while True:
                output, finished = self._connection.take_output()
                if not output:
                    break
                await self._send(self._transport.send_pieces, output)
                self._connection.written(finished)
            if self._connection.closing and not self._said_goodbye:
                self._said_goodbye = True
                self._reading.deadline = trio.current_time() + LINGER_S
                if self._session is not None:
                    # what it held goes on to others now
                    self._session.close(lost=not self._connection.said_goodbye)
                await self._transport.send_eof()
        finally:
            self._sending = False
            self._sent.unpark_all()

    async def _beat(self) -> None:
        if self._sending:
            await self._sent.park()  # what is being sent tells as much
            return
        self._sending = True
        try:
            await self._send(self._transport.beat)
        finally:
            self._sending = False
            self._sent.unpark_all()

    async def _send(self, send: Callable[..., Awaitable[None]], *what: Any) -> None:
        with trio.fail_after(self._site.limits.send_timeout_s):
            await send(*what)
        self._sent_at = trio.current_time()


def _stopping(site: Site) -> Refusal:
    where = f"; connect to {site.redirect}" if site.redirect else ""
    return Refusal(Refusal.NOT_AVAILABLE, f"the server is stopping{where}")
