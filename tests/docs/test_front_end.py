"""The front end that the README of `plugins` adds is one: it is run, and does what it says."""

import re
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import trio

from tests.support.installed import ROOT
from tests.support.site import PASSWORD, ListeningSite, running_site


def shown() -> Any:
    """The example, as a module."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "plugins/README.md").read_text(), re.M | re.S)
    module = ModuleType("lines")
    exec("".join(blocks), module.__dict__)
    return module


class Client:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._came = b""

    async def says(self, line: str) -> None:
        await self._stream.send_all(f"{line}\n".encode())

    async def hears(self) -> str:
        """The next line; "" at the end."""
        while b"\n" not in self._came and (data := await self._stream.receive_some()):
            self._came += data
        line, _, self._came = self._came.partition(b"\n")
        return line.decode()

    async def asks(self, line: str) -> str:
        await self.says(line)
        return await self.hears()


async def test_the_front_end_that_is_added_serves_clients_until_the_site_drains(tmp_path: Path) -> None:
    plugin = shown().plugin
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    async with running_site(tmp_path / "site") as site, trio.open_nursery() as nursery:
        passed = ListeningSite(site.broker, {plugin.name: [listening]}, None)
        assert plugin.check(plugin.settings(), ["ada"]) == ()
        await nursery.start(plugin.serve, passed, plugin.settings())

        async with (
            await trio.open_tcp_stream(*address) as stream,
            await trio.open_tcp_stream(*address) as other,
        ):
            ada, bob = Client(stream), Client(other)
            assert await ada.asks("login ada wrong") == "refused: account or password is wrong"
            assert await ada.asks(f"login ada {PASSWORD}") == "welcome"
            assert await ada.asks("subscribe news") == "done: news"
            assert (await ada.asks("subscribe a#b")).startswith("refused: ")
            assert await ada.asks("dance") == "refused: there is no command 'dance'"
            assert await bob.asks(f"login bob {PASSWORD}") == "welcome"
            assert await bob.asks("publish news Rain until noon") == "done: news"
            assert await ada.hears() == "news: Rain until noon"
            assert await bob.asks("x" * 5_000) == "refused: a line is too long"
            assert await bob.hears() == ""
            passed.draining.set()
            assert await ada.hears() == "bye: the site is stopping"
            assert await ada.hears() == ""
