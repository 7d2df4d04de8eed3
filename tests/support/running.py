"""A site that a test runs as a process, with an operator and the account eve."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from routing.message import Message, Section
from routing.rights import EVERYTHING
from tests.support.made_site import made_site
from tests.support.operator import Operator
from tests.support.passwords import cheap_hash
from tests.support.ports import free_port


class SiteProcess(Operator):
    """A site with the account eve, and its operator."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.config = made_site(directory, "alpha.example", self.port).config
        with edit(directory / "accounts.toml") as editor:
            editor.add("eve", Account(password=cheap_hash("secret"), rights=EVERYTHING))

    @asynccontextmanager
    async def eve(self, channel: str = "desk") -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with session(stream, "eve", "secret", channel=channel) as client:
            yield client

    async def printed(self, *words: str) -> str:
        """What a command prints that succeeds."""
        code, out, why = await self.command(*words)
        assert code == 0, why
        return out


def message(body: bytes, **headers: object) -> Message:
    return Message(sections=(Section("text/plain", body),), **headers)  # type: ignore[arg-type] # of Message
