"""What carries the bytes of a connection."""

import os
from collections.abc import Callable
from typing import Final, Protocol

import trio

RECEIVE_BYTES: Final = 65_536
SEND_BYTES: Final = 65_536
"""What a client has to take of a stream for it to be seen that it reads."""

LINGER_S: Final = 2.0


class HalfCloseable(Protocol):
    """A stream whose directions end one after the other, or something that is spoken over one."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Some bytes; b"" at the end. Where it is cancelled, none are lost."""

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""


class Transport(HalfCloseable, Protocol):
    """A TCP or TLS stream, or something that is spoken over one. Its stream is its owner's to close."""

    sends_now: bool
    """Whether `send_now` ever sends anything."""

    ended_by: str
    """Why this side has ended the stream, for the log; "" where it has not."""

    async def open(self) -> bool:
        """Do what comes before the first byte of the protocol; False where the connection ends with that."""

    def send_now(self, pieces: list[bytes]) -> list[bytes]:
        """Send what goes without waiting, of whole frames; what is left is to be sent with `send_pieces`.

        Raises trio.BrokenResourceError.
        """

    async def send_pieces(self, pieces: list[bytes], taken: Callable[[], object]) -> None:
        """Send all of it, frames of one or several pieces each; `taken` is called as the client takes it."""


async def send_in_parts(stream: trio.abc.SendStream, data: bytes, taken: Callable[[], object]) -> None:
    """Send all of it, and call `taken` after each part: who reads slowly is told from who does not."""
    if len(data) <= SEND_BYTES:
        await stream.send_all(data)
        return
    with memoryview(data) as whole:
        for at in range(0, len(whole), SEND_BYTES):
            await stream.send_all(whole[at : at + SEND_BYTES])
            taken()


async def linger(stream: HalfCloseable) -> None:
    """Say that nothing more will be sent, and throw away what still comes, until the end or for a moment.

    To close at once could reset the connection before the client has read what was sent last.
    """
    with trio.move_on_after(LINGER_S):
        await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass


class StreamTransport:
    """A TCP or TLS stream.

    Of a bare socket it is known what trio has to find out: that there is nothing to be read before it is
    readable, and nearly always room for what is written. So neither costs a call in vain, or a turn of the
    loop.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.ended_by = ""
        self._stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self.sends_now = self._socket is not None

    async def open(self) -> bool:
        """True: nothing comes before."""
        return True

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See `Transport`."""
        socket = self._socket
        if socket is None:
            return await self._stream.receive_some(max_bytes)
        while True:
            await trio.lowlevel.wait_readable(socket)
            try:
                return os.read(socket.fileno(), max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError from error

    def send_now(self, pieces: list[bytes]) -> list[bytes]:
        """See `Transport`."""
        if self._socket is None:
            return pieces
        data = b"".join(pieces)
        try:
            sent = os.write(self._socket.fileno(), data)
        except BlockingIOError:
            return [data]
        except OSError as error:
            raise trio.BrokenResourceError from error
        return [data[sent:]] if sent < len(data) else []

    async def send_pieces(self, pieces: list[bytes], taken: Callable[[], object]) -> None:
        """Send all of it as it is: frames follow one another."""
        await send_in_parts(self._stream, b"".join(pieces), taken)

    async def send_eof(self) -> None:
        """See `Transport`. TLS has no half of its own to close; there the client is left to close first."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
