"""Two whole daemons in this process, linked over TLS: for workloads and their judges."""

import random
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import msgspec
import trio

from daemon.accounts.accounts_editor import edit
from daemon.accounts.accounts_file import Account
from daemon.accounts.passwords import hash_password
from daemon.broker.broker import Broker
from daemon.certificates.authority import Authority
from daemon.configuration.config import load
from daemon.configuration.discovery import Installed
from daemon.link.manager import LinkManager
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.site.directory import make_site
from daemon.site.examination import LINKS_SOCKET
from daemon.site.lock import state_lock
from daemon.site.site import RunningSite, serve_site
from daemon.store.store import Store
from daemon.system.systemd import Notifier
from plugins.smqp.plugin import plugin as smqp
from plugins.stomp.plugin import plugin as stomp
from routing.rights import EVERYTHING
from tests.sim.clients import SimulatedClients
from tests.sim.site import ACCOUNT
from tests.support.keys import write_keys
from tests.support.patience import PATIENCE_S

PASSWORD: Final = "correct horse"
INSTALLED: Final = Installed({"smqp": smqp, "stomp": stomp})  # type: ignore[dict-item] # each has settings of its own
LINKS: Final = "back_off_first_s = 0.02\nback_off_max_s = 0.1\n"
STOMP_SOCKET: Final = "stomp"
STOMP: Final = '\n[plugins.stomp]\nlisten = ["127.0.0.1:0"]\nlisten_websocket = []\n'


def make_sites(directory: Path, names: list[str]) -> None:
    """The directories of sites that trust one authority."""
    (directory / "ca").parent.mkdir(parents=True, exist_ok=True)
    authority = Authority.create(directory / "ca", "test", 3_650, datetime.now(UTC))
    for name in names:
        config = make_site(directory / name, name, 0, INSTALLED).config
        text = config.read_text().replace("[links]\n", "[links]\n" + LINKS)
        config.write_text(text.replace("[hops]\n", "[hops]\nfile_s = 1.0\n") + STOMP)
        with edit(directory / name / "accounts.toml") as editor:
            editor.add(ACCOUNT, Account(password=hash_password(PASSWORD), rights=EVERYTHING))
        write_keys(authority, name, directory / name / "keys", datetime.now(UTC), days=3_000)


class PowerSite:
    """One whole daemon; has what the simulation's clients and judges ask of a site.

    Attributes:
        site: None while no daemon runs.
        stomp_port: of the daemon that runs, or ran last.
    """

    def __init__(self, directory: Path, port: int, max_deliveries: int, *, lost: bool = False) -> None:
        self.name = directory.name
        self.machine = SimpleNamespace(directory=directory / "state", lost_tails=int(lost))
        self.site: RunningSite | None = None
        self.stomp_port = 0
        self.clients = trio.CancelScope()
        self._directory = directory
        self._port = port
        self._max_deliveries = max_deliveries

    @property
    def broker(self) -> Broker | None:
        return None if self.site is None else self.site.broker

    @property
    def store(self) -> Store | None:
        return None if self.site is None else self.site.broker._store

    @property
    def manager(self) -> LinkManager | None:
        return None if self.site is None else self.site.links.manager

    async def run(
        self, clients: SimulatedClients, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The daemon, with its clients, until it is stopped or cancelled."""
        settings = load(self._directory / "smqpd.toml", INSTALLED)
        queues = msgspec.structs.replace(settings.queues, max_deliveries=self._max_deliveries)
        settings = msgspec.structs.replace(settings, queues=queues)
        links, stomp = (socket.create_server(("127.0.0.1", port)) for port in (self._port, 0))
        passed = {LINKS_SOCKET: [links], STOMP_SOCKET: [stomp]}
        self.stomp_port = stomp.getsockname()[1]
        try:
            with state_lock(settings.site.state_directory):
                async with trio.open_nursery() as nursery:

                    async def serve(task_status: trio.TaskStatus[RunningSite]) -> None:
                        sockets = passed
                        config = self._directory / "smqpd.toml"
                        await serve_site(config, settings, INSTALLED, Notifier({}), sockets, task_status)
                        nursery.cancel_scope.cancel()

                    self.site = await nursery.start(serve)
                    task_status.started()
                    with trio.CancelScope() as self.clients:
                        await clients.serve(self)  # type: ignore[arg-type] # has what they ask for
        finally:
            self.site = None
            links.close()
            stomp.close()

    def stop(self) -> None:
        """End it in order."""
        assert self.site is not None
        self.clients.cancel()
        self.site.stop()


def join(directory: Path, ports: dict[str, int]) -> None:
    """Make the sites each other's peers, at these ports."""
    for name in ports:
        (directory / name / "peers.toml").unlink(missing_ok=True)
        for other, port in ports.items():
            if other != name:
                peer = PeerEntry(name=other, address=f"127.0.0.1:{port}")
                add_peer(directory / name / "peers.toml", peer)


async def linked(sites: list[PowerSite]) -> None:
    """Wait until all links are up."""
    with trio.fail_after(PATIENCE_S):
        while not all(
            site.manager is not None and all(one.state == "up" for one in site.manager.status())
            for site in sites
        ):
            await trio.sleep(0.01)


def chance_of(*parts: object) -> random.Random:
    return random.Random(" ".join(map(str, parts)))
