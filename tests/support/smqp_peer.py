"""A client for tests that says exactly what the test says, and shows exactly what came."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from daemon.connections.transport import StreamTransport
from daemon.settings import Limits
from plugins.smqp.conversation import frame_limits
from plugins.smqp.plugin import connections
from routing.frames import FrameReader
from tests.support.site import PASSWORD, BrokerSite

REMOTE = "192.0.2.1:4711"


def frame(*lines: str, body: bytes = b"") -> bytes:
    """Lines and an empty one, then a body."""
    return "\r\n".join((*lines, "", "")).encode() + body


def publish(topic: str, cmuid: str | int, *headers: str, body: bytes = b"hello") -> bytes:
    """A PUBLISH with one section."""
    head = frame(
        f"PUBLISH {topic}", "Created: 2026-11-21T10:00:00Z", f"Cmuid: {cmuid}", *headers, "Sections: 1"
    )
    return head + frame("Content-Type: text/plain", f"Content-Length: {len(body)}", body=body)


async def serve_connection(
    site: BrokerSite, stream: trio.abc.Stream, remote: str, login_by: float | None = None
) -> None:
    """Speak SMQP on a stream until either side ends it, as a site would; then close it."""
    served = connections(site)  # type: ignore[arg-type]  # nobody listens here
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.drain)
        try:
            if login_by is None:
                login_by = trio.current_time() + site.limits.login_timeout_s
            await served.serve(StreamTransport(stream), remote, login_by)
        finally:
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


class SmqpPeer:
    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.reader = FrameReader(frame_limits(Limits(message_bytes_max=2**30, unfinished_bytes_max=2**31)))

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def frame(self) -> Any:
        """The next frame; None at the end of the stream."""
        while (taken := self.reader.take()) is None:
            data = await self.stream.receive_some(65536)
            if not data:
                return None
            self.reader.feed(bytes(data))
        return taken

    async def line(self) -> Any:
        """The next frame as a start line and its attributes: `OK PASS`, {...}."""
        taken = await self.frame()
        if taken is None:
            return None
        start = f"{taken.command} {taken.arguments}" if taken.arguments else taken.command
        return start, dict(taken.headers)

    async def log_in(self, login: str = "ada/desk") -> dict[str, str]:
        start, _ = await self.line()
        assert start == "SMQP 1.0 Ready smqpd/test"
        await self.send(frame(f"PASS {login} {PASSWORD}"))
        start, attributes = await self.line()
        assert start == "OK PASS"
        return dict(attributes)


@asynccontextmanager
async def connected(
    site: Any,
    login: str | None = "ada/desk",
    *,
    pair: Callable[[], tuple[Any, Any]] = trio.testing.memory_stream_pair,
) -> AsyncIterator[SmqpPeer]:
    """A peer that has logged in, or is greeted where `login` is None, until the block ends."""
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, site, theirs, REMOTE)
        peer = SmqpPeer(ours)
        if login is not None:
            await peer.log_in(login)
        yield peer
        await trio.aclose_forcefully(ours)
