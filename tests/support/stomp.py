"""A STOMP client for tests: it sends what it is told, right or wrong, and takes apart what comes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from trio.testing import memory_stream_pair

from daemon.connections.transport import StreamTransport
from plugins.stomp.codec import Decoder, DecoderLimits, Frame, Version, encode
from plugins.stomp.plugin import connections
from plugins.stomp.settings import StompSettings
from plugins.stomp.websocket import WebSocketTransport
from tests.support.patience import PATIENCE_S
from tests.support.site import PASSWORD, BrokerSite

WIDE: Final = DecoderLimits(
    header_bytes_max=65_536, header_line_bytes_max=65_536, headers_max=200, body_bytes_max=2**24
)
"""What a client takes."""


class StompClient:
    """One connection. `version` decides how headers are escaped, both ways."""

    def __init__(self, stream: trio.abc.Stream, version: Version = "1.2") -> None:
        self.stream = stream
        self.version = version
        self.heart_beats = 0
        self._decoder = Decoder(WIDE)

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def send(self, command: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Send a frame."""
        await self.raw(encode(command, headers or {}, body, version=self.version))

    async def receive(self) -> Frame:
        """The next frame."""
        frame = await self._next()
        assert frame is not None, "the server has closed the connection"
        return frame

    async def _next(self) -> Frame | None:
        self._decoder.version = self.version
        with trio.fail_after(PATIENCE_S):
            while (frame := self._decoder.next_frame()) is None:
                data = await self.stream.receive_some(65_536)
                if not data:
                    return None
                self.heart_beats += data == b"\n"
                self._decoder.feed(data)
            return frame

    async def expect(self, command: str, **headers: str) -> Frame:
        """The next frame, which must be this one; `receipt_id` stands for `receipt-id`."""
        frame = await self.receive()
        assert frame.command == command, (frame.headers, frame.body)
        for name, value in headers.items():
            assert frame.headers.get(name.replace("_", "-")) == value, (name, frame.headers)
        return frame

    async def expect_end(self) -> None:
        """The server has nothing more to say."""
        frame = await self._next()
        assert frame is None, frame

    async def refused(self, code: str) -> Frame:
        """An ERROR with this code comes, and then the end."""
        frame = await self.expect("ERROR")
        assert frame.headers["message"] == code, frame.body
        await self.expect_end()
        return frame

    async def ask(self, command: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Send a frame with a receipt, and wait for that."""
        await self.send(command, {**(headers or {}), "receipt": f"{command}-receipt"}, body)
        await self.expect("RECEIPT", receipt_id=f"{command}-receipt")

    async def connect(self, **headers: str) -> Frame:
        """Log in as ada, unless the headers say otherwise; `client_id` stands for `client-id`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.send(
            "CONNECT",
            {"accept-version": self.version, "host": "/", "login": "ada", "passcode": PASSWORD, **named},
        )
        return await self.expect("CONNECTED", version=self.version)

    async def subscribe(self, destination: str, id: str = "0", **headers: str) -> None:
        """Subscribe and wait until it is so."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.ask("SUBSCRIBE", {"id": id, "destination": destination, **named})

    async def leave(self) -> None:
        """Say goodbye, and wait for the end."""
        await self.ask("DISCONNECT")
        await self.expect_end()


ConnectStomp = Callable[..., Any]


@asynccontextmanager
async def stomp_server(site: BrokerSite, settings: StompSettings) -> AsyncIterator[ConnectStomp]:
    """Serve STOMP over in-memory streams: what is yielded makes a client, not yet logged in.

    Its arguments: the version, `pair` for another kind of stream, and `websocket` for a client that has
    to shake hands first.
    """
    served = connections(site, settings)  # type: ignore[arg-type]  # nobody listens here
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.drain)

        def connect(
            version: Version = "1.2",
            *,
            pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = memory_stream_pair,
            websocket: bool = False,
        ) -> StompClient:
            ours, theirs = pair()

            async def serve() -> None:
                async with theirs:
                    transport = WebSocketTransport(theirs) if websocket else StreamTransport(theirs)
                    login_by = trio.current_time() + site.limits.login_timeout_s
                    await served.serve(transport, "test", login_by)

            nursery.start_soon(serve)
            return StompClient(ours, version)

        yield connect
        nursery.cancel_scope.cancel()
