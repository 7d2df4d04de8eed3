"""Errors of smqpd's own in what no client waits for: copies of peers, timeouts, chores and records."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemon.hops.examine import examine
from routing.decisions import Record
from routing.errors import Refusal
from routing.message import Message, Section
from routing.peering.copies import Arrival, PeerRules, UnitId
from routing.peering.decisions import StoreInterest
from routing.peering.wants import InterestChange
from tests.support.broker import VirtualSite, virtual_site
from tests.support.messages import TOO_GREAT, UNWRITABLE


class ToldLinks:
    """Links that remember what was to be said."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.ended: list[str] = []

    def acknowledge(
        self, peer: str, connection: int, numbers: Iterable[int], outcome: str, reason: str = ""
    ) -> None:
        self.told += ((number, outcome) for number in numbers)

    def end(self, peer: str, reason: str) -> None:
        self.ended.append(peer)


def with_peer(site: VirtualSite) -> ToldLinks:
    links: Any = ToldLinks()
    site.broker.federating.links = links
    site.broker._router.federation.set_peer("beta.example", PeerRules())
    return links  # type: ignore[no-any-return]


def arrival(message: Message, number: int) -> Arrival:
    smuid, account = f"beta.example/0123456789ab-1-{number}", "eva:desk@beta.example"
    return Arrival(
        peer="beta.example",
        unit=UnitId(1, number),
        topic="jobs",
        message=Message(
            smuid=smuid,
            account=account,
            created="2026-11-21T10:00:00Z",
            sequence=message.sequence,
            others=message.others,
            sections=(Section("text/plain", b"%d" % number),),
        ),
        mode="ONE",
        depth=0,
        hops=("beta.example",),
        timeout_left_s=None,
        query=0,
    )


@pytest.mark.parametrize("message", [UNWRITABLE, TOO_GREAT], ids=["prepare", "write"])
async def test_a_copy_that_cannot_be_stored_is_denied_to_the_peer_and_ends(
    tmp_path: Path, mock_clock: MockClock, message: Message
) -> None:
    async with virtual_site(tmp_path) as site:
        links = with_peer(site)
        bob = await site.login("bob").subscribe("jobs")
        for number, each in enumerate((Message(), message, Message()), start=1):
            site.broker.door.arrive(arrival(each, number))
        got = await bob.delivered(2)
        assert [one.stored.message.sections[0].body for one in got] == [b"1", b"3"]
        assert links.told == [(1, "accepted"), (2, "denied"), (3, "accepted")]
    ends = [(r.event, r.final) for r in site.records() if r.smuid.endswith("-1-2")]
    assert ends == [("received", False), ("dropped", True)]


