"""Traffic between four real sites, to which anything may happen, and the account of it at the end.

    alpha --- beta
        \\    /
         gamma --- delta

Each message of `weather`, published at alpha, is due to a subscription at each of the other sites; each of
`jobs`, published at delta, to one of two, at alpha and beta. All ask for a receipt from all.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio

from daemon.control.client import Question, ask
from daemon.operating.federation import KnownSite, Route, links_between
from tests.support.accounting import CopyTally, account
from tests.support.networks import SitePair
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import PROBE_TIMEOUT_S, CutSites, RealSite, real_sites
from tests.support.traffic import CommittingReader, Publisher

PAIRS: Final = [("alpha", "beta"), ("beta", "gamma"), ("alpha", "gamma"), ("gamma", "delta")]


class Trial:
    """The sites and their traffic.

    Attributes:
        account: of all copies, once the trial is over.
    """

    def __init__(self, sites: CutSites, pause_s: float) -> None:
        self.sites = sites
        self.account = CopyTally()
        self.weather = Publisher(sites["alpha"], "weather", "ALL", pause_s)
        self.jobs = Publisher(sites["delta"], "jobs", "ONE", pause_s)
        self.readers = [
            CommittingReader(sites[name], "weather", "reader") for name in ("beta", "gamma", "delta")
        ]
        self.workers = [CommittingReader(sites[name], "jobs", "worker") for name in ("alpha", "beta")]

    @property
    def published(self) -> int:
        """Messages that were answered so far."""
        return len(self.weather.smuids) + len(self.jobs.smuids)

    async def more(self, count: int) -> None:
        """Wait until so many more messages have been answered."""
        until = self.published + count
        with trio.fail_after(PATIENCE_S):
            while self.published < until:
                await trio.sleep(0.005)

    async def begin(self, nursery: trio.Nursery) -> None:
        """Start the traffic."""
        for reader in (*self.readers, *self.workers):
            nursery.start_soon(reader.run)
            await reader.subscribed.wait()
        for site, topic, kind, peers in (
            ("alpha", "weather", "ALL", {"beta": 1, "gamma": 1}),
            ("gamma", "weather", "ALL", {"beta": 1, "delta": 1}),
            ("beta", "weather", "ALL", {"gamma": 1}),
            ("delta", "jobs", "ONE", {"gamma": 2}),
            ("alpha", "delta", "SERVER", {"gamma": 2}),
            ("beta", "delta", "SERVER", {"gamma": 2}),
            ("delta", "alpha", "SERVER", {"gamma": 2}),
        ):
            await way_for(self.sites[site], topic, kind, peers)
        nursery.start_soon(self.weather.run)
        nursery.start_soon(self.jobs.run)

    async def finish(self) -> None:
        """Publish no more, and wait until everything has arrived and every site has closed its log."""
        await self.weather.stop()
        await self.jobs.stop()
        with trio.move_on_after(PATIENCE_S):
            while missing := self._missing():
                await trio.sleep(0.1)
        assert not missing, missing[:10]
        for site in self.sites.by_name.values():
            await _idle(site)
        await self.sites.stop()
        directories = [site.directory / "state" for site in self.sites.by_name.values()]
        self.account = await trio.to_thread.run_sync(account, directories)

    def _missing(self) -> list[str]:
        """What is promised and not yet there."""
        missing = []
        weather, jobs = set(self.weather.smuids.values()), set(self.jobs.smuids.values())
        for reader in self.readers:
            lacking = weather - reader.finished - reader.unsure
            missing += [f"{reader.site.name} lacks {smuid}" for smuid in lacking]
        for worker in self.workers:
            jobs -= worker.finished | worker.unsure
        missing += [f"nobody has {smuid}" for smuid in jobs]
        for publisher in (self.weather, self.jobs):
            answered = publisher.smuids.keys() - publisher.receipts.keys()
            missing += [f"no receipt for {cmuid}" for cmuid in answered]
        return missing

    def judge(self) -> list[str]:
        """Everything that went wrong, in words."""
        found = self.account
        wrong = [*found.wrong, *(f"held for ever: {copy}" for copy in found.held)]
        for reader in (*self.readers, *self.workers):
            wrong += [f"{smuid} came to {reader.site.name} again" for smuid in reader.again]
        wrong += [f"{key} was committed {count} times" for key, count in found.commits.items() if count != 1]
        committed = {reader: _committed(found, reader) for reader in (*self.readers, *self.workers)}
        for reader in self.readers:
            lost = set(self.weather.smuids.values()) - committed[reader]
            wrong += [f"{smuid} was never committed at {reader.site.name}" for smuid in lost]
        for smuid in self.jobs.smuids.values():
            count = sum(smuid in committed[worker] for worker in self.workers)
            if count != 1:
                wrong.append(f"{smuid} was committed by {count} workers")
        for publisher, expected in ((self.weather, "3/3"), (self.jobs, "1/1")):
            for cmuid, receipts in publisher.receipts.items():
                if list(receipts.values()) != [expected]:
                    wrong.append(f"{cmuid}: receipts {receipts}, not {expected}")
        return wrong


def _committed(found: CopyTally, reader: CommittingReader) -> set[str]:
    owner = f"admin:{reader.channel}@{reader.site.name}"
    return {smuid for (subscription, smuid) in found.commits if subscription == owner}


async def way_for(site: RealSite, name: str, kind: str, peers: dict[str, int]) -> None:
    """Wait until a site knows these ways for a topic or a server, by distance."""
    question = Question(ask="routes", name=name)
    with trio.fail_after(PATIENCE_S):
        while True:
            answer = await trio.to_thread.run_sync(ask, site.directory / "state", question)
            routes = msgspec.json.decode(answer, type=list[Route])
            known = {route.peer: route.distance for route in routes if route.kind == kind}
            if all(known.get(peer) == distance for peer, distance in peers.items()):
                return
            await trio.sleep(0.05)


async def destined(site: RealSite, topic: str, destinations: dict[str, str]) -> None:
    """Wait until a message of mode ALL would be for these sites, each by its peer."""
    question = Question(ask="routes", name=topic)
    with trio.fail_after(PATIENCE_S):
        while True:
            answer = await trio.to_thread.run_sync(ask, site.directory / "state", question)
            routes = msgspec.json.decode(answer, type=list[Route])
            if destinations == {one.site: route.peer for route in routes for one in route.destinations}:
                return
            await trio.sleep(0.05)


async def known(site: RealSite, pairs: Iterable[SitePair]) -> None:
    """Wait until a site knows that all these links are up, and no others."""
    expected = {(min(pair), max(pair), True) for pair in pairs}
    with trio.fail_after(PATIENCE_S):
        while True:
            answer = await trio.to_thread.run_sync(ask, site.directory / "state", Question(ask="federation"))
            sites = msgspec.json.decode(answer, type=list[KnownSite])
            if expected == set(links_between(sites)):
                return
            await trio.sleep(0.05)


async def _idle(site: RealSite) -> None:
    """Wait until nothing waits for a peer."""
    with trio.fail_after(PATIENCE_S):
        while any(link.waiting or link.in_flight for link in (await site.links()).values()):
            await trio.sleep(0.05)


@asynccontextmanager
async def trial(
    directory: Path,
    *,
    pause_s: float = 0.02,
    namespaces: bool | None = None,
    environment: dict[str, dict[str, str]] | None = None,
    probe_timeout_s: float = PROBE_TIMEOUT_S,
) -> AsyncIterator[Trial]:
    """Traffic as long as the block; after it, everything has arrived, and `account` is filled."""
    async with (
        real_sites(
            directory,
            PAIRS,
            namespaces=namespaces,
            environment=environment,
            probe_timeout_s=probe_timeout_s,
        ) as sites,
        trio.open_nursery() as nursery,
    ):
        running = Trial(sites, pause_s)
        await running.begin(nursery)
        yield running
        await running.finish()
        nursery.cancel_scope.cancel()
