"""One run: all sites start, messages pass while things go wrong, all is healed, all is judged."""

import logging
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import trio

from daemon.link.peers_file import PeerEntry
from daemon.settings import LinkSettings, QueueSettings
from routing.peering.news import ATTACHED, DESTINATIONS
from routing.peering.wants import WANTS_FROM_NEWS
from tests.sim import balance, machine, promises
from tests.sim.clients import SimulatedClients
from tests.sim.faults import Faults
from tests.sim.ledger import Ledger
from tests.sim.liars import Liars
from tests.sim.machine import SimulatedMachine
from tests.sim.network import SimulatedNetwork
from tests.sim.owed import owed
from tests.sim.power import Power
from tests.sim.scenario import WHEN_QUIET, Scenario
from tests.sim.site import SimulatedSite

LINKED_WITHIN_S: Final = 120.0
QUIET_WITHIN_S: Final = 100.0
QUIET_FOR_S: Final = 12.0
LOOK_EVERY_S: Final = 1.0
NOTICED_WITHIN_S: Final = 60.0
"""What is lost: some probes fail, and links that were cut come back."""

BACKED_OFF_S: Final = 2.0
"""What is lost again and again comes after more than this: the link is down, and no probe has noticed."""

ARRIVES_WITHIN_S: Final = 20.0
"""From then on, over ways that stayed up: less than the minute after which all copies are looked at anew."""

TOLD_WITHIN_S: Final = 140.0
"""From then on a receipt is, for which sites are asked again and again."""

REPLIED_WITHIN_S: Final = 5.0
"""What is published meanwhile has come by then, as a rule, and what it is answered is under way."""


