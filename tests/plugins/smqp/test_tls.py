"""SMQP over TLS, on a socket."""

import socket
import ssl
from pathlib import Path

import trio

from daemon.certificates.self_signed import make_self_signed
from plugins.smqp.plugin import SmqpSettings, plugin
from tests.support.site import PASSWORD, ListeningSite, running_site
from tests.support.smqp_peer import SmqpPeer, frame


async def test_a_connection_ends_with_the_goodbye_of_tls_too(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Without it some clients report an error at the end of each connection."""
    certificate, key = make_self_signed("smqp.example")
    (tmp_path / "tls.pem").write_bytes(certificate + key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "tls.pem")
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    async with running_site(tmp_path / "site") as site:
        passed = ListeningSite(site.broker, {"smqps": [listening]}, tls)
        await nursery.start(plugin.serve, passed, SmqpSettings(listen=()))
        trusting = ssl.create_default_context(cadata=certificate.decode())
        trusting.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        async with await trio.open_ssl_over_tcp_stream("localhost", port, ssl_context=trusting) as stream:
            peer = SmqpPeer(stream)
            await peer.line()
            await peer.send(frame(f"PASS ada {PASSWORD}"), frame("QUIT"))
            assert (await peer.line())[0] == "OK PASS"
            assert (await peer.line())[0] == "BYE quit"
            assert await peer.line() is None  # and no error, as there would be without it
        nursery.cancel_scope.cancel()