async def test_what_a_peer_tells_that_cannot_be_stored_ends_its_link(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        links, federation = with_peer(site), site.broker._router.federation
        eva = site.login("eva")
        stored = eva.send("jobs", b"work", delivery="ONE")
        out = site.broker._router._state.out
        out.append(StoreInterest("beta.example", [InterestChange("ALL", "weather", 2**63)], whole=False))
        federation.heard("beta.example", UnitId(1, 7))
        await eva.answer(stored)
        assert links.ended == ["beta.example"]


async def test_a_commit_that_meets_a_damaged_page_is_refused_and_the_site_goes_on(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs"), site.login("eva")
        await eva.publish("jobs", b"work", delivery="ONE")
        [got] = await ada.delivered()
        with sqlite3.connect(site.directory / "smqpd.db") as other:
            other.execute(
                "CREATE TRIGGER damaged BEFORE DELETE ON message"
                " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
            )
        with pytest.raises(Refusal) as refused:
            await ada.commit(got.number)
        assert refused.value.code == Refusal.STORE_FAILED
        assert await eva.publish("jobs", b"more", delivery="ONE")
        assert site.broker.store_failed is None


async def test_what_is_forgotten_each_minute_holds_nothing_up(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        await eva.publish("jobs", cmuid="c1", delivery="ONE")
        with sqlite3.connect(site.directory / "smqpd.db") as other:
            other.execute(
                "CREATE TRIGGER damaged BEFORE DELETE ON publication"
                " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
            )
        mock_clock.jump(7_200)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert await eva.publish("jobs", delivery="ONE")
        assert site.broker.mishaps.count == 1


async def test_a_timeout_whose_end_fails_ends_its_message_and_the_site_goes_on(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        eva = site.login("eva")
        bad, good = [await eva.publish(topic, b"1", timeout_s=10.0) for topic in ("bad", "good")]
        topic: Any = site.broker._router._state.topics["bad"]
        topic.kept = None
        mock_clock.jump(11)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert site.broker.held == 0
        assert site.broker.mishaps.count == 1
        assert await eva.publish("jobs", b"the next", delivery="ONE")
        image = site.image(tmp_path / "image")
        ends = {record.smuid: record.event for record in site.records() if record.final}
    assert ends == {bad: "expired", good: "expired"}
    assert "the end of a timeout (topic bad" in caplog.text
    async with virtual_site(image) as site:
        assert site.broker.held == 1, "it does not come back"


async def test_a_lock_whose_end_fails_sets_its_message_aside(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("jobs", lock_s=10.0)
        bad = await eva.publish("jobs", b"1", delivery="ONE")
        await bob.delivered()
        bob.session.consumer.locks.clear()
        mock_clock.jump(11)
        await trio.testing.wait_all_tasks_blocked(0.01)
        good = await eva.publish("jobs", b"2", delivery="ONE")
        [got] = await bob.delivered()
        assert got.stored.message.smuid == good
        assert [one.smuid for one in site.store.quarantined()] == [bad]
        assert site.broker.mishaps.count == 1


async def test_what_is_set_aside_before_it_is_stored_is_there_for_the_operator(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva, router = site.login("eva"), site.broker._router
        request = eva.send("jobs", b"1", delivery="ONE")
        [entry] = router._state.entries.values()
        site.broker.door.set_aside(entry, "as an error of ours would")
        smuid = (await eva.answer(request)).smuid
        assert [one.smuid for one in site.store.quarantined()] == [smuid]
        assert site.broker.held == 0


async def test_what_is_done_each_minute_fails_alone(tmp_path: Path, mock_clock: MockClock) -> None:
    done = 0

    def broken() -> None:
        raise TypeError("a chore that is broken")

    def works() -> None:
        nonlocal done
        done += 1

    async with virtual_site(tmp_path, chores=[broken, works]) as site:
        await trio.testing.wait_all_tasks_blocked(0.01)
        for minute in (1, 2):
            mock_clock.jump(60)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert done == minute
        assert site.broker.mishaps.count == 2


async def test_a_record_that_cannot_be_encoded_is_missing_and_what_it_tells_of_is_done(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("jobs")
        smuid = await eva.publish("jobs", b"work", delivery="ONE")
        [entry] = site.broker._router._state.entries.values()
        site.broker._router._state.out.append(Record("returned", entry, reason="half a pair: \ud800"))
        other = await eva.publish("jobs", b"more", delivery="ONE")
        got = await bob.delivered(2)
        assert [one.stored.message.smuid for one in got] == [smuid, other]
        await bob.commit(got[1].number)
        assert site.broker.store_failed is None
        assert site.broker.mishaps.count == 1
    found = examine(tmp_path / "hops", smuid)
    assert len(found.gaps) == 1
    assert "of the hop log (returned)" in caplog.text


async def test_a_record_that_cannot_be_made_is_missing_and_what_it_tells_of_is_done(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva = site.login("eva")
        smuid = await eva.publish("jobs", b"work", delivery="ONE")
        broken: Any = Record("returned", next(iter(site.broker._router._state.entries.values())))
        broken.answered = "not an answer"
        site.broker._router._state.out.append(broken)
        assert await eva.publish("jobs", b"more", delivery="ONE")
        assert site.broker.held == 2
        assert site.broker.mishaps.count == 1
    assert len(examine(tmp_path / "hops", smuid).gaps) == 1
