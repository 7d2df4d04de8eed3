"""Sites as operators run them: a directory, keys and peers, a daemon process each, joined by a network."""

import signal
import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.certificates.authority import Authority
from daemon.control.client import NotRunningError, Question, ask
from daemon.link.peers_editor import add_peer
from daemon.link.peers_file import PeerEntry
from daemon.operating.federation import LinkStatus
from plugins.smqp.client import Client
from plugins.smqp.connecting import session
from plugins.smqp.connection import ConnectionLost
from tests.support.keys import CERTIFICATE_DAYS, write_keys, write_trust
from tests.support.made_site import made_site
from tests.support.networks import CutNetwork, HostNetwork, SitePair, cut_network
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.process import BECOMES, Daemon, daemon

AUTHORITY_DAYS: Final = 3650
PROBE_TIMEOUT_S: Final = 2.5
"""Until a link that is silent is cut: soon, for tests that cut the network."""

LINKS: Final = """\
listen = [{listen!r}]
greeting_timeout_s = 2.0
probe_interval_s = 0.5
probe_timeout_s = {probe_timeout_s}
back_off_first_s = 0.05
back_off_max_s = 0.3
"""


class RealSite:
    """A site's directory, and its daemon while there is one.

    Attributes:
        environment: of its daemon, beside what every process has.
        start: how its daemon is started, see `tests.support.process`.
        starts: how often the daemon was ready.
        port: of its SMQP front end, on its loopback.
        password: of its administrator.
    """

    def __init__(
        self, directory: Path, name: str, authority: Authority, network: HostNetwork, probe_timeout_s: float
    ) -> None:
        self.name = name
        self.directory = directory / name
        self.environment: dict[str, str] = {}
        self.start: tuple[str, ...] = BECOMES
        self.starts = 0
        self._authority = authority
        self._network = network
        self._running: Daemon | None = None
        self._wanted = True
        self._ready = trio.Event()
        self.port = free_port()
        self.config = made_site(self.directory, name, self.port).config
        links = LINKS.format(listen=network.listen(name), probe_timeout_s=probe_timeout_s)
        self.config.write_text(self.config.read_text().replace("[links]\n", "[links]\n" + links))
        self.password = tomllib.loads((self.directory / "keys" / "admin.toml").read_text())["password"]
        self.issue()

    # -- keys and peers ---------------------------------------------------------------------------

    def issue(self, valid_s: float = CERTIFICATE_DAYS * 86_400.0) -> None:
        """A new key and certificate, valid for so long from now, and the authority's present list."""
        since = datetime.now(UTC) + timedelta(seconds=valid_s) - timedelta(days=CERTIFICATE_DAYS)
        write_keys(self._authority, self.name, self.directory / "keys", since)

    def trust(self) -> None:
        """Take the authority's present list of revocations."""
        write_trust(self._authority, self.directory / "keys")

    def link(self, other: str) -> None:
        """Dial another site."""
        address = self._network.address(self.name, other)
        add_peer(self.directory / "peers.toml", PeerEntry(name=other, address=address))

    # -- the daemon -------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Run the daemon, and start it again whenever it has been killed, until `stop`."""
        while self._wanted:
            started = daemon(
                self.config,
                start=self.start,
                namespace=self._network.namespace(self.name),
                forked=not self.environment,  # what is loaded for it would serve no other
                **self.environment,  # type: ignore[arg-type] # names of variables
            )
            async with started as running:
                self._running = running
                self.starts += 1
                self._ready.set()
                await running.process.wait()
            self._running = None
            self._ready = trio.Event()

    async def ready(self) -> Daemon:
        """The daemon, once it runs."""
        with trio.fail_after(PATIENCE_S):
            await self._ready.wait()
        assert self._running is not None
        return self._running

    @property
    def log(self) -> str:
        """What all its daemons have logged."""
        return (self.directory / "log").read_text()

    async def kill(self) -> None:
        """SIGKILL; returns once it runs again."""
        running, starts = await self.ready(), self.starts
        running.signal(signal.SIGKILL)
        await running.process.wait()
        with trio.fail_after(PATIENCE_S):
            while self.starts == starts:
                await trio.sleep(0.02)

    async def lose(self) -> None:
        """SIGKILL, until `begin_again`, or for good."""
        running, self._wanted = await self.ready(), False
        running.signal(signal.SIGKILL)
        await running.process.wait()

    async def begin_again(self) -> None:
        """Run again after `lose`, until `stop`; for a nursery, as `keep`."""
        with trio.fail_after(PATIENCE_S):
            while self._running is not None:
                await trio.sleep(0.02)
        self._wanted = True
        await self.keep()

    @property
    def lost(self) -> bool:
        """It runs no more."""
        return not self._wanted

    async def reload(self) -> None:
        """SIGHUP: keys, peers and revocations are read again."""
        (await self.ready()).signal(signal.SIGHUP)

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        running, self._wanted = await self.ready(), False
        running.signal(signal.SIGTERM)
        return await running.exit_code()

    async def links(self) -> dict[str, LinkStatus]:
        """The state of its links, by peer; nothing while no daemon runs."""
        try:
            answer = await trio.to_thread.run_sync(ask, self.directory / "state", Question(ask="peers"))
        except NotRunningError:
            return {}
        return {one.peer: one for one in msgspec.json.decode(answer, type=list[LinkStatus])}

    async def linked(self, *peers: str, up: bool = True) -> None:
        """Wait until the links with these are up, or are not."""
        with trio.fail_after(PATIENCE_S):
            while True:
                links = await self.links()
                if all(peer in links and (links[peer].state == "up") == up for peer in peers):
                    return
                await trio.sleep(0.05)

    async def logs(self, *texts: str) -> None:
        """Wait until every text is in the log."""
        with trio.move_on_after(PATIENCE_S):
            while not all(text in self.log for text in texts):
                await trio.sleep(0.05)
            return
        raise AssertionError(f"{self.name} did not log {texts}, but\n{self.log}")

    @asynccontextmanager
    async def client(self, channel: str) -> AsyncIterator[Client]:
        """A login of the administrator. Raises ConnectionLost while the daemon cannot be reached."""
        try:
            stream = await self._network.connect(self.name, self.port)
        except OSError as error:
            raise ConnectionLost("unreachable", str(error)) from None
        async with session(stream, "admin", self.password, channel=channel) as client:
            yield client


