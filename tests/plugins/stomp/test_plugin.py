"""The listeners: sockets from the service manager, IPv4 and IPv6, TLS, WebSocket."""

import socket
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from wsproto.events import TextMessage

from daemon.settings import Limits
from plugins.stomp.plugin import plugin
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal
from tests.plugins.stomp.test_websocket import CONNECT, Browser
from tests.support.listening import certificate_in, serving
from tests.support.site import BrokerSite, ListeningSite
from tests.support.stomp import StompClient


def listening(family: Any, address: str) -> Any:
    try:
        return socket.create_server((address, 0), family=family)
    except OSError:
        if family != socket.AF_INET6:
            raise
        pytest.skip(f"{address} cannot be listened on")


@pytest.fixture
def sockets() -> dict[str, list[socket.socket]]:
    return {
        "stomp": [listening(socket.AF_INET, "127.0.0.1"), listening(socket.AF_INET6, "::1")],
        "stomp-tls": [listening(socket.AF_INET, "127.0.0.1")],
        "stomp-ws": [listening(socket.AF_INET, "127.0.0.1")],
        "stomp-wss": [listening(socket.AF_INET, "127.0.0.1")],
    }


@pytest.fixture
def addresses(sockets: dict[str, list[socket.socket]]) -> dict[str, list[tuple[str, int]]]:
    return {name: [taken.getsockname()[:2] for taken in passed] for name, passed in sockets.items()}


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return certificate_in(tmp_path)


@pytest.fixture
async def running(
    site: BrokerSite,
    sockets: dict[str, list[socket.socket]],
    certificate: tuple[Path, Path],
    nursery: trio.Nursery,
) -> Any:
    """The front end, accepting."""
    settings = StompSettings(listen=(), listen_websocket=())
    running = ListeningSite(site.broker, sockets, serving(certificate))
    await nursery.start(plugin.serve, running, settings)
    return running


@pytest.fixture
def trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def test_without_settings_nothing_but_tcp_on_this_host_is_listened_on() -> None:
    listens = {name: at for name, at in msgspec.structs.asdict(StompSettings()).items() if "listen" in name}
    assert {name: at for name, at in listens.items() if at} == {"listen": ("127.0.0.1:61613",)}


@pytest.mark.parametrize("index", [0, 1])
async def test_tcp_is_served_over_both_internet_protocols(
    running: Any, addresses: dict[str, list[tuple[str, int]]], index: int
) -> None:
    async with await trio.open_tcp_stream(*addresses["stomp"][index]) as stream:
        client = StompClient(stream)
        await client.connect()
        await client.ask("DISCONNECT")


async def test_tls_is_served(
    running: Any, addresses: dict[str, list[tuple[str, int]]], trusting: ssl.SSLContext
) -> None:
    stream = await trio.open_ssl_over_tcp_stream(
        "localhost", addresses["stomp-tls"][0][1], ssl_context=trusting
    )
    client = StompClient(stream)
    await client.connect()
    await client.subscribe("/queue/a")
    await client.send("SEND", {"destination": "/queue/a"}, b"secret")
    assert (await client.expect("MESSAGE")).body == b"secret"
    await client.send("SEND", {})
    await client.expect("ERROR")
    await stream.aclose()


@pytest.mark.parametrize("name", ["stomp-ws", "stomp-wss"])
async def test_websocket_is_served_with_and_without_tls(
    running: Any, addresses: dict[str, list[tuple[str, int]]], trusting: ssl.SSLContext, name: str
) -> None:
    port = addresses[name][0][1]
    stream: trio.abc.Stream
    if name == "stomp-wss":
        stream = await trio.open_ssl_over_tcp_stream("localhost", port, ssl_context=trusting)
    else:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    browser = Browser(stream)
    assert await browser.open("v12.stomp") == "v12.stomp"
    await browser.send(TextMessage(CONNECT.decode()))
    assert (await browser.frame())[0].command == "CONNECTED"
    await stream.aclose()


async def test_when_the_site_drains_clients_are_told_and_listening_ends(
    running: Any, addresses: dict[str, list[tuple[str, int]]]
) -> None:
    async with await trio.open_tcp_stream(*addresses["stomp"][0]) as stream:
        client = StompClient(stream)
        await client.connect()
        running.draining.set()
        await client.refused("not-available")
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream(*addresses["stomp"][0])


class TestFull:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(connections_max=1)

    async def test_one_connection_too_many_is_told_why_it_is_closed(
        self, running: Any, addresses: dict[str, list[tuple[str, int]]]
    ) -> None:
        async with (
            await trio.open_tcp_stream(*addresses["stomp"][0]),
            await trio.open_tcp_stream(*addresses["stomp"][0]) as second,
        ):
            error = await StompClient(second).refused(Refusal.TOO_MANY)
            assert b"as many connections as may be" in error.body

    async def test_a_websocket_too_many_is_told_in_http(
        self, running: Any, addresses: dict[str, list[tuple[str, int]]]
    ) -> None:
        async with (
            await trio.open_tcp_stream(*addresses["stomp"][0]),
            await trio.open_tcp_stream(*addresses["stomp-ws"][0]) as second,
        ):
            answer = b"".join([data async for data in second])
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"as many connections as may be" in answer
