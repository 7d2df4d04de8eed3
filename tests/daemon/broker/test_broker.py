"""One broker: what is told when, what a full disk and a restart leave, and what the hop log says of it."""

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
from daemon.broker.broker import RECORD_S
from daemon.broker.outbox import EVENTS_BYTES, PENDING_BYTES_MAX
from daemon.broker.retries import RETRY_S
from daemon.store.store import WAL_CHECKPOINT_BYTES
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


async def test_an_answer_means_that_the_message_is_on_disk(tmp_path: Path, mock_clock: MockClock) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        await site.login("eva").publish("jobs", b"work", delivery="ONE")
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        ada = await site.login("ada").subscribe("jobs")
        [got] = await ada.delivered()
        assert got.stored.message.sections[0].body == b"work"


async def test_what_was_answered_survives_a_kill_and_what_was_committed_stays_so(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        for body in (b"locked", b"received", b"committed"):
            await eva.publish("jobs", body, cmuid=body.decode())
        _, received, committed = await ada.delivered(3)
        await ada.received(received.number, committed.number)
        await ada.commit(committed.number)
        await eva.set_timeout("jobs", 30.0)
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        got = await ada.delivered(2)
        assert {(g.stored.message.sections[0].body, g.received) for g in got} == {
            (b"locked", False),
            (b"received", True),
        }
        assert (await eva.answer(eva.send("jobs", cmuid="committed"))).repeated
        await ada.commit(*(g.number for g in got))
        assert site.broker.held == 0


async def test_what_one_of_several_has_committed_comes_to_the_others_only_after_a_kill(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, bob = [await site.login(name).subscribe("news") for name in ("ada", "bob")]
        await site.login("eva").publish("news", b"rain")
        [got] = await ada.delivered()
        await ada.commit(got.number)
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        ada, bob = [await site.login(name).subscribe("news") for name in ("ada", "bob")]
        await bob.delivered()
        await site.login("eva").publish("news", b"sun")
        [got] = await ada.delivered()
        assert got.stored.message.sections[0].body == b"sun"


async def test_a_receipt_that_was_told_is_not_told_again_after_a_kill(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, bob, eva = [site.login(name) for name in ("ada", "bob", "eva")]
        for client, topic in ((ada, "news"), (bob, "news"), (eva, eva.session.system_topic)):
            await client.subscribe(topic)
        await eva.publish("news", b"rain", receipt="ONE")
        for client in (ada, eva):
            [got] = await client.delivered()
            await client.commit(got.number)
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        bob, eva = site.login("bob"), site.login("eva")
        for client, topic in ((bob, "news"), (eva, eva.session.system_topic)):
            await client.subscribe(topic)
        [got] = await bob.delivered()
        await bob.commit(got.number)
        await eva.publish("nobody", receipt="ALL")
        [receipt] = await eva.delivered()
        assert ("Receipt-Topic", "nobody") in receipt.stored.message.others


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
async def test_the_count_of_deliveries_goes_on_through_a_kill(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", b"fails", delivery=mode)
        for attempt in (1, 2):
            [got] = await ada.delivered()
            assert got.attempt == attempt
            request = ada.request()
            ada.session.give_back([got.number], "it does", 60.0, request)
            await ada.answer(request)
            if attempt == 1:
                mock_clock.jump(61.0)
        await eva.publish("others", b"a transaction later")
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        [got] = await (await site.login("ada").subscribe("jobs")).delivered()
        assert got.attempt == 3


async def test_after_a_kill_the_hop_log_has_no_gap_and_ends_each_copy_once(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    directory = tmp_path / "0"
    directory.mkdir()
    for round_ in range(3):
        async with virtual_site(directory) as site:
            ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
            for number in range(5):
                await eva.publish("jobs", b"%d" % number)
            got = await ada.delivered(5)
            await ada.commit(*(g.number for g in got[:3]))
            directory = site.image(tmp_path / str(round_ + 1))
    async with virtual_site(directory) as site:
        ada = await site.login("ada").subscribe("jobs")
        while site.broker.held:
            await ada.commit(*(g.number for g in await ada.delivered()))
    records = site.records(heartbeats=True)
    assert [record.record for record in records] == list(range(1, len(records) + 1))
    assert {record.boot: record.previous for record in records if record.previous}.keys() == {2, 3, 4}
    published = {record.smuid for record in records if record.event == "published"}
    assert Counter(record.smuid for record in records if record.final) == dict.fromkeys(published, 1)
    assert len(published) == 15


async def test_the_hop_log_tells_subscriptions_of_one_account_apart(tmp_path: Path) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = site.login("ada"), site.login("eva")
        for name in ("", "one", "two"):
            await ada.subscribe("news", name=name)
        await eva.publish("news", b"hello")
        await ada.commit(*(got.number for got in await ada.delivered(3)))
    for event in ("delivered", "committed"):
        subscriptions = [record.subscription for record in site.records() if record.event == event]
        owner = min(subscriptions)
        assert sorted(subscriptions) == [owner, f"{owner}/one", f"{owner}/two"]


async def test_a_kill_takes_only_the_last_moment_of_what_was_recorded_of_unguaranteed_messages(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "before").mkdir()
    async with virtual_site(tmp_path / "before") as site:
        ada, eva = await site.login("ada").subscribe("news"), site.login("eva")
        for text in (b"one", b"two"):
            eva.session.publish("news", Message(guarantee=False, sections=(Section("text/plain", text),)))
            await ada.delivered()
        mock_clock.jump(RECORD_S)
        await trio.testing.wait_all_tasks_blocked(0.01)
        after = site.image(tmp_path / "after")
    async with virtual_site(after) as site:
        pass
    events = [record.event for record in site.records()]
    assert [events.count(event) for event in ("published", "delivered")] == [2, 2]


async def test_a_clean_stop_and_start_keeps_everything(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        await (await site.login("ada").subscribe("news")).set_timeout("news", 500.0)
        await site.login("eva").publish("news", b"hello")
    async with virtual_site(tmp_path) as site:
        mock_clock.jump(400)
        late = await site.login("bob").subscribe("news")
        [got] = await late.delivered()
        assert 99 <= (got.expires_in_s or 0) <= 100, "the clock went on from where it was"


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
    finals = Counter(record.smuid for record in site.records() if record.final)
    assert set(finals.values()) == {1}
    assert set(accepted) < set(finals)


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


async def test_a_slow_session_is_paused_and_costs_others_nothing(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    body = bytes(10_000)
    count = 3 * PENDING_BYTES_MAX // len(body)
    async with virtual_site(tmp_path) as site:
        slow, quick = site.login("ada"), site.login("bob")
        slow.session.subscribe("news", frontend.SubscribeOptions(credit=10_000))
        await quick.subscribe("news", credit=10_000)
        eva = site.login("eva")
        for _ in range(count):
            await eva.publish("news", body)
        got = await quick.delivered(count)
        assert len(got) == count
        in_hand = len(slow.session.consumer.locks)
        assert in_hand * len(body) <= 1.1 * PENDING_BYTES_MAX
        bodies = [each.stored.message.sections[0].body for each in await slow.delivered(count)]
        assert bodies == [body] * count


async def test_bodies_that_are_not_in_memory_come_from_the_disk(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        for number in range(300):
            await eva.publish("jobs", b"%d" % number * 500, delivery="ONE")
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("jobs", credit=1_000)
        got = await ada.delivered(300)
        bodies = [each.stored.message.sections[0].body for each in got]
        assert bodies == [b"%d" % number * 500 for number in range(300)]


async def test_a_session_goes_on_when_all_it_was_to_get_has_ended_meanwhile(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    body = bytes(EVENTS_BYTES)
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        [_, smuid] = [await eva.publish("jobs", body, delivery="ONE") for _ in range(2)]
    async with virtual_site(tmp_path) as site:
        eva, ada = site.login("eva"), await site.login("ada").subscribe("jobs")
        assert len(await ada.delivered()) == 1, "each fills what is handed out at a time"
        request = eva.request()
        eva.session.remove("jobs", smuid, request)
        await eva.answer(request)
        assert [type(event) for event in await ada.session.events()] == [frontend.Withdrawn]


async def test_time_passes_locks_and_expires_messages(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, lock_s=60.0) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", b"work", timeout_s=100.0)
        assert [got.attempt for got in await ada.delivered()] == [1]
        mock_clock.jump(61)
        assert [got.attempt for got in await ada.delivered()] == [2]
        mock_clock.jump(40)
        while not any(isinstance(e, frontend.Withdrawn) and e.reason == "expired" for e in ada.events):
            ada.events += await ada.session.events()
        assert site.broker.held == 0


async def test_what_a_transaction_brings_about_is_followed_by_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A dead letter is made, and handed out, while what it came of is carried out."""
    async with virtual_site(tmp_path) as site:
        site.broker.commits.in_place_s = math.inf  # time does not run on while a thread commits
        ada, bob = await site.login("ada").subscribe("jobs"), site.login("bob")
        await bob.subscribe("dead.jobs", lock_s=5.0)
        await site.login("eva").publish("jobs", b"work")
        [got] = await ada.delivered()
        ada.session.give_back([got.number], "broken", outcome="rejected")
        assert [got.attempt for got in await bob.delivered()] == [1]
        with trio.fail_after(6):
            assert [got.attempt for got in await bob.delivered()] == [2]


async def test_the_clock_of_messages_goes_on_through_a_restart(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        await eva.publish("jobs", b"short", delivery="ONE", timeout_s=50.0)
        mock_clock.jump(40)
        await eva.publish("jobs", b"long", delivery="ONE", timeout_s=50.0)
    async with virtual_site(tmp_path) as site:
        mock_clock.jump(20)
        [got] = await (await site.login("ada").subscribe("jobs")).delivered()
        assert got.stored.message.sections[0].body == b"long"
        assert 25 <= (got.expires_in_s or 0) <= 31


async def test_a_timeout_that_nobody_stated_is_not_told(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("news"), site.login("eva")
        await eva.publish("news", b"unstated")
        await eva.publish("news", b"state", timeout_s=float("inf"))
        await eva.publish("news", b"stated", timeout_s=5.0)
        assert [got.expires_in_s for got in await ada.delivered(3)] == [None, None, 5.0]


async def test_an_account_that_is_disabled_is_told_and_its_rights_end_its_subscriptions(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("news"), site.login("eva")
        accounts_file = site.broker.settings.site.accounts_file
        text = accounts_file.read_text()
        accounts_file.write_text(text.replace("[accounts.ada]\n", "[accounts.ada]\ndisabled = true\n"))
        site.broker.accounts.replace(site.broker.accounts.read())
        site.broker.reconfigure(site.broker.settings)
        [ending] = await ada.session.events()
        assert ending == frontend.Ending("disabled", "the account has been disabled")
        assert await ada.session.events() == []
        with pytest.raises(Refusal):
            site.login("ada")
        await eva.publish("news")


async def test_closing_twice_or_using_a_closed_session_harms_nothing(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("news")
        ada.session.close()
        ada.session.close()
        with pytest.raises(Refusal):
            ada.send("news")
        assert await ada.session.events() == []


async def test_the_write_ahead_log_is_written_over_once_it_is_long(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        while site.store.logged_bytes <= WAL_CHECKPOINT_BYTES:
            await eva.publish("jobs", bytes(1_000_000))
            await ada.commit(*(got.number for got in await ada.delivered()))
        while site.store.logged_bytes > WAL_CHECKPOINT_BYTES:
            await eva.publish("probe")
        length = site.store.wal_bytes()
        await eva.publish("probe")
        assert site.store.wal_bytes() == length > WAL_CHECKPOINT_BYTES


async def test_a_session_that_is_cancelled_while_it_waits_for_events_loses_none(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("eva").publish("jobs", b"work", delivery="ONE")
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        ada.session.subscribe("jobs", frontend.SubscribeOptions(), 1)
        await site.login("eva").publish("probe")
        with trio.CancelScope() as scope:
            scope.cancel()
            ada.events += await ada.session.events()
        await ada.answer(1)
        [got] = await ada.delivered()
        assert got.stored.message.sections[0].body == b"work"
