"""How long a stop waits, for clients that stay and for peers that answer nothing."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.certificates.authority import Authority
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.frontend import Identity
from daemon.link.keys import LinkKeys
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.link.tls import TlsTransport
from daemon.settings import LinkSettings
from daemon.site.site import RunningSite, serve_site
from daemon.system.mishaps import Mishaps
from daemon.system.systemd import Notifier
from routing.rights import EVERYTHING
from tests.support import echo
from tests.support.installed import checkout_plugins
from tests.support.keys import write_keys
from tests.support.links import MemoryNetwork
from tests.support.links import site as peer_site
from tests.support.made_site import made_site
from tests.support.passwords import cheap_hash
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.running import message

DRAIN_S = 3_600


class StoppingSite:
    """A site, and one peer, which has been sent a message and has not answered it."""

    def __init__(self, running: RunningSite, port: int) -> None:
        self.running = running
        self.port = port
        self.ended = trio.Event()

    async def ends(self) -> None:
        with trio.fail_after(PATIENCE_S):
            await self.ended.wait()


@asynccontextmanager
async def stopping_site(directory: Path) -> AsyncIterator[StoppingSite]:
    alpha, beta, port = directory / "alpha", directory / "beta", free_port()
    authority = Authority.create(directory / "ca", "test", 365, datetime.now(UTC))
    config = made_site(alpha, "alpha.example", 7720, is_bare=True).config
    for name, keys in (("alpha.example", alpha / "keys"), ("beta.example", beta)):
        write_keys(authority, name, keys, datetime.now(UTC))
    with edit(alpha / "accounts.toml") as editor:
        editor.add("eve", Account(password=cheap_hash("secret"), rights=EVERYTHING))
    text = config.read_text().replace("[site]\n", f"[site]\ndrain_s = {DRAIN_S}\n")
    text = text.replace("[links]\n", f"[links]\nprobe_interval_s = {2 * DRAIN_S}\n")
    enabled = f'[plugins.smqp]\nenabled = false\n[plugins.echo]\nlisten = ["127.0.0.1:{port}"]\n'
    config.write_text(text + enabled)
    transport = TlsTransport(
        LinkKeys.load(beta, "beta.example"),
        ("127.0.0.1:0",),
        lambda: time.time_ns() // 1_000,
        Mishaps().note,
    )
    async with peer_site(
        MemoryNetwork(),
        "beta.example",
        [PeerEntry(name="alpha.example")],
        transport=transport,
        settings=LinkSettings(probe_interval_s=2 * DRAIN_S),
    ) as peer:
        peer.broker.answers = False
        add_peer(
            alpha / "peers.toml",
            PeerEntry(name="beta.example", address=transport.addresses[0], flood=True),
        )
        front_ends: dict[str, Any] = {**checkout_plugins().plugins, "echo": echo.plugin}
        installed = Installed(front_ends)
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[RunningSite]) -> None:
                await serve_site(config, load(config, installed), installed, Notifier({}), {}, task_status)
                site.ended.set()

            site = StoppingSite(await nursery.start(serve), port)
            session = site.running.open_session(Identity("eve"), "desk", protocol="test", remote="test")
            session.publish("weather", message(b"rain", depth=1), 1)
            await peer.broker.until(lambda: peer.broker.copies)
            session.close()
            yield site
            nursery.cancel_scope.cancel()


async def test_a_second_signal_does_not_wait_for_peers(tmp_path: Path) -> None:
    async with stopping_site(tmp_path) as site:
        for _ in range(2):
            site.running.stop()
        await site.ends()


async def test_clients_and_peers_share_the_drain_time(tmp_path: Path, mock_clock: MockClock) -> None:
    mock_clock.rate = 1.0
    async with (
        stopping_site(tmp_path) as site,
        await trio.open_tcp_stream("127.0.0.1", site.port) as stream,
    ):
        for line, answer in (("login eve secret", "welcome"), ("stay", "stay")):
            await stream.send_all(f"{line}\n".encode())
            assert await stream.receive_some() == f"{answer}\n".encode()
        site.running.stop()
        assert await stream.receive_some() == b"not ending: draining\n"
        mock_clock.jump(DRAIN_S - 1)
        assert not site.ended.is_set()
        assert await stream.receive_some() == b""
        await site.ends()
