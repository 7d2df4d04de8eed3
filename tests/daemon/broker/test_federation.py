"""Several sites as one: real brokers and stores, linked over a network in memory."""

import math
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from daemon.hops.reader import HopLogReader
from daemon.settings import Limits
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.federated import CHAIN, PAIR, sites
from tests.support.patience import PATIENCE_S


async def test_a_message_crosses_a_link_and_its_copies_end(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        smuid = await publisher.publish("weather", "rain", depth=1)
        assert await reader.get() == "rain"
        assert reader.last.stored.message.smuid == smuid
        assert reader.last.stored.message.hops == ("alpha",)
        await reader.commit()
        await alpha.idle()
        await beta.idle()
    log = HopLogReader(tmp_path / "alpha" / "hops")
    [forwarded] = [record for record in log.records() if record.event == "forwarded"]
    assert 0 < forwarded.sent_us <= forwarded.peer_received_us <= forwarded.peer_sent_us
    assert forwarded.peer_sent_us <= forwarded.acknowledged_us <= forwarded.time_us


async def test_a_message_goes_only_where_it_is_wanted_and_not_back_to_where_it_came_from(
    tmp_path: Path,
) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, _, _ = await federation.start(*CHAIN)
        readers = [await site.client("reader") for site in (alpha, beta)]
        for reader in readers:
            await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        await beta.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=-1)
        assert [await reader.take() for reader in readers] == ["rain", "rain"]
        await alpha.idle()
        await beta.idle()
    events = {
        (name, record.event)
        for name in CHAIN
        for record in HopLogReader(tmp_path / name / "hops").records()
        if record.topic == "weather" and record.event in ("published", "received", "loop", "duplicate")
    }
    assert events == {("alpha", "published"), ("beta", "received")}


async def test_a_site_whose_limits_have_changed_takes_from_its_peers_what_they_allow(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        text = "x" * 300_000
        await publisher.publish("weather", text, depth=1)
        assert await reader.take() == text
        limits = Limits(message_bytes_max=1_000)
        beta.broker.reconfigure(msgspec.structs.replace(beta.broker.settings, limits=limits))
        await publisher.publish("weather", text, depth=1)
        await publisher.publish("weather", "rain", depth=1)
        assert await reader.gets_nothing_before("rain")


async def test_a_copy_is_acknowledged_once_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        disk, commit = trio.Event(), beta.broker.commits.commit

        async def commit_late(decisions: int) -> None:
            await disk.wait()
            await commit(decisions)

        monkeypatch.setattr(beta.broker.commits, "commit", commit_late)
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=1)
        while not beta.broker._router._state.entries:
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked(0.05)
        [copy] = alpha.broker.door.outlook.copies.values()
        unacknowledged = copy.forwards["beta"].unacknowledged
        disk.set()
        assert unacknowledged
        assert await reader.take() == "rain"
        await alpha.idle()


