"""One broker: what is told when, what a kill and a restart leave, and what the hop log says of it."""

import math
from collections import Counter
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon import frontend
from daemon.accounts.changing import change_file
from daemon.broker.waking import RECORD_S
from daemon.store.store import WAL_CHECKPOINT_BYTES
from routing.errors import Refusal
from routing.message import Message, Section
from routing.rights import Rights
from tests.support.broker import virtual_site


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


async def test_an_administrator_ends_subscriptions_of_others_whoever_is_there(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("news")
        ada = await site.login("ada").subscribe("news", durable=True, name="away")
        ada.session.close()
        for each in eva.session.subscriptions("news"):
            request = eva.request()
            eva.session.end_subscription(each, request)
            await eva.answer(request)
        assert await bob.session.events() == [frontend.Detached("news", "", "removed")]
        assert eva.session.subscriptions("news") == []
        with pytest.raises(Refusal, match="no subscription"):
            eva.session.end_subscription(each)
    async with virtual_site(tmp_path) as site:
        assert site.login("eva").session.subscriptions("news") == []


async def test_who_may_not_administer_a_topic_ends_no_subscription_to_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        await site.login("bob").subscribe("news")
        eva = site.login("eva")
        [known] = eva.session.subscriptions("news")
        rights = Rights(publish=("#",), subscribe=("#",), remove=("#",))
        change_file(site.broker.settings.site.accounts_file, lambda editor: editor.set_rights("eva", rights))
        site.broker.accounts.replace(site.broker.accounts.read())
        with pytest.raises(Refusal, match="may not administer"):
            eva.session.end_subscription(known)


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


async def test_nobody_logs_in_at_a_site_that_stops(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        site.broker.drain()
        with pytest.raises(Refusal) as refused:
            site.broker.open_session(frontend.Identity("ada"), "default", protocol="smqp", remote="")
        assert refused.value.code == Refusal.NOT_AVAILABLE
