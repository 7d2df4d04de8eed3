"""Six real sites in a ring, and what may happen to them: what is promised holds, whichever way copies go.

Each test runs with sites that name destinations, with sites that name none, and with some of either.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest
import trio

from daemon.control.client import Question, ask
from daemon.operating.federation import Route
from plugins.smqp.client import Client
from plugins.smqp.incoming import Delivery
from routing.message import INFINITE, DeliveryMode, Message, ReceiptMode, Section
from tests.support.accounting import CopyTally, account
from tests.support.networks import SitePair
from tests.support.patience import PATIENCE_S
from tests.support.process import KNOWS_NO_DESTINATIONS
from tests.support.real_sites import CutSites, RealSite, real_sites
from tests.support.traffic import CommittingReader, Publisher
from tests.support.trial import destined, known, way_for

pytestmark = pytest.mark.kill

RING: Final = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("a", "f")]
NAMES: Final = "abcdef"
PAUSE_S: Final = 0.1
STARTS: Final = {
    "destinations": {},
    "of both kinds": {"c": KNOWS_NO_DESTINATIONS, "f": KNOWS_NO_DESTINATIONS},
    "wherever it is wanted": dict.fromkeys(NAMES, KNOWS_NO_DESTINATIONS),
}
of_all_kinds = pytest.mark.parametrize("kind", STARTS)


class Ring:
    """The sites, and who publishes and reads there."""

    def __init__(self, sites: CutSites, kind: str, nursery: trio.Nursery) -> None:
        self.sites = sites
        self.kind = kind
        self.publishers: list[Publisher] = []
        self.readers: list[CommittingReader] = []
        self.taken: dict[CommittingReader, list[Delivery]] = {}
        self.nursery = nursery

    @property
    def names_destinations(self) -> bool:
        """All sites do."""
        return not STARTS[self.kind]

    async def read(self, topic: str, names: str, *, may_be_removed: bool = False) -> None:
        """A subscription at each of these, which takes all that comes until the end."""
        for name in names:
            taken: list[Delivery] = []
            channel = f"reader.{len(self.readers)}"
            reader = CommittingReader(
                self.sites[name], topic, channel, taken.append, may_be_removed=may_be_removed
            )
            self.readers.append(reader)
            self.taken[reader] = taken
            self.nursery.start_soon(reader.run)
            await reader.subscribed.wait()

    async def publish(
        self, name: str, topic: str, mode: DeliveryMode = "ALL", receipt: ReceiptMode = "ALL"
    ) -> Publisher:
        """Publish to a topic from now on."""
        publisher = Publisher(self.sites[name], topic, mode, PAUSE_S, receipt)
        self.publishers.append(publisher)
        self.nursery.start_soon(publisher.run)
        return publisher

    async def known(self) -> None:
        """Wait until all links are up, and all sites know so."""
        await self.sites.linked()
        for site in self.sites.by_name.values():
            await known(site, RING)

    async def wanted(self, name: str, topic: str, by: str) -> None:
        """Wait until a site knows that these want a topic."""
        if self.names_destinations:
            await wanted(self.sites[name], topic, by)
        else:
            for peer in self.sites.by_name:
                if tuple(sorted((name, peer))) in RING:
                    at = min(_distance(peer, other, name) for other in by if other != name)
                    await way_for(self.sites[name], topic, "ALL", {peer: at})

    async def have(self, names: str, smuids: Iterable[str]) -> None:
        """Wait until all readers at these sites have finished these messages."""
        with trio.fail_after(PATIENCE_S):
            for reader in self.readers:
                if reader.site.name in names:
                    while set(smuids) - reader.finished - reader.unsure:
                        await trio.sleep(0.05)

    async def finish(self) -> CopyTally:
        """Publish no more; wait until all have all and every receipt has come, then end all sites."""
        for publisher in self.publishers:
            await publisher.stop()
        missing = self._missing()
        with trio.move_on_after(PATIENCE_S):
            while missing := self._missing():
                await trio.sleep(0.1)
        assert not missing, (len(missing), missing[:10])
        directories = [site.directory / "state" for site in self.sites.by_name.values()]
        with trio.fail_after(PATIENCE_S):
            while (await trio.to_thread.run_sync(account, directories)).held:
                await trio.sleep(0.2)
        await self.sites.stop()
        found = await trio.to_thread.run_sync(account, directories)
        assert (found.wrong, found.held) == ([], [])
        assert {key: count for key, count in found.commits.items() if count != 1} == {}
        for reader in self.readers:
            assert reader.again == []
        return found

    def _missing(self) -> list[str]:
        missing = []
        for publisher in self.publishers:
            smuids = set(publisher.smuids.values())
            readers = [reader for reader in self.readers if reader.topic == publisher.topic]
            for reader in readers:
                had = reader.finished | reader.unsure
                if publisher.mode == "ALL":
                    missing += [f"{reader.site.name} lacks {smuid}" for smuid in sorted(smuids - had)]
                else:
                    smuids -= had
            if publisher.mode == "ONE":
                missing += [f"nobody has {smuid}" for smuid in sorted(smuids)]
            if publisher.receipt != "NONE":
                lacking = publisher.smuids.keys() - publisher.receipts.keys()
                missing += [f"no receipt for {cmuid}" for cmuid in lacking]
        return missing

    def check_receipts(self) -> None:
        """Each message that asked for one has one receipt, of all that subscribe."""
        for publisher in self.publishers:
            many = len([reader for reader in self.readers if reader.topic == publisher.topic])
            expected = "1/1" if publisher.mode == "ONE" else f"{many}/{many}"
            told = Counter(tuple(receipts.values()) for receipts in publisher.receipts.values())
            assert told.keys() <= {(expected,)}, (publisher.topic, told)

    def disorders(self, reader: CommittingReader) -> int:
        """How often a reader was handed a message after a later one of the same publisher."""
        numbers = [int(one.message.sections[0].body) for one in self.taken[reader]]
        last, disorders, seen = -1, 0, set[int]()
        for number in numbers:
            if number in seen:
                continue
            seen.add(number)
            disorders += number < last
            last = max(last, number)
        return disorders


def _distance(peer: str, other: str, without: str) -> int:
    """Links from a site over a peer to another, around the ring."""
    names = NAMES
    step = 1 if names[(names.index(without) + 1) % 6] == peer else -1
    at, far = names.index(without), 0
    while names[at] != other:
        at, far = (at + step) % 6, far + 1
    return far


async def wanted(site: RealSite, topic: str, by: str) -> None:
    """Wait until a message would name just these sites."""
    question = Question(ask="routes", name=topic)
    with trio.fail_after(PATIENCE_S):
        while True:
            answer = await trio.to_thread.run_sync(ask, site.directory / "state", question)
            routes = msgspec.json.decode(answer, type=list[Route])
            if {one.site for route in routes for one in route.destinations} == set(by) - {site.name}:
                return
            await trio.sleep(0.05)


@asynccontextmanager
async def ring(directory: Path, kind: str, pairs: list[SitePair] = RING) -> AsyncIterator[Ring]:
    """Sites that are linked, as long as the block."""
    async with (
        real_sites(directory, pairs, namespaces=False, starts=STARTS[kind]) as sites,
        trio.open_nursery() as nursery,
    ):
        yield Ring(sites, kind, nursery)
        nursery.cancel_scope.cancel()


@of_all_kinds
async def test_whatever_fails_all_have_all_once_and_receipts_are_right(tmp_path: Path, kind: str) -> None:
    async with ring(tmp_path, kind) as running:
        sites = running.sites
        await running.read("weather", NAMES)
        await running.read("news", "bde")
        await running.read("jobs", "be")
        await running.known()
        await running.wanted("a", "weather", NAMES)
        await running.wanted("d", "news", "bde")
        await running.publish("a", "weather")
        await running.publish("d", "news", receipt="NONE")
        await running.publish("d", "jobs", "ONE")
        for name in "bdf":
            await trio.sleep(0.4)  # so long it works between two kills
            await sites[name].kill()
        sites.network.cut("c", "d")
        await sites["c"].linked("d", up=False)
        await sites["a"].kill()
        sites.network.cut("a", "f")
        await sites["f"].linked("a", up=False)
        sites.network.heal("c", "d")
        await sites["c"].linked("d")
        await sites["c"].kill()
        sites.network.heal("a", "f")
        await sites.linked()
        await running.finish()
        running.check_receipts()


@of_all_kinds
async def test_what_waits_when_all_sites_are_killed_comes_once(tmp_path: Path, kind: str) -> None:
    async with ring(tmp_path, kind) as running:
        sites = running.sites
        for topic in ("weather", "news"):
            await running.read(topic, "bd")
        await running.known()
        for topic in ("weather", "news"):
            await running.wanted("a", topic, "bd")
        for pair in (("c", "d"), ("d", "e")):
            sites.network.cut(*pair)
        for name in "ce":
            await sites[name].linked("d", up=False)
        weather = await running.publish("a", "weather")
        news = await running.publish("a", "news", receipt="NONE")
        with trio.fail_after(PATIENCE_S):
            while min(len(weather.smuids), len(news.smuids)) < 40:
                await trio.sleep(0.05)
        async with trio.open_nursery() as nursery:
            for site in sites.by_name.values():
                nursery.start_soon(site.kill)
        for pair in (("c", "d"), ("d", "e")):
            sites.network.heal(*pair)
        await sites.linked()
        await running.finish()
        running.check_receipts()


TAIL: Final = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "f"), ("e", "f"), ("c", "e")]
"""A ring of five, and d behind c."""

WAITING: Final = 2_000


@of_all_kinds
async def test_what_waited_for_a_site_that_was_stopped_comes_in_order(tmp_path: Path, kind: str) -> None:
    async with ring(tmp_path, kind, TAIL) as running:
        sites = running.sites
        await running.read("weather", "d")
        [reader] = running.readers
        await running.sites.linked()
        for site in sites.by_name.values():
            await known(site, TAIL)
        if running.names_destinations:
            await destined(sites["a"], "weather", {"d": "b"})
        else:
            await way_for(sites["a"], "weather", "ALL", {"b": 3, "f": 4})
        await sites["d"].lose()
        await sites["c"].linked("d", up=False)
        async with sites["a"].client("publisher") as publisher:
            smuids = await published(publisher, 0, WAITING)
            running.nursery.start_soon(sites["d"].begin_again)
            await sites["c"].linked("d")
            smuids += await published(publisher, WAITING, 200)
        with trio.fail_after(PATIENCE_S):
            while set(smuids) - reader.finished - reader.unsure:
                await trio.sleep(0.1)
        assert running.disorders(reader) == 0


async def published(client: Client, first: int, many: int) -> list[str]:
    """Publish numbers, many at a time; their Smuids."""
    pending = []
    for number in range(first, first + many):
        body = Section("text/plain", str(number).encode())
        pending.append(await client.publish_soon("weather", Message(depth=-1, sections=(body,))))
    return [(await one.wait())["smuid"] for one in pending]


@of_all_kinds
async def test_all_sites_hold_the_same_state_after_a_partition(tmp_path: Path, kind: str) -> None:
    async with ring(tmp_path, kind) as running:
        sites = running.sites
        await running.read("state", "bd", may_be_removed=True)
        await running.known()
        await running.wanted("a", "state", "bd")
        async with sites["a"].client("publisher") as publisher:
            smuids = [await publisher.publish("state", state(number)) for number in range(12)]
            await running.have("bd", smuids)
            for pair in (("c", "d"), ("d", "e")):
                sites.network.cut(*pair)
            for name in "ce":
                await sites[name].linked("d", up=False)
            for smuid in smuids[:6]:
                await publisher.remove("state", smuid)
            more = [await publisher.publish("state", state(number)) for number in range(12, 18)]
            for smuid in more[:3]:
                await publisher.remove("state", smuid)
            await running.have("b", smuids[6:] + more[3:])
        await sites["c"].kill()
        for pair in (("c", "d"), ("d", "e")):
            sites.network.heal(*pair)
        await running.known()
        left = smuids[6:] + more[3:]
        await running.have("d", left)
        await sites["b"].kill()
        await running.read("state", "acef")
        await running.have("acef", left)
        await running.read("state", "bd")  # of another channel: what its site holds, and no more
        await running.have("bd", left)
        for reader in running.readers[2:]:
            assert {one.message.smuid for one in running.taken[reader]} == set(left), reader.site.name


def state(number: int) -> Message:
    """A state message."""
    body = Section("text/plain", str(number).encode())
    return Message(depth=-1, timeout_s=INFINITE, sections=(body,))
