"""What `smqpd sub` connects to and writes into, in the tests of it: in memory, a file, and a pipe."""

import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import memory_stream_pair

from daemon.frontend import SubscribeOptions
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from plugins.smqp.connection import ConnectionLost
from plugins.smqp.sub import Wish
from tests.support.site import PASSWORD, BrokerSite
from tests.support.smqp_peer import serve_connection


class ServerInMemory:
    """Connections to a site, as `plugins.smqp.profile.Profile` makes them; they can be cut, and refused."""

    def __init__(self, site: BrokerSite, nursery: trio.Nursery) -> None:
        self.refuses = 0
        self.attempts = 0
        self._site = site
        self._nursery = nursery
        self._serving = trio.CancelScope()

    def connect(self, channel: str) -> Any:
        self.attempts += 1
        if self.refuses:
            self.refuses -= 1
            raise ConnectionLost("unreachable", "smqp.example: Connection refused")
        ours, theirs = memory_stream_pair()
        self._serving = trio.CancelScope()
        self._nursery.start_soon(self._serve, theirs, self._serving)
        return session(ours, "ada", PASSWORD, channel=channel)

    async def _serve(self, stream: trio.abc.Stream, scope: Any) -> None:
        with scope:
            async with stream:
                await serve_connection(self._site, stream, "127.0.0.1:1")

    def other(self) -> "ServerInMemory":
        return ServerInMemory(self._site, self._nursery)

    def cut(self) -> None:
        self._serving.cancel()


class OutputFile:
    """Standard output, a file; `said` is what stderr has."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.said = io.StringIO()
        self._file = file
        self._descriptor = descriptor

    @property
    def written(self) -> bytes:
        return self._file.read_bytes()

    async def has_written(self) -> None:
        while not self.written:
            await trio.testing.wait_all_tasks_blocked()

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False


def full_pipe() -> tuple[int, int]:
    """Which nobody reads: what is written to it waits."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writes, bytes(4_096))
    os.set_blocking(writes, True)
    return reads, writes


def once_written(
    monkeypatch: pytest.MonkeyPatch, output: OutputFile, text: bytes, do: Callable[[], object]
) -> None:
    """This is done once that is all that is written, before it is committed."""
    commit = Client.commit

    async def do_before(client: Any, deliveries: Any) -> None:
        if output.written == text:
            monkeypatch.setattr(Client, "commit", commit)
            do()
        await commit(client, deliveries)

    monkeypatch.setattr(Client, "commit", do_before)


def wish(count: int | None, timeout_s: float | None = None) -> Wish:
    return Wish(("t",), SubscribeOptions(), count, timeout_s, "text")
