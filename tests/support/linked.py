"""Sites of real daemons that are linked by mutual TLS, and a way between two of them that can be cut."""

import json
import shutil
import tomllib
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from daemon.certificates.authority import Authority
from daemon.certificates.files import write_private, write_public
from daemon.cli.main import build_app
from daemon.peers import Peer, add_peer
from daemon.site_directory import make_site
from plugins.smqp.client import Client, connect
from tests.support.installed import checkout_plugins
from tests.support.process import free_port

LINKS = "listen = ['127.0.0.1:{port}']\nback_off_first_s = 0.05\nback_off_max_s = 0.2\n"


class LinkedSite:
    """A site directory with keys and peers."""

    def __init__(self, directory: Path, name: str, authority: Authority) -> None:
        self.name = name
        self.directory = directory / name
        self.link_port = free_port()
        self.config = make_site(self.directory, name, free_port(), checkout_plugins()).config
        text = self.config.read_text()
        self.config.write_text(text.replace("[links]\n", "[links]\n" + LINKS.format(port=self.link_port)))
        keys = self.directory / "keys"
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = authority.issue(name, key.public_key(), 10, datetime.now(UTC))
        write_private(keys / "site.key", pem)
        write_public(keys / "site.pem", certificate.public_bytes(serialization.Encoding.PEM))
        for public in ("ca.pem", "crl.pem"):
            shutil.copy(authority.directory / public, keys / public)

    def link(self, other: "LinkedSite") -> None:
        """Each dials the other."""
        self.dial(other, other.link_port)
        other.dial(self, self.link_port)

    def dial(self, other: "LinkedSite", port: int) -> None:
        """Make the other a peer that is dialled at a port of loopback."""
        add_peer(self.directory / "peers.toml", Peer(name=other.name, address=f"127.0.0.1:{port}"))

    def client(self, channel: str) -> AbstractAsyncContextManager[Client]:
        login = tomllib.loads((self.directory / "keys" / "admin.toml").read_text())
        port = int(login["server"].rpartition(":")[2])
        return connect("127.0.0.1", port, "admin", login["password"], channel=channel)

    def asked(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        """What a command of the operator says."""
        result = CliRunner().invoke(
            build_app(), [command, *arguments, "--site", str(self.directory), "--json"]
        )
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found


def linked_sites(directory: Path, names: Iterable[str]) -> list[LinkedSite]:
    """Sites of one federation; no two are linked yet."""
    authority = Authority.create(directory / "ca", "test", 3650, datetime.now(UTC))
    return [LinkedSite(directory, name, authority) for name in names]


async def linked(site: LinkedSite, peer: str) -> None:
    """Wait until the running site has its link with the peer."""
    while True:
        links = await trio.to_thread.run_sync(site.asked, "peers")
        if any(link["peer"] == peer and link["state"] == "up" for link in links):
            return
        await trio.sleep(0.02)


class Wire:
    """A port of loopback that leads to another, until it is cut."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = free_port()
        self._up = trio.Event()
        self._up.set()
        self._connections: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """End what goes through, and let nothing through."""
        self._up = trio.Event()
        for connection in self._connections:
            connection.cancel()

    def mend(self) -> None:
        """Let through what is dialled from now on, and what waits."""
        self._up.set()

    async def _serve(self, dialled: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            await self._up.wait()
            self._connections.add(scope)
            try:
                async with (
                    await trio.open_tcp_stream("127.0.0.1", self.target) as target,
                    dialled,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(_pass_on, dialled, target, nursery.cancel_scope)
                    nursery.start_soon(_pass_on, target, dialled, nursery.cancel_scope)
            except OSError:
                return
            finally:
                self._connections.discard(scope)

    @asynccontextmanager
    async def laid(self) -> AsyncIterator["Wire"]:
        """Pass connections on while the block runs."""
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            yield self
            nursery.cancel_scope.cancel()


async def _pass_on(source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope) -> None:
    try:
        async for data in source:
            await target.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()
