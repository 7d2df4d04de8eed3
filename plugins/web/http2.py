"""HTTP/2 as hypercorn speaks it, where that leaves a client's frames, or its silence, to chance."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hypercorn.events import Closed
from hypercorn.protocol.events import Body, EndBody
from hypercorn.protocol.h2 import H2Protocol

from daemon.connections.http2 import bound

UNTAKEN_BYTES_MAX: Final = 262_144
"""Of bodies on one connection that no application has received yet: with more, its client may send one window
more, 65,535 bytes, until some are received or thrown away."""

AT_ONCE_BYTES: Final = 512

HEADER_BYTES: Final = 32
"""Of a header, besides its name and value: as HPACK counts it."""


class Http2(H2Protocol):  # type: ignore[misc]
    """One connection.

    What comes of a body whose request has been answered is passed over; RST_STREAM, as RFC 9113 8.1 allows,
    makes some clients forget the answer. Priorities, which may be disregarded (RFC 9113 5.3.2), are. CONNECT,
    be it for a proxy or for a WebSocket (RFC 8441), is refused.
    """

    def __init__(
        self, *args: Any, wait_s: Callable[[], float], slow: Callable[[], None], full: Callable[[], bool]
    ) -> None:
        """`slow` is called where a stream's client has let nothing be sent of it for so long.

        While it is `full`, streams are refused so that the client may repeat them (RFC 9113 8.7): one that
        cancels each at once could begin any number.
        """
        super().__init__(*args)
        settings = {**self.connection.local_settings, SettingCodes.ENABLE_CONNECT_PROTOCOL: 0}
        self.connection.local_settings = Settings(client=False, initial_values=settings)
        self._frames = bound(self.connection, settings[SettingCodes.MAX_HEADER_LIST_SIZE])
        self._wait_s = wait_s
        self._slow = slow
        self._full = full
        self._waiting: dict[int, trio.CancelScope] = {}
        self._sent = trio.lowlevel.ParkingLot()
        self._untaken_bytes = 0
        self._owed_bytes = 0  # that the connection may send more, once less is untaken

    @property
    def at_once_bytes(self) -> int:
        """Read between two looks at the clock: each may be a header (RFC 7541), but a body is no work."""
        return max(AT_ONCE_BYTES, self._frames.missing_of_data)

    async def handle(self, event: Any) -> None:
        """Take what has come; after `Closed` nobody waits for anything to be sent."""
        try:
            await super().handle(event)
        finally:
            if isinstance(event, Closed):
                await self.has_data.set()
                for buffer in self.stream_buffers.values():
                    await buffer.close()
                self._sent.unpark_all()

    async def stream_send(self, event: Any) -> None:
        """Send a part of an answer; returns, too, where the client does not take it.

        A part is waited for until it is sent, so that no more of an answer is kept than one. So is its end:
        what comes next, as its application goes on, may be a GOAWAY, after which nothing is sent.
        """
        with trio.move_on_after(self._wait_s()) as waiting:
            self._waiting[event.stream_id] = waiting
            try:
                await super().stream_send(event)
                while self._is_held(event):
                    await self._sent.park()
            finally:
                del self._waiting[event.stream_id]
        if waiting.cancelled_caught:
            self._slow()

    def _is_held(self, event: Any) -> bool:
        """Whether something of it has still to be sent before its application goes on."""
        if self.closed or event.stream_id not in self.stream_buffers:
            return False
        return isinstance(event, EndBody) or bool(self.stream_buffers[event.stream_id].buffer)

    async def _send_data(self, stream_id: int) -> None:
        buffer = self.stream_buffers[stream_id].buffer
        before = len(buffer)
        await super()._send_data(stream_id)
        if len(buffer) < before and stream_id in self._waiting:
            self._waiting[stream_id].deadline = trio.current_time() + self._wait_s()
        self._sent.unpark_all()

    async def _handle_events(self, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, DataReceived):
                await self._take_data(event)
            elif isinstance(event, RequestReceived) and self.context.terminated.is_set():
                self._refuse(event.stream_id)  # and so may be repeated on another connection
                self.connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
            else:
                await super()._handle_events([event])
        await self._flush()

    async def _take_data(self, event: DataReceived) -> None:
        """Of what a stream may send, more is allowed once its application has received it.

        The connection may send more at once, else a body that nobody receives yet would hold up all others;
        but not of very many, as those may be of who has not even logged in.
        """
        size, stream_id = event.flow_controlled_length, event.stream_id
        self._owed_bytes += size
        if stream_id in self.streams:
            self._untaken_bytes += len(event.data)
            self._allow(stream_id, size - len(event.data))  # padding
            await self.streams[stream_id].handle(Body(stream_id=stream_id, data=event.data))
        else:
            self._allow(stream_id, size)
        self._allow_connection()

    def _allow_connection(self) -> None:
        if self._untaken_bytes <= UNTAKEN_BYTES_MAX:
            self._allow(None, self._owed_bytes)
            self._owed_bytes = 0

    def _allow(self, stream_id: int | None, size: int) -> None:
        if size:
            with suppress(ProtocolError, KeyError):  # it has been closed
                self.connection.increment_flow_control_window(size, stream_id)

    def _taken(self, stream_id: int, size: int, is_whole: bool) -> None:
        self._untaken_bytes -= size
        self._allow_connection()
        if not is_whole:
            self._allow(stream_id, size)
        self.task_group.spawn(self._flush)

    async def _priority_updated(self, event: Any) -> None:
        pass

    async def _create_stream(self, request: Any) -> None:
        head = dict(request.headers)
        if self._full():
            self._refuse(request.stream_id)
        elif head[b":method"].upper() == b"CONNECT":
            self._refuse(request.stream_id, b"501")
        elif not head[b":path"].isascii():
            self._refuse(request.stream_id, b"400")
        else:
            self.connection_state["taken"] = partial(self._taken, request.stream_id)
            self.connection_state["head_bytes"] = _kept_bytes(request.headers, head[b":path"])
            await super()._create_stream(request)
            return
        await self._flush()

    def _refuse(self, stream_id: int, status: bytes | None = None) -> None:
        with suppress(StreamClosedError):  # the client has cancelled it
            if status is None:
                self.connection.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            else:
                self.connection.send_headers(stream_id, [(b":status", status)], end_stream=True)


def _kept_bytes(headers: list[tuple[bytes, bytes]], path: bytes) -> int:
    """Of the head of a request while that is under way: its path is kept in parts, and as text."""
    return sum(HEADER_BYTES + len(name) + len(value) for name, value in headers) + 2 * len(path)
