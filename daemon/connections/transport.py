"""What carries the bytes of a connection."""

from typing import Protocol

import trio


class Transport(Protocol):
    """A TCP or TLS stream, or something that is spoken over one. Its stream is its owner's to close."""

    async def open(self) -> bool:
        """Do what comes before the first byte of the protocol; False where the connection ends with that."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Some bytes; b"" at the end. Where it is cancelled, none are lost."""

    async def send_pieces(self, pieces: list[bytes]) -> None:
        """Send all of it: whole frames, of one or several pieces each."""

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""


class StreamTransport:
    """A TCP or TLS stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.receive_some = stream.receive_some

    async def open(self) -> bool:
        """True: nothing comes before."""
        return True

    async def send_pieces(self, pieces: list[bytes]) -> None:
        """Send all of it as it is: frames follow one another."""
        await self._stream.send_all(b"".join(pieces))

    async def send_eof(self) -> None:
        """See `Transport`. TLS has no half of its own to close; there the client is left to close first."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
