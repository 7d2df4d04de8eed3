"""A start that finds a port taken, which shows only once the site opens it: no client or peer notices."""

import socket
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemon.certificates.authority import Authority
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.connections.listen import ListenError, shown, split_address
from daemon.frontend import Site
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.site.site import RunningSite, serve_site
from daemon.system.systemd import Notifier
from tests.support.echo import EchoSettings
from tests.support.keys import write_keys
from tests.support.made_site import made_site
from tests.support.ports import free_port


class Gate:
    """A front end that only notes what is so when it is to serve; it does not, where it is `shut`."""

    name = "gate"
    settings = EchoSettings
    enabled_by_default = True

    def __init__(self, *, shut: bool = False) -> None:
        self._shut = shut
        self.asked = False

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        return ()

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        assert isinstance(site, RunningSite)
        self.asked = True
        for address in site.links.addresses:
            with socket.create_connection(split_address(address)):
                pass  # who is accepted is told that its handshake has failed
        await trio.testing.wait_all_tasks_blocked()  # so that all that the site has begun has gone on
        if self._shut:
            raise ListenError("cannot listen for the gate")
        task_status.started()
        await site.draining.wait()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of a site that can have links."""
    path = made_site(tmp_path / "site", "a.example", 7720, is_bare=True).config
    now = datetime.now(UTC)
    authority = Authority.create(tmp_path / "ca", "test", 10, now)
    write_keys(authority, "a.example", tmp_path / "site/keys", now)
    return path


async def start(config: Path, gate: Gate, listen: str) -> None:
    """Start a site that listens for peers there; it ends once it runs."""
    links = f"[links]\nlisten = ['{listen}']\n"
    config.write_text(config.read_text().replace("[links]\n", links))
    installed = Installed({"gate": gate})  # type: ignore[dict-item] # as much of it as is asked for
    settings = load(config, installed)
    async with trio.open_nursery() as nursery:
        site = await nursery.start(serve_site, config, settings, installed, Notifier({}), {})
        site.stop()


def refused(why: str) -> pytest.RaisesGroup[ListenError]:
    return pytest.RaisesGroup(pytest.RaisesExc(ListenError, match=why), flatten_subgroups=True)


async def test_where_the_port_for_peers_is_taken_no_client_is_served(config: Path) -> None:
    gate = Gate()
    with socket.create_server(("127.0.0.1", 0)) as taken, refused("cannot listen for peers on"):
        await start(config, gate, shown(taken.getsockname()))
    assert not gate.asked


async def test_where_the_port_of_a_front_end_is_taken_no_peer_is_dialled_or_accepted(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as peer:
        add_peer(config.parent / "peers.toml", PeerEntry(name="b.example", address=shown(peer.getsockname())))
        with refused("cannot listen for the gate"):
            await start(config, Gate(shut=True), f"127.0.0.1:{port}")
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.accept()
    assert "handshake" not in caplog.text
    socket.create_server(("127.0.0.1", port)).close()  # nobody listens there any more
