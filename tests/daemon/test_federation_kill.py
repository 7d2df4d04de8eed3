"""Three real daemons in a row, linked by mutual TLS; the one in the middle is killed under load."""

import json
import math
import shutil
import signal
import tomllib
from collections import Counter
from contextlib import AbstractAsyncContextManager
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
from routing.message import Message, Section
from tests.support.installed import checkout_plugins
from tests.support.process import PATIENCE_S, Daemon, daemon, free_port

MESSAGES = 300
KILLS = 3
LINKS = "listen = ['127.0.0.1:{port}']\nback_off_first_s = 0.05\nback_off_max_s = 0.2\n"


class Site:
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

    def link(self, other: "Site") -> None:
        """Each dials the other."""
        for one, peer in ((self, other), (other, self)):
            address = f"127.0.0.1:{peer.link_port}"
            add_peer(one.directory / "peers.toml", Peer(name=peer.name, address=address))

    def client(self, channel: str) -> AbstractAsyncContextManager[Client]:
        login = tomllib.loads((self.directory / "keys" / "admin.toml").read_text())
        port = int(login["server"].rpartition(":")[2])
        return connect("127.0.0.1", port, "admin", login["password"], channel=channel)


async def test_a_site_in_the_middle_that_is_killed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "test", 3650, datetime.now(UTC))
    alpha, beta, gamma = (Site(tmp_path, name, authority) for name in ("alpha", "beta", "gamma"))
    alpha.link(beta)
    beta.link(gamma)
    for site in (alpha, beta, gamma):
        for name in ("ca.pem", "crl.pem"):
            shutil.copy(authority.directory / name, site.directory / "keys" / name)
    read_once: Counter[str] = Counter()
    finished = trio.Event()

    async def read() -> None:
        async with gamma.client("reader") as client:
            await client.subscribe("weather")
            async for delivery in client:
                await client.commit([delivery])
                read_once[delivery.message.sections[0].body.decode()] += 1
                if len(read_once) == MESSAGES:
                    finished.set()

    async def publish() -> None:
        async with alpha.client("publisher") as client:
            for number in range(MESSAGES):
                body = Section("text/plain", str(number).encode())
                message = Message(depth=2, timeout_s=math.inf, sections=(body,))
                await client.publish("weather", message)
                await trio.sleep(0.005)

    async def middle() -> None:
        for _ in range(KILLS):
            async with daemon(beta.config) as running:
                await linked(running, "alpha")
                await trio.sleep(0.3)
                running.signal(signal.SIGKILL)
                await running.process.wait()
        async with daemon(beta.config):
            await trio.sleep_forever()

    with trio.fail_after(PATIENCE_S):
        async with daemon(alpha.config), daemon(gamma.config), trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(middle)
            nursery.start_soon(publish)
            await finished.wait()
            await trio.to_thread.run_sync(commands_show_the_link, alpha)
            nursery.cancel_scope.cancel()
    assert set(read_once.values()) == {1}


def commands_show_the_link(site: Site) -> None:
    [status] = done("peers", site)
    assert status["peer"] == "beta"
    [to_all] = [route for route in done("routes", site, "weather") if route["kind"] == "ALL"]
    assert (to_all["peer"], to_all["distance"], to_all["allowed"]) == ("beta", 2, True)
    assert done("routes", site, "nowhere")[0]["distance"] is None


def done(command: str, site: Site, *arguments: str) -> list[dict[str, Any]]:
    """What a command of the operator says."""
    result = CliRunner().invoke(build_app(), [command, *arguments, "--site", str(site.directory), "--json"])
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


async def linked(running: Daemon, peer: str) -> None:
    """Wait until the daemon's log says so."""
    while f"link with {peer} is up" not in running.log.rpartition("runs the site")[2]:
        await trio.sleep(0.02)
