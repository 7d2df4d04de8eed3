"""Makes things go wrong, for as long as the scenario says, and puts all of it right in the end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from tests.sim.scenario import PlannedFault

if TYPE_CHECKING:
    from tests.sim.world import World

SLOW_S = (0.05, 1.0)
LOSS = 0.4


class Faults:
    """Faults overlap: what two of them have done is undone when the first of them ends."""

    def __init__(self, world: "World") -> None:
        self._lost_links: set[tuple[str, str]] = set()
        self._world = world
        self._network = world.network
        self._calm_loss = {pair: path.loss for pair, path in world.network.paths.items()}
        self._calm_latency_s = {name: site.machine.disk.latency_s for name, site in world.sites.items()}

    async def inject(self, fault: PlannedFault, at: float) -> None:
        """Wait for its time, bring it about, and end it after its time."""
        await trio.sleep_until(at)
        self._world.ledger.note(
            f"FAULT {fault.kind} {fault.a} {fault.b} for {fault.for_s:.1f} s, {fault.amount:g}"
        )
        site, network = self._world.sites[fault.a], self._network
        match fault.kind:
            case "cut":
                network.cut(fault.a, fault.b)
            case "partition":
                await self._block([(fault.a, fault.b), (fault.b, fault.a)], fault.for_s)
            case "one way":
                await self._block([(fault.a, fault.b)], fault.for_s)
            case "isolate":
                await self._block([pair for pair in network.paths if fault.a in pair], fault.for_s)
            case "kill" | "power":
                if site.is_running:
                    site.kill(power=fault.kind == "power")
                    await trio.sleep(fault.for_s)
                    await self._world.start(fault.a)
            case "restart":
                if site.is_running:
                    await site.stop()
                    await self._world.start(fault.a)
            case "store fails":
                disk = site.machine.disk
                disk.fails_in, disk.failures = int(fault.amount) * 3, 1 + int(fault.for_s) // 2
            case "slow disk":
                site.machine.disk.latency_s = SLOW_S
                await trio.sleep(fault.for_s)
                site.machine.disk.latency_s = self._calm_latency_s[fault.a]
            case "hop log fails":
                site.machine.disk.hops_fail = True
                site.machine.lost_tails += 1
                await trio.sleep(fault.for_s)
                site.machine.disk.hops_fail = False
            case "wall clock":
                site.machine.wall_offset_s += fault.amount
            case "lossy":
                for pair in ((fault.a, fault.b), (fault.b, fault.a)):
                    network.paths[pair].loss = LOSS
                await trio.sleep(fault.for_s)
                for pair in ((fault.a, fault.b), (fault.b, fault.a)):
                    network.paths[pair].loss = self._calm_loss[pair]
            case "client":
                self._world.clients.disconnect(fault.a)
            case "dies":
                self._world.lost.add(fault.a)
                if site.is_running:
                    site.kill(power=False)
            case "blackhole":
                self._world.lost.add((fault.a, fault.b))
                self._lost_links |= {(fault.a, fault.b), (fault.b, fault.a)}
                for pair in self._lost_links:
                    network.block(*pair)
        self._world.ledger.note(f"end of {fault.kind} {fault.a} {fault.b}")

    async def _block(self, pairs: list[tuple[str, str]], for_s: float) -> None:
        for pair in pairs:
            self._network.block(*pair)
        await trio.sleep(for_s)
        self._unblock(pairs)

    def _unblock(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            if pair not in self._lost_links:
                self._network.unblock(*pair)

    async def heal_all(self) -> None:
        """What was lost for good, too."""
        self._lost_links.clear()
        self._world.lost.clear()
        await self.heal()

    async def heal(self) -> None:
        """Undo all that is still wrong, and start what does not run; but not what is lost for good."""
        for pair, path in self._network.paths.items():
            path.loss = self._calm_loss[pair]
        self._unblock(self._network.paths)
        for name, site in self._world.sites.items():
            disk = site.machine.disk
            disk.fails_in, disk.failures, disk.hops_fail = None, 0, False
            disk.latency_s = self._calm_latency_s[name]
        for name in self._world.sites:
            await self._world.start(name)
