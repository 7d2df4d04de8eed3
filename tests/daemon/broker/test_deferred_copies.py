"""A site that is full takes nothing from its peers, and loses nothing: they keep it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from daemon.broker.deferred_copies import DeferredCopies
from daemon.settings import QueueSettings, StoreSettings
from routing.message import Message, Section
from routing.peering.copies import Arrival, UnitId
from tests.support.federated import FederatedSite, federated_site
from tests.support.links import MemoryNetwork
from tests.support.patience import PATIENCE_S

FULL_AT = 3
MESSAGES = 10


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[tuple[FederatedSite, FederatedSite]]:
    network = MemoryNetwork()
    async with (
        federated_site(network, directory, "alpha", ["beta"]) as alpha,
        federated_site(network, directory, "beta", ["alpha"]) as beta,
    ):
        await alpha.linked("beta")
        yield alpha, beta


def limit(site: FederatedSite, **settings: Any) -> None:
    """Have a site take on other limits, as a reload would."""
    site.broker.reconfigure(msgspec.structs.replace(site.broker.settings, **settings))


async def answered_by_peer(site: FederatedSite, copies: int) -> None:
    """Wait until only so many copies are unanswered."""
    with trio.fail_after(PATIENCE_S):
        while site.links.status()[0].in_flight + site.links.status()[0].waiting != copies:
            await trio.sleep(0.01)


async def waiting_at(site: FederatedSite, copies: int) -> None:
    """Wait until so many copies are deferred at a site."""
    with trio.fail_after(PATIENCE_S):
        while len(site.broker.federating._deferred) != copies:
            await trio.sleep(0.001)


async def test_a_full_topic_takes_no_more_from_a_peer_until_it_has_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path) as (alpha, beta):
        limit(beta, queues=QueueSettings(queue_messages_max=FULL_AT))
        reader, other = await beta.client("reader"), await beta.client("other")
        await reader.subscribe("weather", credit=1)
        await other.subscribe("news")
        await alpha.wanted("ALL", "weather")
        await alpha.wanted("ALL", "news")
        writer = await alpha.client("writer")
        for number in range(MESSAGES):
            await writer.publish("weather", str(number), depth=1)
        await answered_by_peer(alpha, MESSAGES - FULL_AT)
        assert beta.broker.held == FULL_AT
        assert alpha.broker.held == MESSAGES - FULL_AT
        assert caplog.text.count("refused copies to weather from alpha for now") == 1

        await writer.publish("news", "other topics go on", depth=1)
        assert await other.take() == "other topics go on"

        assert [await reader.take() for _ in range(MESSAGES)] == [str(n) for n in range(MESSAGES)]
        await alpha.idle()
        await beta.idle()


async def test_a_full_store_takes_nothing_from_a_peer_until_it_has_room(tmp_path: Path) -> None:
    async with pair(tmp_path) as (alpha, beta):
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        enough = beta.broker.settings.store
        limit(beta, store=StoreSettings(store_bytes_max=1_048_576))
        beta.store.size_bytes = 2_000_000
        writer = await alpha.client("writer")
        await writer.publish("weather", "rain", depth=1)
        await answered_by_peer(alpha, 1)
        assert (alpha.broker.held, beta.broker.held) == (1, 0)
        limit(beta, store=enough)
        assert await reader.take() == "rain"
        await alpha.idle()


async def test_the_time_that_a_copy_waits_is_counted_down(tmp_path: Path) -> None:
    async with pair(tmp_path) as (alpha, beta):
        limit(beta, queues=QueueSettings(queue_messages_max=1))
        reader = await beta.client("reader")
        await reader.subscribe("weather", credit=1, lock_s=1_000.0)
        await alpha.wanted("ALL", "weather")
        writer = await alpha.client("writer")
        await writer.publish("weather", "fills the topic", depth=1)
        await writer.publish("weather", "waits", depth=1, timeout_s=1_000.0)
        await waiting_at(beta, 1)
        beta.ages(300.0)
        assert await reader.take() == "fills the topic"
        assert await reader.get() == "waits"
        assert reader.last.expires_in_s is not None
        assert 0.0 < reader.last.expires_in_s <= 700.0


async def test_what_waits_outlives_the_link_and_comes_once(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]) as beta,
    ):
        await alpha.linked("beta")
        limit(beta, queues=QueueSettings(queue_messages_max=1))
        reader = await beta.client("reader")
        await reader.subscribe("weather", credit=1)
        await alpha.wanted("ALL", "weather")
        writer = await alpha.client("writer")
        for number in range(4):
            await writer.publish("weather", str(number), depth=1)
        await answered_by_peer(alpha, 3)
        for _ in range(2):
            await waiting_at(beta, 3)
            network.cut()
            await waiting_at(beta, 0)
            await alpha.linked("beta")
        assert [await reader.take() for _ in range(4)] == ["0", "1", "2", "3"]
        await alpha.idle()
        await writer.publish("weather", "the end", depth=1)
        assert await reader.take() == "the end"


async def test_two_full_sites_take_what_they_have_for_each_other(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with (
        federated_site(network, tmp_path, "alpha", ["beta"]) as alpha,
        federated_site(network, tmp_path, "beta", ["alpha"]) as beta,
    ):
        await alpha.linked("beta")
        readers = {site: await site.client("reader") for site in (alpha, beta)}
        for site, reader in readers.items():
            limit(site, queues=QueueSettings(queue_messages_max=FULL_AT))
            await reader.subscribe("weather")
        for site in readers:
            await site.wanted("ALL", "weather")
        network.unreachable.update(("alpha", "beta"))
        network.cut()
        for site in readers:
            writer = await site.client("writer")
            for number in range(FULL_AT):
                await writer.publish("weather", f"{site.name} {number}", depth=1)
        network.unreachable.clear()
        everything = sorted(f"{name} {number}" for name in ("alpha", "beta") for number in range(FULL_AT))
        for site, reader in readers.items():
            assert sorted([await reader.take() for _ in everything]) == everything
            await site.idle()


def arrival(number: int, topic: str = "weather", peer: str = "alpha", **more: Any) -> Arrival:
    return Arrival(
        peer=peer,
        unit=UnitId(1, number) if number else None,
        topic=topic,
        message=Message(sections=(Section("text/plain", b"rain"),)),
        mode="ALL",
        depth=0,
        hops=(peer,),
        timeout_left_s=more.pop("timeout_left_s", None),
        query=0,
        **more,
    )


def number_of(one: Arrival) -> int:
    assert one.unit is not None
    return one.unit.number


def takes_room(arrival: Arrival) -> bool:
    return True


class TestOrder:
    def test_what_follows_one_that_waits_waits_behind_it(self) -> None:
        full = {"weather"}
        deferred = DeferredCopies(lambda one: one.topic not in full, takes_room)
        assert deferred.defer(arrival(1), 0.0)
        full.clear()
        assert deferred.defer(arrival(2), 0.0)
        assert not deferred.defer(arrival(3, "news"), 0.0)
        assert [number_of(one) for one in deferred.admit(0.0)] == [1, 2]
        assert len(deferred) == 0

    def test_one_leaves_at_a_time_as_there_is_room(self) -> None:
        held: list[int] = []
        deferred = DeferredCopies(lambda one: len(held) < 2, takes_room)
        held += (0, 0)
        for number in (1, 2, 3):
            assert deferred.defer(arrival(number), 0.0)
        held.clear()
        for one in deferred.admit(0.0):
            held.append(number_of(one))
        assert held == [1, 2]
        assert len(deferred) == 1

    def test_a_copy_that_takes_no_room_waits_for_none(self) -> None:
        known: set[int] = set()
        deferred = DeferredCopies(lambda one: False, lambda one: number_of(one) not in known)
        assert deferred.defer(arrival(1), 0.0)
        known.update((1, 2))
        assert not deferred.defer(arrival(2), 0.0)
        assert [number_of(one) for one in deferred.admit(0.0)] == [1]

    def test_what_waits_of_one_peer_does_not_hold_up_another(self) -> None:
        deferred = DeferredCopies(lambda one: one.peer != "alpha", takes_room)
        assert deferred.defer(arrival(1, peer="alpha"), 0.0)
        assert not deferred.defer(arrival(1, peer="gamma"), 0.0)

    def test_an_unguaranteed_copy_never_waits(self) -> None:
        assert not DeferredCopies(lambda one: False, takes_room).defer(arrival(0), 0.0)

    def test_time_goes_on_while_a_copy_waits(self) -> None:
        full = [True]
        deferred = DeferredCopies(lambda one: not full, takes_room)
        for left_s in (10.0, 2.0, None):
            deferred.defer(arrival(1, timeout_left_s=left_s), 100.0)
        full.clear()
        assert [one.timeout_left_s for one in deferred.admit(103.0)] == [7.0, 0.0, None]

    def test_what_a_peer_sends_again_under_other_numbers_is_forgotten(self) -> None:
        full = [True]
        deferred = DeferredCopies(lambda one: not full, takes_room)
        deferred.defer(arrival(1, peer="alpha"), 0.0)
        deferred.defer(arrival(2, peer="gamma"), 0.0)
        deferred.defer(arrival(3, "news", peer="alpha"), 0.0)
        deferred.forget("alpha")
        assert len(deferred) == 1
        full.clear()
        assert [number_of(one) for one in deferred.admit(0.0)] == [2]
