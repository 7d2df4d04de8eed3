"""Real sites in circles, of which some are lost for good, and links that swallow what they are given.

A copy that a site had accepted and not passed on arrives by another way, as long as one is left, and is
counted for its receipt. Nobody has to come back for that: those who passed the copy on are sources of it
until its destination has it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemon.hops.examine import examine
from daemon.settings import HOPS
from plugins.smqp.client import Client
from routing.message import Message, Section
from tests.support.accounting import account
from tests.support.networks import SitePair
from tests.support.patience import PATIENCE_S
from tests.support.real_sites import PROBE_TIMEOUT_S, CutSites, RealSite, real_sites
from tests.support.trial import destined, known

pytestmark = pytest.mark.kill

RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")]
ABREAST = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "e"), ("d", "e")]


class Trip:
    """Messages that are published at a, for the one subscriber, at d; a asks b to see to it."""

    def __init__(self, sites: CutSites, publisher: Client, reader: Client) -> None:
        self.sites = sites
        self._publisher = publisher
        self._reader = reader
        self._published = 0

    async def begin(self) -> None:
        """Wait until all sites know of all links, and a that d wants it."""
        await self.sites.linked()
        for site in self.sites.by_name.values():
            await known(site, self.sites.pairs)
        await destined(self.sites["a"], "weather", {"d": "b"})

    async def publish(self, *cuts: SitePair) -> str:
        """Publish into a network with these cuts, of which nobody knows; returns the Smuid once b has it."""
        while True:
            for cut in cuts:
                self.sites.network.cut(*cut)
            smuid = await self._publish()
            if await taken(self.sites["a"], smuid) == "b":
                return smuid
            # a busy machine: the cuts were noticed before
            for cut in cuts:
                self.sites.network.heal(*cut)
            await self.arrived(smuid)
            await self.begin()

    async def _publish(self) -> str:
        self._published += 1
        section = Section("text/plain", b"Storm warning")
        cmuid = str(self._published)
        message = Message(cmuid=cmuid, depth=-1, receipt="ALL", sections=(section,))
        return await self._publisher.publish("weather", message)

    async def arrived(self, smuid: str) -> tuple[str, ...]:
        """Wait until a message is at d; returns the Hops with which it came."""
        with trio.fail_after(PATIENCE_S):
            [delivery] = await self._reader.take()
            assert delivery.message.smuid == smuid
            await self._reader.received([delivery])
            await self._reader.commit([delivery])
        return delivery.message.hops

    async def receipt(self, smuid: str) -> bytes:
        """Wait until a has been told how many have a message, `X/Y`."""
        with trio.fail_after(PATIENCE_S):
            while True:
                [receipt] = await self._publisher.take()
                await self._publisher.received([receipt])
                await self._publisher.commit([receipt])
                if dict(receipt.message.others)["Receipt-Smuid"] == smuid:
                    return receipt.message.sections[0].body

    async def finish(self, smuid: str) -> None:
        """End all sites that are left: their logs have one commit, and one end at most for each copy.

        What had been sent to a site that is lost, and not acknowledged, is held for it until its timeout.
        """
        left = [site for site in self.sites.by_name.values() if not site.lost]
        if len(left) == len(self.sites.by_name):
            for site in left:
                await ended(site, smuid)
        await self.sites.stop()
        found = account(site.directory / "state" for site in left)
        assert found.wrong == []
        assert found.commits["admin:reader@d", smuid] == 1


@asynccontextmanager
async def trip(directory: Path, pairs: list[SitePair], probe_timeout_s: float) -> AsyncIterator[Trip]:
    """Sites that are linked, as long as the block."""
    async with (
        real_sites(directory, pairs, namespaces=False, probe_timeout_s=probe_timeout_s) as sites,
        sites["a"].client("publisher") as publisher,
        sites["d"].client("reader") as reader,
    ):
        await publisher.subscribe("admin:publisher@a")
        await reader.subscribe("weather")
        running = Trip(sites, publisher, reader)
        await running.begin()
        yield running


async def taken(site: RealSite, smuid: str) -> str:
    """Wait until a peer has acknowledged that it has a copy: which one."""
    with trio.fail_after(PATIENCE_S):
        while True:
            found = await trio.to_thread.run_sync(examine, site.directory / "state" / HOPS, smuid)
            for record in found.records:
                if record.event == "forwarded" and record.outcome == "accepted":
                    return record.peer
            await trio.sleep(0.02)


async def ended(site: RealSite, smuid: str) -> None:
    """Wait until a site has no copy."""
    with trio.fail_after(PATIENCE_S):
        while True:
            found = await trio.to_thread.run_sync(examine, site.directory / "state" / HOPS, smuid)
            if found.state != "waiting":
                return
            await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("pairs", "swallows", "killed", "way"),
    [(RING, ("b", "c"), "b", ("a", "f", "e")), (ABREAST, ("b", "d"), "bc", ("a", "e"))],
    ids=["one of a ring", "two of three ways"],
)
async def test_what_a_site_had_accepted_when_it_was_killed_comes_by_another_way(
    tmp_path: Path, pairs: list[SitePair], swallows: SitePair, killed: str, way: tuple[str, ...]
) -> None:
    async with trip(tmp_path, pairs, probe_timeout_s=PATIENCE_S) as running:
        smuid = await running.publish(swallows)
        async with trio.open_nursery() as nursery:
            for name in killed:
                nursery.start_soon(running.sites[name].lose)
        assert await running.arrived(smuid) == way
        assert await running.receipt(smuid) == b"1/1"
        running.sites.network.heal(*swallows)
        await running.finish(smuid)


async def test_what_went_into_a_link_that_swallows_it_comes_by_another_way(tmp_path: Path) -> None:
    async with trip(tmp_path, RING, PROBE_TIMEOUT_S) as running:
        smuid = await running.publish(("b", "c"))
        assert await running.arrived(smuid) == ("a", "f", "e")
        running.sites.network.heal("b", "c")
        assert await running.receipt(smuid) == b"1/1"
        await running.finish(smuid)