class RealSites:
    """Sites by name, their authority, and the network between them."""

    def __init__(
        self,
        directory: Path,
        pairs: list[SitePair],
        network: HostNetwork,
        probe_timeout_s: float = PROBE_TIMEOUT_S,
    ) -> None:
        self.authority = Authority.create(
            directory / "ca", "test", AUTHORITY_DAYS, datetime.now(UTC) - timedelta(days=20)
        )
        names = sorted({name for pair in pairs for name in pair})
        self.by_name = {
            name: RealSite(directory, name, self.authority, network, probe_timeout_s) for name in names
        }
        self.pairs = pairs
        for a, b in pairs:
            self[a].link(b)
            self[b].link(a)

    def __getitem__(self, name: str) -> RealSite:
        return self.by_name[name]

    async def linked(self) -> None:
        """Wait until every link is up, as both ends see it."""
        for a, b in self.pairs:
            await self[a].linked(b)
            await self[b].linked(a)

    async def stop(self) -> None:
        """End all daemons that run in order, so that their logs are whole."""
        for site in self.by_name.values():
            assert site.lost or await site.stop() == 0, site.log

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All daemons run and are linked, until the end of the block."""
        async with trio.open_nursery() as nursery:
            for site in self.by_name.values():
                nursery.start_soon(site.keep)
            await self.linked()
            yield
            nursery.cancel_scope.cancel()


class CutSites(RealSites):
    """Sites whose links can be cut."""

    def __init__(
        self, directory: Path, pairs: list[SitePair], network: CutNetwork, probe_timeout_s: float
    ) -> None:
        super().__init__(directory, pairs, network, probe_timeout_s)
        self.network = network


@asynccontextmanager
async def real_sites(
    directory: Path,
    pairs: Iterable[SitePair],
    *,
    namespaces: bool | None = None,
    environment: dict[str, dict[str, str]] | None = None,
    probe_timeout_s: float = PROBE_TIMEOUT_S,
    start: tuple[str, ...] = BECOMES,
    starts: Mapping[str, tuple[str, ...]] | None = None,
) -> AsyncIterator[CutSites]:
    """Sites that run and are linked, until the end of the block.

    `environment`: of daemons, by site. `starts`: how those are started that are not as the others.
    """
    pairs = list(pairs)
    names = {name for pair in pairs for name in pair}
    async with cut_network(names, pairs, namespaces=namespaces) as network:
        sites = CutSites(directory, pairs, network, probe_timeout_s)
        for site in sites.by_name.values():
            site.environment |= (environment or {}).get(site.name, {})
            site.start = (starts or {}).get(site.name, start)
        async with sites.running():
            yield sites
