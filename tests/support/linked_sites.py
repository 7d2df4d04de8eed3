"""Site directories with keys and peers, for real daemons that link by mutual TLS."""

import json
import shutil
import tomllib
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
from tests.support.installed import checkout_plugins
from tests.support.process import Daemon, free_port

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
        give_keys(self.directory / "keys", name, authority)

    def link(self, other: "Site", **rules: Any) -> None:
        """Each dials the other; `rules` are those of this site for the other one."""
        for one, peer, given in ((self, other, rules), (other, self, {})):
            address = f"127.0.0.1:{peer.link_port}"
            add_peer(one.directory / "peers.toml", Peer(name=peer.name, address=address, **given))

    def client(self, channel: str) -> AbstractAsyncContextManager[Client]:
        login = tomllib.loads((self.directory / "keys" / "admin.toml").read_text())
        port = int(login["server"].rpartition(":")[2])
        return connect("127.0.0.1", port, "admin", login["password"], channel=channel)

    def command(self, *words: str) -> tuple[int, str, str]:
        """Run a command of the operator: its exit code, stdout and stderr; blocks."""
        result = CliRunner().invoke(build_app(), [*words, "--site", str(self.directory)])
        why = str(result.exception) if result.exception is not None else result.stderr
        return getattr(result.exception, "exit_code", result.exit_code), result.stdout, why

    def asked(self, *words: str) -> Any:
        """What a command says with --json; it must succeed; blocks."""
        code, out, why = self.command(*words, "--json")
        assert code == 0, why
        return json.loads(out)


def make_sites(directory: Path, *names: str) -> list[Site]:
    """Sites of one federation, not linked yet."""
    authority = Authority.create(directory / "ca", "test", 3650, datetime.now(UTC))
    return [Site(directory, name, authority) for name in names]


def give_keys(keys: Path, name: str, authority: Authority) -> None:
    """Fill a site's keys directory."""
    keys.mkdir(exist_ok=True)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = authority.issue(name, key.public_key(), 10, datetime.now(UTC))
    write_private(keys / "site.key", pem)
    write_public(keys / "site.pem", certificate.public_bytes(serialization.Encoding.PEM))
    for file in ("ca.pem", "crl.pem"):
        shutil.copy(authority.directory / file, keys / file)


async def linked(running: Daemon, peer: str) -> None:
    """Wait until the daemon's log says so."""
    while f"link with {peer} is up" not in running.log.rpartition("runs the site")[2]:
        await trio.sleep(0.02)
