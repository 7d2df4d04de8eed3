"""A store that cannot be written, or is as large as it may be: who is refused, and that nothing is lost."""

import contextlib
import logging
import math
from collections import Counter
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon import frontend
from daemon.broker.retries import RETRY_S
from routing.errors import HeaderRefusal, Refusal
from routing.message import Message, Section
from tests.support.broker import SessionClient, VirtualSite, virtual_site
from tests.support.full_disk import no_file_beyond


def full_disk(site: VirtualSite) -> contextlib.AbstractContextManager[None]:
    """No file of this process can grow beyond what the write-ahead log has now."""
    return no_file_beyond(site.store.wal_bytes())


async def works_again(site: VirtualSite, client: SessionClient, clock: MockClock) -> None:
    """Wait until the store takes messages."""
    while site.broker.store_failed is not None:
        clock.jump(RETRY_S)
        await trio.testing.wait_all_tasks_blocked(0.01)
    await client.publish("probe")


async def test_with_a_full_disk_publishers_are_refused_and_nothing_is_lost(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs", credit=2), site.login("eva")
        accepted = [await eva.publish("jobs", b"before %d" % n, delivery="ONE") for n in range(3)]
        [first, second] = await ada.delivered(2)
        with full_disk(site):
            requests = [eva.send("jobs", b"lost", delivery="ONE", cmuid=f"c{n}") for n in range(5)]
            commit = ada.request()
            ada.session.commit([first.number], commit)
            for request in requests:
                with pytest.raises(Refusal) as refused:
                    await eva.answer(request)
                assert refused.value.code == Refusal.STORE_FAILED
            with pytest.raises(Refusal) as refused:
                eva.send("jobs", b"refused at once")
            assert refused.value.code == Refusal.STORE_FAILED
            eva.send("jobs", b"not stored anyway", guarantee=False, delivery="ONE")
        await works_again(site, eva, mock_clock)
        await ada.answer(commit)
        accepted.append(await eva.publish("jobs", b"after", delivery="ONE", cmuid="c0"))
        await ada.commit(second.number)
        seen = {b"before 0", b"before 1"}
        while len(seen) < 5:
            for got in await ada.delivered():
                seen.add(got.stored.message.sections[0].body)
                if got.acknowledge:
                    await ada.commit(got.number)
        assert seen == {b"before 0", b"before 1", b"before 2", b"not stored anyway", b"after"}
        assert site.broker.held == 0
        assert site.broker.metrics.refused[Refusal.STORE_FAILED] == len(requests) + 1
    finals = Counter(record.smuid for record in site.records() if record.final)
    assert set(finals.values()) == {1}
    assert set(accepted) < set(finals)


async def test_what_was_refused_was_not_published(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        await eva.publish("jobs", delivery="ONE", cmuid="before")
        with full_disk(site):
            requests = [eva.send("jobs", b"x", delivery="ONE", cmuid=cmuid) for cmuid in ("a", "a", "b")]
            together = eva.request()
            with eva.session.transaction(together):
                for guarantee in (True, False):
                    eva.send("jobs", b"x" * 10_000, delivery="ONE", guarantee=guarantee)
            for request in (*requests, together):
                with pytest.raises(Refusal):
                    await eva.answer(request)
        published = [eva.session.published]
        await works_again(site, eva, mock_clock)
        published.append(eva.session.published)
    assert published == [1, 2]


async def test_what_finds_room_goes_through_though_all_that_waits_does_not(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Twenty dead letters of 100 kB and the commit of one message at once, where there is room for some."""
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, eva = await site.login("ada").subscribe("jobs", credit=21), site.login("eva")
        smuids = [await eva.publish("jobs", bytes([n]) * 100_000, delivery="ONE") for n in range(21)]
        got: list[frontend.Delivered] = []
        while len(got) < 21:
            got += await ada.delivered()
        with no_file_beyond(site.store.wal_bytes() + 400_000):
            for each in got[:20]:
                ada.session.give_back([each.number], "broken", outcome="rejected")
            commit = ada.request()
            ada.session.commit([got[20].number], commit)
            for _ in range(20):
                await trio.testing.wait_all_tasks_blocked(0.01)
                mock_clock.jump(RETRY_S)
            mock_clock.autojump_threshold = 0.1
            with trio.fail_after(10 * RETRY_S):
                await ada.answer(commit)
            mock_clock.autojump_threshold = math.inf
            assert site.broker.store_failed is not None
            image = site.image(tmp_path / "image")
        await works_again(site, eva, mock_clock)
    records = site.records()
    assert sorted(r.smuid for r in records if r.final and r.event == "committed") == [smuids[20]]
    assert sorted(r.smuid for r in records if r.final and r.event == "dead") == sorted(smuids[:20])
    async with virtual_site(image) as site:
        left, dead = site.broker.door.view.topic("jobs"), site.broker.door.view.topic("dead.jobs")
        assert left is not None
        assert dead is not None
        assert 0 < dead.messages < 20
        assert left.messages + dead.messages == 20


async def test_after_only_publishers_were_refused_the_store_is_found_to_work_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        with full_disk(site):
            with pytest.raises(Refusal):
                await eva.publish("jobs", bytes(10_000), delivery="ONE")
            assert site.broker.store_failed
        await works_again(site, eva, mock_clock)


async def test_a_store_that_fails_and_works_in_turns_is_said_to_once(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        for _ in range(3):
            with full_disk(site), pytest.raises(Refusal):
                await eva.publish("jobs", bytes(10_000), delivery="ONE")
            await works_again(site, eva, mock_clock)
        [failed] = caplog.messages
        assert failed.startswith("the store failed")
        mock_clock.jump(60)
        await eva.publish("jobs", delivery="ONE")
        assert [message.partition(",")[0] for message in caplog.messages[1:]] == ["the store works again"]


async def test_a_transaction_that_fails_takes_no_record_of_what_was_delivered_before_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("news"), site.login("eva")
        with full_disk(site):
            eva.session.publish("news", Message(guarantee=False))
            [got] = await ada.delivered()
            with pytest.raises(Refusal):
                await eva.publish("jobs", bytes(10_000), delivery="ONE")
        smuid = got.stored.message.smuid
        await works_again(site, eva, mock_clock)
    assert [r.event for r in site.records() if r.smuid == smuid] == ["published", "delivered"]


async def test_a_cmuid_repeated_while_the_disk_is_full_is_not_taken_for_published(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        with full_disk(site):
            requests = [eva.send("jobs", b"work", delivery="ONE", cmuid="c1") for _ in range(2)]
            for request in requests:
                with pytest.raises(Refusal):
                    await eva.answer(request)
        await works_again(site, eva, mock_clock)
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        assert not (await eva.answer(eva.send("jobs", b"work", delivery="ONE", cmuid="c1"))).repeated
        [got] = await (await site.login("ada").subscribe("jobs")).delivered()
        assert got.stored.message.cmuid == "c1"


async def test_a_dead_letter_and_a_receipt_outlive_a_transaction_that_fails(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path, max_deliveries=1) as site:
        ada, bob = await site.login("ada").subscribe("news"), await site.login("bob").subscribe("news")
        phone, eva = await site.login("ada", "phone").subscribe("news"), site.login("eva")
        await eva.publish("news", b"hello", receipt="ONE")
        [fails], [works], [waits] = [await each.delivered() for each in (ada, bob, phone)]
        with full_disk(site):
            ada.session.give_back([fails.number], "broken")
            bob.session.commit([works.number])
            with pytest.raises(Refusal):
                await eva.publish("news", b"refused")
        await works_again(site, eva, mock_clock)
        await eva.subscribe(eva.session.system_topic)
        [receipt] = await eva.delivered()
        assert receipt.stored.message.sections[0].body == b"1/3"
        await ada.subscribe("dead.news")
        [dead] = await ada.delivered()
        assert ("Dead-Reason", "broken") in dead.stored.message.others
        await phone.commit(waits.number)
    dead_copies = [r for r in site.records() if r.event == "published" and r.topic == "dead.news"]
    assert len(dead_copies) == 1


async def test_no_receipt_tells_of_a_message_that_was_refused(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        with full_disk(site), pytest.raises(Refusal):
            await eva.publish("nobody", receipt="ALL")
        await works_again(site, eva, mock_clock)
        smuid = await eva.publish("nobody", receipt="ALL")
        await eva.subscribe(eva.session.system_topic)
        [receipt] = await eva.delivered()
        assert ("Receipt-Smuid", smuid) in receipt.stored.message.others
        assert site.broker.held == 1


async def test_a_store_that_is_as_large_as_it_may_be_refuses(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, store_bytes_max=1) as site:
        eva = site.login("eva")
        with pytest.raises(Refusal) as refused:
            await eva.publish("jobs")
        assert refused.value.code == Refusal.QUEUE_FULL
        eva.send("jobs", guarantee=False)


async def test_publishers_are_refused_once_the_store_is_full_and_taken_again_once_it_is_not(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path, store_bytes_max=1_048_576) as site:
        eva, ada = site.login("eva"), site.login("ada")
        await ada.subscribe("jobs")
        for _ in range(5):
            await eva.publish("jobs", bytes(100_000))
        with contextlib.suppress(Refusal):
            for _ in range(5):
                await eva.publish("jobs", bytes(100_000))
        with pytest.raises(Refusal, match="the site's store is as large as it may be"):
            await eva.publish("jobs", bytes(100_000))
        for delivery in await ada.delivered(5):
            await ada.commit(delivery.number)
        await eva.publish("jobs", bytes(100_000))


@pytest.mark.parametrize(
    "message",
    [
        Message(others=(("X-Forged", "one\r\nSmuid: b.example/1-1-1"),)),
        Message(others=(("Smuid", "b.example/1-1-1"),)),
        Message(name="two\nlines"),
        Message(cmuid="1\n2"),
        Message(sections=(Section("text/plain\r\nX: y", b""),)),
        Message(guarantee=False, others=(("X", "\ud800"),)),
    ],
)
async def test_a_message_that_cannot_be_written_is_refused_to_the_front_end_that_brings_it(
    tmp_path: Path, mock_clock: MockClock, message: Message
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, bob = site.login("ada"), await site.login("bob").subscribe("news")
        with pytest.raises(HeaderRefusal):
            ada.session.publish("news", message)
        await ada.publish("news", b"the next one")
        [got] = await bob.delivered()
        assert got.stored.message.sections[0].body == b"the next one"
