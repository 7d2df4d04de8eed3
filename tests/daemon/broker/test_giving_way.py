"""A disk with room for what is small: what finishes messages goes on, whatever large waits."""

import math
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon.broker.retries import RETRY_S
from tests.support.broker import SessionClient, VirtualSite, virtual_site
from tests.support.federated import PAIR, sites
from tests.support.full_disk import no_file_beyond
from tests.support.patience import PATIENCE_S
from tests.support.threads import no_thread_left

LARGE: Final = 900_000
ROOM: Final = 450_000
"""For what is small, however many transactions it comes in."""


async def held(client: SessionClient, count: int) -> dict[int, int]:
    """The numbers of so many deliveries, by the first byte of their bodies."""
    numbers: dict[int, int] = {}
    while len(numbers) < count:
        for got in await client.delivered():
            numbers[got.stored.message.sections[0].body[0]] = got.number
    return numbers


async def works_again(site: VirtualSite, clock: MockClock) -> None:
    clock.autojump_threshold = 0.01
    with trio.fail_after(100 * RETRY_S):
        while site.broker.store_failed is not None or site.broker._executor.again_at != math.inf:
            await trio.sleep(RETRY_S)
    clock.autojump_threshold = math.inf


async def test_a_dead_letter_that_finds_no_room_holds_up_nobody_and_is_there_once_there_is_room(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, eva = await site.login("ada").subscribe("jobs", credit=12), site.login("eva")
        large = [await eva.publish("jobs", bytes([n]) * LARGE, delivery="ONE") for n in range(2)]
        small = [await eva.publish("jobs", bytes([n]), delivery="ONE") for n in range(2, 6)]
        broken = await eva.publish("jobs", bytes([6]), delivery="ONE")
        numbers = await held(ada, 7)
        with no_file_beyond(site.store.wal_bytes() + ROOM):
            ada.session.give_back([numbers[0], numbers[1]], "broken", outcome="rejected")
            mock_clock.autojump_threshold = 0.01
            for n in range(2, 6):
                with trio.fail_after(5 * RETRY_S):
                    await ada.commit(numbers[n])
            ada.session.give_back([numbers[6]], "broken", outcome="rejected")
            with trio.fail_after(10 * RETRY_S):
                while not (topic := site.broker.door.view.topic("dead.jobs")) or not topic.messages:
                    await trio.sleep(RETRY_S)
            mock_clock.autojump_threshold = math.inf
            assert topic.messages == 1, "the small one has passed those that found no room"
            jobs = site.broker.door.view.topic("jobs")
            assert jobs is not None
            assert jobs.messages == len(large)
            image = site.image(tmp_path / "image")
        await works_again(site, mock_clock)
        mock_clock.autojump_threshold = 0.01
        with trio.fail_after(100 * RETRY_S):
            while (dead := site.broker.door.view.topic("dead.jobs")) is None or dead.messages < 3:
                await trio.sleep(RETRY_S)
        mock_clock.autojump_threshold = math.inf
        await ada.subscribe("dead.jobs")
        assert set(await held(ada, 3)) == {0, 1, 6}
        assert site.broker.held == 3
    records = site.records()
    assert Counter(r.smuid for r in records if r.final and r.event == "dead") == Counter([*large, broken])
    assert Counter(r.smuid for r in records if r.final and r.event == "committed") == Counter(small)
    async with virtual_site(image) as site:
        ada = await site.login("ada").subscribe("jobs")
        assert set(await held(ada, 2)) == {0, 1}, "a crash meanwhile loses none"


async def test_what_several_could_not_take_has_a_dead_letter_of_each_once_there_is_room(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The receipt, too, counts each of them once."""
    async with virtual_site(tmp_path) as site:
        eva = await site.login("eva").subscribe(site.login("eva").session.system_topic)
        clients = [await site.login(name).subscribe("news") for name in ("ada", "bob", "eva")]
        smuid = await eva.publish("news", bytes(LARGE), receipt="ALL")
        got = [(await client.delivered())[0].number for client in clients]
        with no_file_beyond(site.store.wal_bytes() + ROOM):
            for client, number in zip(clients[:2], got[:2], strict=True):
                client.session.give_back([number], "broken", outcome="rejected")
            mock_clock.autojump_threshold = 0.01
            await trio.sleep(5 * RETRY_S)
            assert site.broker.door.view.topic("dead.news") is None
            with trio.fail_after(5 * RETRY_S):
                await clients[2].commit(got[2])
            mock_clock.autojump_threshold = math.inf
        await works_again(site, mock_clock)
        [receipt] = await eva.delivered()
        assert receipt.stored.message.sections[0].body == b"1/3"
        dead = site.broker.door.view.topic("dead.news")
        assert dead is not None
        assert dead.messages == 2
        assert site.broker.door.view.topic("news") is not None
    ends = [r.final for r in site.records() if r.smuid == smuid and r.event in ("dead", "committed")]
    assert ends == [False, False, True]


async def test_what_is_to_be_buried_ends_with_its_timeout_all_the_same(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", bytes(LARGE), timeout_s=6 * RETRY_S)
        [got] = await ada.delivered()
        with no_file_beyond(site.store.wal_bytes() + ROOM):
            ada.session.give_back([got.number], "broken", outcome="rejected")
            mock_clock.autojump_threshold = 0.01
            await trio.sleep(4 * RETRY_S)
            assert site.broker.held == 1
            await trio.sleep(4 * RETRY_S)
            assert site.broker.held == 0
            mock_clock.autojump_threshold = math.inf
        await works_again(site, mock_clock)
        assert site.broker.held == 0
    assert [r.event for r in site.records() if r.final] == ["expired"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
async def test_a_copy_that_finds_no_room_stays_the_peers_and_holds_up_nobody(
    tmp_path: Path, mode: str
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader, writer = await beta.client("reader"), await beta.client("writer")
        listener, sender = await alpha.client("listener"), await alpha.client("sender")
        for topic in ("large", "small", "own"):
            await reader.subscribe(topic, credit=1)
            await alpha.wanted(mode, topic)
        await listener.subscribe("back")
        await beta.wanted("ALL", "back")
        for n in range(20):  # the file of beta is the one that is full
            await writer.publish("own", str(n) + 50_000 * "x", delivery="ONE")
        with no_file_beyond(beta.store.wal_bytes() + ROOM):
            await sender.publish("large", LARGE * "a", delivery=mode, depth=1, receipt="ALL")
            await sender.publish("large", "after it", delivery=mode, depth=1)
            with trio.fail_after(PATIENCE_S):
                while beta.broker.store_failed is None:
                    await trio.sleep(0.01)
            await sender.publish("small", "a", delivery=mode, depth=1)
            taken = [await reader.take() for _ in range(4)]
            assert {text[:1] for text in taken} <= set("0123456789a")
            assert alpha.broker.held >= 2
        with trio.fail_after(PATIENCE_S):
            while beta.broker.store_failed is not None:
                await trio.sleep(0.01)
        await writer.publish("back", "hello", depth=1)
        assert await listener.take() == "hello"
        taken += [await reader.take() for _ in range(23 - len(taken))]
        assert len(taken) == len(set(taken)) == 23
        assert [text[:8] for text in taken if text[:8] in ("a" * 8, "after it")] == ["a" * 8, "after it"]
        assert sorted(text[:3] for text in taken if "x" in text) == sorted(
            (str(n) + "xx")[:3] for n in range(20)
        )
        await sender.subscribe(sender.session.system_topic)
        assert await sender.take() == "1/1"
        await alpha.idle()
        await beta.idle()


async def test_letters_whose_time_comes_during_a_commit_are_tried_after_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        for size in (LARGE, 1):
            await eva.publish("jobs", bytes([size & 1]) * size, delivery="ONE")
        numbers = await held(ada, 2)
        with no_file_beyond(site.store.wal_bytes() + ROOM):
            ada.session.give_back([numbers[0]], "broken", outcome="rejected")
            mock_clock.autojump_threshold = 0.01
            while site.broker._executor.again_at == math.inf:
                await trio.sleep(RETRY_S / 10)
            mock_clock.autojump_threshold = math.inf
        site.broker.commits.in_place_s = 0.0
        async with trio.open_nursery() as nursery:
            with no_thread_left():
                nursery.start_soon(ada.commit, numbers[1])
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(2 * RETRY_S)
        await works_again(site, mock_clock)


async def test_a_letter_whose_message_has_ended_meanwhile_is_not_looked_for(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", bytes(LARGE), timeout_s=6.5 * RETRY_S)
        [got] = await ada.delivered()
        with no_file_beyond(site.store.wal_bytes() + ROOM):
            ada.session.give_back([got.number], "broken", outcome="rejected")
            mock_clock.autojump_threshold = 0.01
            await trio.sleep(8 * RETRY_S)
            mock_clock.autojump_threshold = math.inf
        await works_again(site, mock_clock)
    assert "cannot be read" not in caplog.text
