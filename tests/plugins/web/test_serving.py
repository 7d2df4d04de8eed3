"""The wire: versions of HTTP, TLS, sockets from the service manager, who is slow, draining."""

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio

from daemon.settings import Limits
from plugins.web.plugin import plugin
from plugins.web.serving import HEAD_BYTES_MAX
from plugins.web.settings import WebSettings
from tests.support.listening import certificate_in, serving
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite, ListeningSite

LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


@pytest.fixture
def limits() -> Limits:
    return Limits(login_timeout_s=0.5)


@pytest.fixture
def sockets() -> dict[str, list[socket.socket]]:
    return {name: [socket.create_server(("127.0.0.1", 0))] for name in ("http", "https")}


@pytest.fixture
def ports(sockets: dict[str, list[socket.socket]]) -> dict[str, int]:
    return {name: passed[0].getsockname()[1] for name, passed in sockets.items()}


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return certificate_in(tmp_path)


@pytest.fixture
async def running(
    site: BrokerSite,
    sockets: dict[str, list[socket.socket]],
    certificate: tuple[Path, Path],
    nursery: trio.Nursery,
) -> ListeningSite:
    """The front end, accepting."""
    tls = serving(certificate)
    tls.set_alpn_protocols(["h2", "http/1.1"])
    running = ListeningSite(site.broker, sockets, tls)
    await nursery.start(plugin.serve, running, WebSettings(listen=()))
    return running


async def rest_of(stream: trio.abc.ReceiveStream) -> bytes:
    """Until the server closes."""
    with trio.fail_after(PATIENCE_S):
        return b"".join([data async for data in stream])


async def answer_on(stream: trio.abc.Stream, request: bytes = LIVE) -> bytes:
    await stream.send_all(request)
    with trio.fail_after(PATIENCE_S):
        said = b""
        while b"alive\n" not in said:
            data = await stream.receive_some()
            assert data, said
            said += data
    return said


def test_without_settings_it_listens_on_this_host_alone() -> None:
    listens = {name: at for name, at in msgspec.structs.asdict(WebSettings()).items() if "listen" in name}
    assert {name: at for name, at in listens.items() if at} == {"listen": ("127.0.0.1:7780",)}
    assert not plugin.enabled_by_default


def test_a_plain_listener_that_others_reach_is_warned_of() -> None:
    assert list(plugin.check(WebSettings(), ())) == []
    (warning,) = plugin.check(WebSettings(listen=("*:80",)), ())
    assert "in clear at *:80" in warning


async def test_one_connection_has_many_requests(running: ListeningSite, ports: dict[str, int]) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        for _ in range(3):
            assert (await answer_on(stream)).startswith(b"HTTP/1.1 200 ")


async def test_http_2_is_spoken_without_tls_by_who_knows_of_it(
    running: ListeningSite, ports: dict[str, int]
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await stream.send_all(PREFACE + EMPTY_SETTINGS)
        with trio.fail_after(PATIENCE_S):
            said = b""
            while len(said) < 9:
                said += await stream.receive_some()
        assert said[3] == 4  # SETTINGS


@pytest.mark.parametrize("version", ["h2", "http/1.1"])
async def test_tls_has_clients_choose_the_version(
    running: ListeningSite, ports: dict[str, int], certificate: tuple[Path, Path], version: str
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    trusting.set_alpn_protocols([version])
    stream = await trio.open_ssl_over_tcp_stream("localhost", ports["https"], ssl_context=trusting)
    await stream.do_handshake()
    assert stream.selected_alpn_protocol() == version
    if version == "http/1.1":
        assert b"strict-transport-security: max-age=" in await answer_on(stream)
    await stream.aclose()


@pytest.mark.parametrize("sent", [b"", b"GET /health/live HTTP/1.1\r\nHost: loc"])
async def test_who_does_not_say_what_it_wants_is_sent_away(
    running: ListeningSite, ports: dict[str, int], sent: bytes
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        if sent:
            await stream.send_all(sent)
        assert await rest_of(stream) == b""


async def test_a_byte_now_and_then_holds_no_connection(
    running: ListeningSite, ports: dict[str, int], nursery: trio.Nursery
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await answer_on(stream)  # also not after a good request

        async def drip() -> None:
            for byte in LIVE[:-4] + b"\r\nX-More: " + b"x" * 10_000:
                try:
                    await stream.send_all(bytes([byte]))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return
                await trio.sleep(0.02)

        nursery.start_soon(drip)
        with suppress(trio.BrokenResourceError):  # it was closed while more came
            assert await rest_of(stream) == b""


async def test_a_head_that_is_too_large_is_refused(running: ListeningSite, ports: dict[str, int]) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await stream.send_all(LIVE[:-2] + b"X-Large: " + b"x" * 4 * HEAD_BYTES_MAX + b"\r\n\r\n")
        assert (await rest_of(stream)).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent",
    [b"\0\1\2\3\r\n\r\n", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n", LIVE.replace(b"Host", b"H")],
)
async def test_what_is_not_http_gets_an_error_and_harms_nobody(
    running: ListeningSite, ports: dict[str, int], sent: bytes
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await stream.send_all(sent)
        assert (await rest_of(stream)).startswith(b"HTTP/1.1 4")
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await answer_on(stream)
    assert running.broker.mishaps.count == 0


async def test_a_websocket_is_refused(running: ListeningSite, ports: dict[str, int]) -> None:
    upgrade = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await stream.send_all(upgrade)
        assert (await rest_of(stream)).startswith(b"HTTP/1.1 403 ")


async def test_when_the_site_drains_connections_that_rest_are_closed(
    running: ListeningSite, ports: dict[str, int]
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", ports["http"]) as stream:
        await answer_on(stream)
        running.draining.set()
        assert await rest_of(stream) == b""
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", ports["http"])
