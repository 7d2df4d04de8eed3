"""One site of a simulation: the daemon's broker, store, hop log and links, on a virtual machine."""

import random
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec
import trio

from daemon.broker.broker import Broker
from daemon.broker.lifetime import opened_broker
from daemon.link.joining import OFFERED, joined
from daemon.link.manager import LinkManager
from daemon.link.peers_file import PeerEntry
from daemon.settings import HopSettings, LinkSettings, QueueSettings, Settings, SiteSettings
from daemon.store.store import Store
from daemon.system.private_files import sync_directory, write_new
from routing.quotas import Quotas
from routing.rights import EVERYTHING, RightsTable
from tests.sim.machine import Gone, SimClock, SimHopLog, SimulatedMachine
from tests.sim.network import SimulatedNetwork
from tests.sim.scenario import QUEUE_MESSAGES_MAX
from tests.support.new_store import empty_store
from tests.support.notary import NamedNotary

ACCOUNT = "ada"
HEARTBEAT_S = 1.0
"""Each states how many copies are held, also while there is much to do."""

RETENTION_S = 1e12
"""The age of a file is told by the real clock, so none is ever too old."""


class Everyone:
    """In the place of accounts with passwords: one account, which may do everything."""

    def __init__(self, server: str) -> None:
        self.rights = RightsTable(server, {ACCOUNT: EVERYTHING})

    def quotas(self, account: str, defaults: Quotas) -> Quotas:
        return defaults

    def enabled(self, account: str) -> bool:
        return account == ACCOUNT

    def may_subscribe(self, account: str, topic: str) -> bool:
        return self.rights.allows(account, "subscribe", topic)

    def subscribable(self, account: str, pattern: str) -> list[str]:
        return self.rights.subscribable(account, pattern)


class SimulatedSite:
    """A site that can be started, stopped, killed and started again.

    Attributes:
        broker: None while no process runs.
        errors: what ended a process that should have gone on.
    """

    def __init__(
        self,
        name: str,
        machine: SimulatedMachine,
        network: SimulatedNetwork,
        peers: Iterable[PeerEntry],
        links: LinkSettings,
        queues: QueueSettings,
        chance: random.Random,
        clients: Callable[["SimulatedSite"], Awaitable[None]],
        without: tuple[str, ...],
        in_news: tuple[str, ...],
    ) -> None:
        """`without`: what smqpd does and it does not; `in_news`: what it says that it knows besides."""
        self.name = name
        self.machine = machine
        self.broker: Broker | None = None
        self.manager: LinkManager | None = None
        self.store: Store | None = None
        self.errors: list[BaseException] = []
        self._peers = list(peers)
        self._network = network
        self._chance = chance
        self._clients = clients
        self._features = *(feature for feature in OFFERED if feature not in without), *in_news
        self._in_news = in_news
        self._settings = Settings(
            site=SiteSettings(server_name=name, state_directory=machine.directory),
            queues=queues,
            links=links,
            hops=HopSettings(retention_s=RETENTION_S, heartbeat_s=HEARTBEAT_S),
        )
        self._scope = trio.CancelScope()
        self._stop = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    @property
    def is_running(self) -> bool:
        """Whether a process runs and is to go on."""
        return self.broker is not None and self.machine.died is not None and not self._stop.is_set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One process, from its start to its end, in whatever way it ends."""
        self._ended, self._stop, self._scope = trio.Event(), trio.Event(), trio.CancelScope()
        self.machine.enter()
        started = False

        def tell_started() -> None:
            nonlocal started
            started = True
            task_status.started()

        try:
            try:
                with self._scope:
                    await self._process(tell_started)
            except* Gone:
                pass
        except Exception as error:
            # what still ran in a process that is gone did no harm: its files and connections are closed
            if not self._scope.cancel_called:
                self.errors.append(error)
                self.kill(power=False)
        finally:
            if self.machine.died is not None:
                self.kill(power=False)
            self.broker = self.manager = self.store = None
            self._ended.set()
            if not started:
                task_status.started()

    async def _process(self, started: Callable[[], None]) -> None:
        directory, machine, settings = self.machine.directory, self.machine, self._settings
        if not (directory / "smqpd.db").exists():
            write_new(directory / "smqpd.db", empty_store())
            sync_directory(directory)

        def clock(mark: tuple[float, float, str, float]) -> SimClock:
            return SimClock(machine, mark)

        opened_site = opened_broker(
            settings,
            Everyone(self.name),  # type: ignore[arg-type] # see there
            clock=clock,
            hop_log=SimHopLog,
            in_place_s=0.0,  # how long a commit has really taken must decide nothing
        )
        async with opened_site as opened:
            self._network.switch_on(self.name)
            broker = opened.broker
            links = joined(
                broker,
                self.name,
                opened.boot,
                self._features,
                settings.links,
                {peer.name: peer for peer in self._peers},
                self._network.transport(self.name),
                self._chance,
            )
            broker.door.set_notary(NamedNotary(self.name), self._in_news)
            machine.begin(opened.store, opened.hops)
            self.broker, self.manager, self.store = broker, links, opened.store
            await opened.start()
            await opened.tasks.start(links.run)
            started()
            async with trio.open_nursery() as clients:
                clients.start_soon(self._clients, self)
                await self._stop.wait()
                broker.drain()
                with trio.move_on_after(settings.site.drain_s):
                    await links.drain()
                clients.cancel_scope.cancel()
        self._judge_errors()
        machine.end()
        self._network.kill(self.name)

    def _judge_errors(self) -> None:
        """What a site survives, a simulation does not pass over."""
        if self.broker is not None and self.broker.mishaps.count:
            self.errors.append(RuntimeError(f"{self.broker.mishaps.count} errors of smqpd itself"))

    def kill(self, *, power: bool) -> None:
        """End the process as SIGKILL does, or with the power of its machine."""
        if self.machine.died is None:
            return
        self._judge_errors()
        if power:
            self._network.lose_power(self.name)
        else:
            self._network.kill(self.name)
        self.machine.kill(power=power)
        self._scope.cancel()

    def lift_bounds(self) -> None:
        """From now on its queues hold whatever comes."""
        queues = msgspec.structs.replace(self._settings.queues, queue_messages_max=QUEUE_MESSAGES_MAX)
        self._settings = msgspec.structs.replace(self._settings, queues=queues)
        if self.broker is not None:
            self.broker.reconfigure(self._settings)

    async def stop(self) -> None:
        """End the process in order."""
        self._stop.set()
        await self._ended.wait()

    async def ended(self) -> None:
        """Wait until no process runs."""
        await self._ended.wait()


def clean(directory: Path) -> None:
    """Remove what a simulation left."""
    shutil.rmtree(directory, ignore_errors=True)
