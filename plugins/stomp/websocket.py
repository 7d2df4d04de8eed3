"""STOMP over WebSocket: the same byte stream, cut into WebSocket messages.

The sub-protocols are v10.stomp, v11.stomp and v12.stomp; the best that the client offers is agreed to, and
a client that offers none is served too. What the client sends may be cut anyhow, as text or binary. What
the server sends are messages of one frame each: of the kind that the client's first message had, but binary
where a body is not UTF-8. Source: RFC 6455; the practice of STOMP servers and browser libraries.
"""

from collections.abc import Callable
from contextlib import suppress

import trio
from h11 import LocalProtocolError
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from daemon.connections.shell import send_in_parts

SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
RECEIVE_BYTES = 65_536
NO_WEBSOCKET = b"Here is STOMP over WebSocket, and nothing else: connect with a STOMP client to ws://.\n"
RULES_BROKEN = "the site ended it: its client broke the rules of WebSocket"


class WebSocketTransport:
    """See `daemon.connections.transport.Transport`."""

    sends_now = False

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.ended_by = ""
        self._stream = stream
        self._websocket = WSConnection(ConnectionType.SERVER)
        self._text: bool | None = None
        self._came: list[bytes] = []
        self._sending = trio.Lock()
        self._pong: Pong | None = None  # that is owed, to the latest ping
        self._ended = False

    async def open(self) -> bool:
        """Shake hands, or answer what does not ask for a WebSocket in HTTP."""
        await self._shake_hands()
        return self._is_open

    @property
    def _is_open(self) -> bool:
        """Whether hands were shaken and neither side has closed."""
        return self._websocket.state is ConnectionState.OPEN

    async def _shake_hands(self) -> None:
        while True:
            data = await self._stream.receive_some(RECEIVE_BYTES)
            try:
                self._websocket.receive_data(bytes(data) or None)
                for event in self._websocket.events():
                    if isinstance(event, Request):
                        offered = event.subprotocols
                        agreed = next((name for name in SUBPROTOCOLS if name in offered), None)
                        await self._stream.send_all(self._websocket.send(AcceptConnection(agreed)))
                        return
            except (RemoteProtocolError, UnicodeError) as error:  # the latter of a header that is not ASCII
                await self._refuse(getattr(error, "event_hint", None) or RejectConnection())
                return
            if not data:
                return

    async def _refuse(self, hint: RejectConnection) -> None:
        refusal = RejectConnection(
            status_code=hint.status_code,
            headers=[
                *hint.headers,
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"%d" % len(NO_WEBSOCKET)),
                (b"connection", b"close"),
            ],
            has_body=True,
        )
        answer = self._websocket.send(refusal)
        with suppress(LocalProtocolError):  # the answer to HEAD may have no body
            answer += self._websocket.send(RejectData(NO_WEBSOCKET))
        await self._stream.send_all(answer)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What came in messages; b"" once the client has closed the WebSocket, or broken its rules.

        A message may be empty, and of one that comes in parts the part that is there, too: that ends nothing.
        Where it is cancelled, no message is lost.
        """
        while not self._came and not self._ended:
            data = await self._stream.receive_some(max_bytes)
            try:
                self._websocket.receive_data(bytes(data) or None)
                for close in [close for event in self._websocket.events() if (close := self._take(event))]:
                    await self._send(close)
            except RemoteProtocolError as error:
                self.ended_by = RULES_BROKEN
                await self._close(CloseReason.PROTOCOL_ERROR, str(error))
                self._ended = True
            if not data:
                self._ended = True
            if self._pong is not None and not self._sending.locked():
                async with self._sending:
                    await self._send_pong()
        came = b"".join(self._came)
        self._came.clear()
        return came

    def _take(self, event: Event) -> CloseConnection | None:
        """Keep what came; returns the answer to a close."""
        if isinstance(event, TextMessage):
            if self._text is None:
                self._text = True
            self._keep(event.data.encode())
        elif isinstance(event, BytesMessage):
            if self._text is None:
                self._text = False
            self._keep(bytes(event.data))
        elif isinstance(event, Ping):
            self._pong = event.response()
        elif isinstance(event, CloseConnection):
            self._ended = True
            # wsproto also reports the client's breaking of the rules so, and then the state is still OPEN.
            if self._is_open:
                self.ended_by = RULES_BROKEN
            if self._websocket.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                return event.response()
        return None

    def _keep(self, came: bytes) -> None:
        if came:
            self._came.append(came)

    def send_now(self, pieces: list[bytes]) -> list[bytes]:
        """None of it: an answer to a ping may be under way."""
        return pieces

    async def send_pieces(self, pieces: list[bytes], taken: Callable[[], object]) -> None:
        """Send each frame as one message: some clients read only the first of several.

        A heart-beat that stands alone is one, too.
        """
        frames, begun = [], 0
        for at, piece in enumerate(pieces, 1):
            if piece.endswith(b"\0") or at == len(pieces):
                frames.append(b"".join(pieces[begun:at]))
                begun = at
        await self._send(*map(self._message, frames), taken=taken)

    def _message(self, data: bytes) -> TextMessage | BytesMessage:
        if self._text:
            with suppress(UnicodeDecodeError):  # a body that is no text goes out as bytes
                return TextMessage(data.decode())
        return BytesMessage(data)

    async def send_eof(self) -> None:
        """Close the WebSocket from this side."""
        await self._close(CloseReason.NORMAL_CLOSURE, None)

    async def _close(self, code: CloseReason, reason: str | None) -> None:
        if self._is_open:
            await self._send(CloseConnection(code, reason))

    async def _send(self, *events: Event, taken: Callable[[], object] = lambda: None) -> None:
        if self._ended and not isinstance(events[0], CloseConnection):
            raise trio.BrokenResourceError("the WebSocket is closed")
        async with self._sending:
            await send_in_parts(self._stream, b"".join(map(self._websocket.send, events)), taken)
            await self._send_pong()

    async def _send_pong(self) -> None:
        """Answer the latest ping. Only for who has the lock.

        The reader does so where nobody sends, and does not wait for the writer, which does it in its place:
        so a client that takes much slowly is heard meanwhile.
        """
        while self._pong is not None and self._is_open and not self._ended:
            pong, self._pong = self._pong, None
            await self._stream.send_all(self._websocket.send(pong))
