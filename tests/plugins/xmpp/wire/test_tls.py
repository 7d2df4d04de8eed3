"""The component's connection over TLS: to ejabberd's own listener, and to Prosody through a TLS endpoint.

Prosody has no TLS for components; operators put a proxy in front, and so do these tests.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daemon.certificates.self_signed import make_self_signed
from plugins.xmpp.serving import connector
from plugins.xmpp.settings import XmppSettings
from tests.support.patience import PATIENCE_S
from tests.support.xmpp_real import ready, site_at
from tests.support.xmpp_servers import COMPONENT_NAME, RealServer, log_in


@asynccontextmanager
async def tls_endpoint(server: RealServer, host: str = "127.0.0.1") -> AsyncIterator[Any]:
    """The port of an endpoint that ends TLS and passes everything on to the server's component port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate_and_key)

    async def pass_on(source: trio.abc.Stream, target: trio.abc.Stream, scope: trio.CancelScope) -> None:
        try:
            while data := await source.receive_some(65_536):
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    async def serve(outside: trio.SSLStream[trio.SocketStream]) -> None:
        inside = await trio.open_tcp_stream("127.0.0.1", server.component)
        async with outside, inside, trio.open_nursery() as nursery:
            nursery.start_soon(pass_on, outside, inside, nursery.cancel_scope)
            nursery.start_soon(pass_on, inside, outside, nursery.cancel_scope)

    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host=host, https_compatible=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        listener: Any = listeners[0].transport_listener
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def tls_port(server: RealServer) -> AsyncIterator[Any]:
    if server.name == "ejabberd":
        yield server.component_tls
    else:
        async with tls_endpoint(server) as port:
            yield port


def connect(address: str, authorities: Path) -> Any:
    return connector(XmppSettings(server=address, tls=True, tls_authorities=authorities))


async def test_items_go_both_ways_over_tls(server: RealServer, tmp_path: Path) -> None:
    async with (
        tls_port(server) as port,
        site_at(server, tmp_path / "site", connect=connect(f"127.0.0.1:{port}", server.certificate)) as (
            _,
            site,
            nursery,
        ),
    ):
        client = await log_in(server.c2s, nursery, "ada", "x")
        await ready(client)
        large = "x" * 100_000
        await client.send(f"<message to='notes@{COMPONENT_NAME}'><body>{large}</body></message>")
        await ready(client)
        [held] = (await site.broker.browse("notes", 0, 10)).held
        assert held.stored.message.sections[0].body == large.encode()


async def refused(server: RealServer, directory: Any, connect: Any, caplog: pytest.LogCaptureFixture) -> str:
    """The component does not get in; what was logged, of the second try."""
    async with site_at(server, directory, connect=connect) as (_, _, nursery):
        client = await log_in(server.c2s, nursery, "ada", "x")
        with trio.fail_after(PATIENCE_S):
            while len(warnings := [r for r in caplog.records if "no connection" in r.getMessage()]) < 2:
                await trio.sleep(0.02)
        answer = await client.iq("get", "<ping xmlns='urn:xmpp:ping'/>")
        assert answer.get("type") == "error"
        return warnings[1].getMessage()


async def test_a_server_that_nobody_vouches_for_is_not_told_the_secret(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other, _ = make_self_signed(COMPONENT_NAME)
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(other)
    async with tls_port(server) as port:
        logged = await refused(server, tmp_path / "site", connect(f"127.0.0.1:{port}", authorities), caplog)
    assert "certificate verify failed" in logged


async def test_nor_is_one_with_the_certificate_of_another_host(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_endpoint(server, "127.0.0.2") as port:
        address = f"127.0.0.2:{port}"
        logged = await refused(server, tmp_path / "site", connect(address, server.certificate), caplog)
    assert "127.0.0.2" in logged


async def test_nor_one_that_speaks_no_tls(
    server: RealServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{server.component}"
    await refused(server, tmp_path / "site", connect(address, server.certificate), caplog)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_authorities_that_cannot_be_used_are_said_to_be_so(tmp_path: Path, content: bytes | None) -> None:
    authorities = tmp_path / "authorities.pem"
    if content is not None:
        authorities.write_bytes(content)
    with pytest.raises(Exception, match=r"authorities\.pem.*the authorities cannot be used"):
        connect("127.0.0.1:5347", authorities)