async def test_a_timeout_is_counted_down_over_the_hops(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, gamma, _ = await federation.start(*CHAIN)
        publisher = await alpha.client("publisher")
        await publisher.publish("weather", "rain", depth=2, timeout_s=1_000.0)
        alpha.ages(300.0)
        reader = await gamma.client("reader")
        await reader.subscribe("weather")
        assert await reader.get() == "rain"
        assert reader.last.expires_in_s is not None
        assert 0.0 < reader.last.expires_in_s <= 700.0


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
async def test_a_link_that_is_cut_again_and_again_loses_nothing_and_brings_nothing_twice(
    tmp_path: Path, mode: str
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather", credit=1_000)
        await alpha.wanted(mode, "weather")
        publisher = await alpha.client("publisher")
        texts = [f"{number:03}" for number in range(100)]
        for number, text in enumerate(texts):
            await publisher.publish("weather", text, depth=1, delivery=mode)
            if number % 10 == 5:
                federation.network.cut()
        assert [await reader.take() for _ in texts] == texts
        await publisher.publish("weather", "the end", depth=1, delivery=mode)
        assert await reader.gets_nothing_before("the end")
        await alpha.idle()
        await beta.idle()


async def test_what_a_peer_does_not_answer_before_the_link_is_cut_comes_again_with_a_higher_attempt(
    tmp_path: Path,
) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        publisher = await alpha.client("publisher")
        federation.network.silence()
        await publisher.publish("weather", "rain", depth=1)
        federation.network.cut()
        assert await reader.take() == "rain"
        await alpha.idle()
    log = HopLogReader(tmp_path / "beta" / "hops")
    assert [one.attempt for one in log.records() if one.event == "received"] == [2]


async def test_interest_that_changes_while_a_link_is_cut_is_known_as_it_is_in_the_end(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        for number in range(60):
            await reader.subscribe(f"topic.{number}")
            if number % 3:
                await reader.unsubscribe(f"topic.{number}")
            if number % 20 == 10:
                federation.network.cut()
        distances = alpha.broker.door.outlook.distances

        def wanted() -> set[int]:
            return {number for number in range(60) if distances(("ALL", f"topic.{number}"))}

        with trio.fail_after(PATIENCE_S):
            while wanted() != set(range(0, 60, 3)):  # what is gone is said by news, which may be put off
                await trio.sleep(0.01)


async def test_depth_says_how_far_a_message_goes(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, gamma, delta = await federation.start(*CHAIN)
        readers = {}
        for site in (alpha, beta, gamma, delta):
            readers[site.name] = await site.client("reader")
            await readers[site.name].subscribe("weather")
        for site, further in pairwise((alpha, beta, gamma, delta)):
            await site.knows(further.name, "weather")
        publisher = await alpha.client("publisher")
        for depth in range(4):
            await publisher.publish("weather", f"depth {depth}", depth=depth)
        for distance, name in enumerate(CHAIN):
            for depth in range(distance, 4):
                assert await readers[name].take() == f"depth {depth}"
        for site in (alpha, beta, gamma, delta):
            await site.idle()


async def test_a_receipt_counts_the_subscriptions_of_all_sites(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, gamma, delta = await federation.start(*CHAIN)
        near, far = await gamma.client("near"), await delta.client("far")
        await far.subscribe("weather")
        await alpha.wanted("ALL", "weather", within=2)
        await near.subscribe("weather")
        await alpha.wanted("ALL", "weather", within=1)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("weather", "rain", depth=-1, receipt="ALL")
        assert await near.take() == "rain"
        assert await far.take() == "rain"
        assert await publisher.take() == "2/2"


async def test_a_message_for_one_goes_to_one_of_all_sites(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, beta, gamma, delta = await federation.start(*CHAIN)
        worker = await delta.client("worker")
        await worker.subscribe("jobs")
        await alpha.wanted("ONE", "jobs", within=2)
        publisher = await alpha.client("publisher")
        await publisher.subscribe(publisher.session.system_topic)
        await publisher.publish("jobs", "paint", depth=-1, delivery="ONE", receipt="ALL")
        assert await worker.take() == "paint"
        assert await publisher.take() == "1/1"
        for site in (alpha, beta, gamma, delta):
            await site.idle()


async def test_a_reply_finds_its_way_to_a_publisher_at_another_site(tmp_path: Path) -> None:
    async with sites(tmp_path, CHAIN) as federation:
        alpha, _, _, delta = await federation.start(*CHAIN)
        asker, answerer = await alpha.client("asker"), await delta.client("answerer")
        await asker.subscribe(asker.session.system_topic)
        await delta.wanted("SERVER", "alpha", within=2)
        await answerer.publish("ada:asker@alpha", "an answer")
        assert await asker.take() == "an answer"


async def test_a_removal_reaches_a_site_that_was_cut_off(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        first = await beta.client("first")
        await first.subscribe("state")
        await alpha.wanted("ALL", "state")
        publisher = await alpha.client("publisher")
        gone = await publisher.publish("state", "old", depth=1, timeout_s=math.inf)
        assert await first.take() == "old"
        await publisher.publish("state", "new", depth=1, timeout_s=math.inf)
        assert await first.take() == "new"
        await federation.stop("beta")
        await publisher.remove("state", gone)
        [beta] = await federation.start("beta")
        second = await beta.client("second")
        while gone not in beta.broker._router._state.removed:
            await trio.sleep(0.01)
        await second.subscribe("state")
        assert await second.gets_nothing_before("new")


async def test_unguaranteed_copies_that_a_link_cannot_hold_are_dropped_and_counted(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader = await beta.client("reader")
        await reader.subscribe("video")
        await alpha.wanted("ALL", "video")
        publisher = await alpha.client("publisher")
        federation.network.silence()
        for _ in range(60):
            body = Section("video/raw", b"x" * 500_000)
            publisher.session.publish("video", Message(depth=1, guarantee=False, sections=(body,)))
        for _ in range(2):  # the log is written with what goes to disk
            await publisher.publish("other", "a guaranteed one", timeout_s=60.0)
        log = HopLogReader(tmp_path / "alpha" / "hops")
        dropped = [one for one in log.records() if one.event == "dropped"]
        assert 0 < len(dropped) < 60
        assert dropped[0].reason == "more waits for the link with beta than fits"
        assert dropped[0].peer == ""


async def test_a_message_that_is_refused_leaves_no_receipt_that_peers_have_a_part_in(tmp_path: Path) -> None:
    async with sites(tmp_path, PAIR) as federation:
        alpha, beta = await federation.start("alpha", "beta")
        reader, publisher = await beta.client("reader"), await alpha.client("publisher")
        await reader.subscribe("weather")
        await alpha.wanted("ALL", "weather")
        fails = "BEFORE INSERT ON message BEGIN SELECT RAISE(FAIL, 'the disk is full'); END"
        alpha.store._writer.execute(f"CREATE TEMP TRIGGER full {fails}")
        refused = await publisher.is_refused("weather", "rain", depth=1, receipt="ALL")
        assert refused == Refusal.STORE_FAILED
        alpha.store._writer.execute("DROP TRIGGER full")
        await publisher.subscribe("weather")
        with closing(sqlite3.connect(alpha.store.path)) as store:
            assert store.execute("SELECT count(*) FROM receipt").fetchone() == (0,)