class World:
    """The sites of one run; `ledger` holds what came of it."""

    def __init__(self, scenario: Scenario, directory: Path, power: Power | None = None) -> None:
        self.scenario = scenario
        self._power = power
        self.ledger = Ledger(scenario, trio.current_time)
        self.network = SimulatedNetwork(random.Random(f"network {scenario.seed}"))
        self.clients = SimulatedClients(self.ledger, random.Random(f"clients {scenario.seed}"))
        for link in scenario.links:
            self.network.join(link.a, link.b, link.delay_s, link.jitter_s, link.loss)
        self.lost: set[str | tuple[str, str]] = set()  # sites and links, until all is healed
        self.sites = {name: self._site(name, directory) for name in scenario.sites}

    def _site(self, name: str, directory: Path) -> SimulatedSite:
        peers = []
        for link in self.scenario.links:
            if name in (link.a, link.b):
                other = link.b if link.a == name else link.a
                peers.append(PeerEntry(name=other, address=f"{other}:1", flood=link.flood))
        return SimulatedSite(
            name,
            SimulatedMachine(
                name, directory / name, random.Random(f"machine {name} {self.scenario.seed}"), self._power
            ),
            self.network,
            peers,
            LinkSettings(
                back_off_max_s=4.0,
                probe_interval_s=12.0,
                probe_timeout_s=6.0,
                greeting_timeout_s=6.0,
                window_units_max=self.scenario.window_units_max,
            ),
            QueueSettings(
                max_deliveries=self.scenario.max_deliveries,
                dedupe_window_s=86_400.0,
                queue_messages_max=self.scenario.queue_messages_max,
            ),
            random.Random(f"links {name} {self.scenario.seed}"),
            self.clients.serve,
            without=() if name in self.scenario.take_wants_from_news else (WANTS_FROM_NEWS,),
            in_news=tuple(self._in_news(name)),
        )

    def _in_news(self, name: str) -> Iterator[str]:
        if name in self.scenario.name_destinations:
            yield DESTINATIONS
        if name in self.scenario.tell_attached:
            yield ATTACHED

    async def run(self, *, stops: bool = False) -> None:
        """All of it; `stops`: then all sites end in order, so that nothing is left open in their hop logs."""
        trio.to_thread.run_sync = machine.run_sync  # type: ignore[assignment] # restored by `virtual.run`
        watching = _Watching(self.ledger)
        logging.getLogger().addHandler(watching)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._run()
                if stops:
                    for site in self.sites.values():
                        await site.stop()
                nursery.cancel_scope.cancel()
        finally:
            logging.getLogger().removeHandler(watching)

    async def start(self, name: str) -> None:
        """Start a site that does not run; returns once it listens, or has failed to start."""
        site = self.sites[name]
        if not site.is_running:
            await site.ended()
        if not site.is_running and name not in self.lost:
            self.ledger.note(f"{name} starts")
            await self._nursery.start(site.run)

    async def _run(self) -> None:
        for name in self.sites:
            await self.start(name)
        if not await self._quiet(LINKED_WITHIN_S, for_s=3.0):
            self.ledger.violate(f"the sites do not find together: {self._unrest()}")
            return
        self.clients.begun_at = trio.current_time()
        self.clients.change()
        faults = Faults(self)
        async with trio.open_nursery() as nursery:
            for fault in self.scenario.faults:
                nursery.start_soon(faults.inject, fault, self.clients.begun_at + fault.at)
            nursery.start_soon(Liars(self).lie)
            await trio.sleep_until(self.clients.begun_at + self.scenario.lasts_s)
            nursery.cancel_scope.cancel()
        besides = f" but {sorted(map(str, self.lost))}" if self.lost else ""
        self.ledger.note(f"all is healed{besides}")
        await faults.heal()
        for site in self.sites.values():
            site.lift_bounds()
        self.clients.calm = True
        self.clients.change()
        for name in self.sites:
            self.clients.disconnect(name)
        if self.lost:
            await self._judge_ways()
            self.ledger.note("all is healed")
            await faults.heal_all()
            for name in self.sites:
                self.clients.disconnect(name)
        quiet = await self._quiet(QUIET_WITHIN_S, for_s=QUIET_FOR_S)
        self.ledger.note("all is quiet" if quiet else "there is no quiet")
        if not quiet:
            self.ledger.violate(f"there is no quiet: {self._unrest()}")
        if quiet:
            await self._publish_last()
        if quiet and self.scenario.starts_again:
            await self._start_again()
        if any(site.broker is None for site in self.sites.values()):
            self._judge_errors()
            return
        facts = balance.judge(self.ledger, self.sites)
        promises.judge(self.ledger, self.sites, facts)
        self._judge_errors()

    async def _judge_ways(self) -> None:
        """What a way that stayed up could bring arrives, whatever is lost for good."""
        for name in self.sites.keys() & self.lost:
            if self.sites[name].is_running:
                self.sites[name].kill(power=False)  # it was just being started when it was lost
        with trio.move_on_after(NOTICED_WITHIN_S):
            while any(self._unnoticed()):
                await trio.sleep(LOOK_EVERY_S)
        self.clients.lost = True
        self.clients.change()
        await trio.sleep(REPLIED_WITHIN_S)
        with trio.move_on_after(ARRIVES_WITHIN_S - REPLIED_WITHIN_S):
            while any(self._overdue()):
                await trio.sleep(LOOK_EVERY_S)
        for text in self._overdue():
            self.ledger.violate(text)
        with trio.move_on_after(TOLD_WITHIN_S):
            while any(owed(self.ledger, self.sites, self.lost)):
                await trio.sleep(LOOK_EVERY_S)
        for text in owed(self.ledger, self.sites, self.lost):
            self.ledger.violate(text)

    def _overdue(self) -> Iterable[str]:
        """What has not been said or has not come, though it could."""
        for name in self._unsaid():
            yield f"{name} does not say which of its links are lost"
        for key, reader in promises.due_by_ways(self.ledger, self.lost):
            if not self.ledger.has_come(key, reader):
                yield f"{key} has not come to {reader.key}, though a way to it has stayed up"
        yield from promises.overdue(self.ledger, self.sites, self.lost)

    def _unnoticed(self) -> Iterable[str]:
        """Links that are up and lost, or down and not, by what their sites know; and those that are stuck."""
        for name, site in self.sites.items():
            for status in site.manager.status() if site.manager is not None else ():
                pair = min(name, status.peer), max(name, status.peer)
                if (status.state == "up") == bool(self.lost.intersection((*pair, pair))):
                    yield f"{name} with {status.peer}"
        for pair in self.network.backed_off(BACKED_OFF_S):
            if not self.lost.intersection((*pair, pair)):
                yield " with ".join(pair)

    def _unsaid(self) -> Iterable[str]:
        """Sites with a link whose own news tells something else of their links than they know."""
        outlooks = {name: site.broker.door.outlook for name, site in self.sites.items() if site.broker}
        for name, outlook in outlooks.items():
            is_heard = any(peer.up for peer in outlook.peers.values())
            if is_heard and not promises.says_its_links(outlook, name):
                yield name

    async def _publish_last(self) -> None:
        """What is published now meets no fault: it goes the shortest ways, and its receipt is exact."""
        if any(publication.at == WHEN_QUIET for publication in self.scenario.publications):
            self.clients.quiet = True
            self.clients.change()
            if not await self._quiet(QUIET_WITHIN_S, for_s=LOOK_EVERY_S):
                self.ledger.violate(f"there is no quiet after the last messages: {self._unrest()}")

    async def _start_again(self) -> None:
        """What the disks hold is all there is, and nothing follows from it that was not so before."""
        self.ledger.note("all sites are killed, and start again")
        for site in self.sites.values():
            site.kill(power=False)
        for name in self.sites:
            await self.start(name)
        if not await self._quiet(QUIET_WITHIN_S, for_s=QUIET_FOR_S):
            self.ledger.violate(f"there is no quiet after all have started again: {self._unrest()}")

    def _judge_errors(self) -> None:
        for name, site in self.sites.items():
            for path in site.machine.broken:
                self.ledger.violate(f"{name} lost part of {path}, which was closed, when its power went")
            for error in site.errors:
                self.ledger.violate(f"{name} ended by an error: {balance.shown(error)}")

    # -- quiet ------------------------------------------------------------------------------------

    async def _quiet(self, within_s: float, *, for_s: float) -> bool:
        """Wait until nothing is under way any more, and nothing has happened for a while."""
        until = trio.current_time() + within_s
        changes, since = -1, trio.current_time()
        while trio.current_time() < until:
            await trio.sleep(LOOK_EVERY_S)
            if self.ledger.changes != changes or self._unrest():
                changes, since = self.ledger.changes, trio.current_time()
            elif trio.current_time() - since >= for_s:
                return True
        return False

    def _unrest(self) -> str:
        return "; ".join(self._reasons())

    def _reasons(self) -> Iterable[str]:
        """What is still under way."""
        for name, site in self.sites.items():
            if site.broker is None or site.manager is None:
                yield f"{name} does not run"
                continue
            router = site.broker._router
            if waiting := len(site.broker.federating._deferred):
                yield f"{name} has no room for {waiting} copies"
            down = [status.peer for status in site.manager.status() if status.state != "up"]
            if down:
                yield f"{name} has no link to {', '.join(down)}"
            # also one whose connection has died unnoticed is a link, which what waits for it will find out
            behind = [status.peer for status in site.manager.status() if status.waiting or status.in_flight]
            if behind:
                yield f"{', '.join(behind)} has not had all that {name} has for it"
            broker = site.broker
            if router._state.out or broker.store_failed or not broker.idle or site.machine.has_unwritten:
                yield f"{name} has decisions to carry out"
            for copy in router.federation.outlook.copies.values():
                waits = [peer for peer, forward in copy.forwards.items() if forward.unacknowledged]
                if waits:
                    yield f"{name} waits for {', '.join(waits)} to have {copy.smuid}"
            for subscription in router._state.subscriptions.values():
                if subscription.locks or subscription.received:
                    yield f"{name}: {subscription.owner} has not finished"
        if self.clients.begun_at is not None:
            for key, told in self.ledger.told.items():
                publication = self.ledger.publications[key]
                if publication.at == WHEN_QUIET and not self.clients.quiet:
                    continue
                if publication.guarantee and not told.accepted:
                    yield f"{key} is not accepted"
                if publication.removed_at is not None and not told.removed:
                    yield f"{key} is not removed"


class _Watching(logging.Handler):
    """An error of ours that the daemon survives is an error all the same."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and not machine.is_gone():
            self._ledger.violate(f"{record.getMessage()}: {balance.shown(record.exc_info[1])}")
