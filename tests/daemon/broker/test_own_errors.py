"""Errors of smqpd's own that a client's transaction meets: the site goes on, and all others are served."""

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from daemon import frontend
from daemon.store.store import BYTES_UNMEASURED
from routing.errors import Refusal
from routing.message import Message
from routing.subscription import Consumer
from tests.support.broker import SessionClient, VirtualSite, virtual_site
from tests.support.messages import TOO_GREAT, UNWRITABLE


def publish_unchecked(client: SessionClient, site: VirtualSite, topic: str, message: Message) -> int:
    request = client.request()
    session = client.session
    site.broker.door.publish(session.consumer, topic, message, session.system_topic, request)
    return request


@pytest.mark.parametrize(
    ("message", "error"),
    [(UNWRITABLE, "HeaderRefusal"), (TOO_GREAT, "OverflowError")],
    ids=["prepare", "write"],
)
async def test_a_message_that_cannot_be_stored_is_refused_alone(
    tmp_path: Path,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    message: Message,
    error: str,
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, bob, eva = site.login("ada"), await site.login("bob").subscribe("jobs"), site.login("eva")
        before = eva.send("jobs", b"before", delivery="ONE", receipt="ONE")
        bad = publish_unchecked(ada, site, "jobs", message)
        after = eva.send("jobs", b"after", delivery="ONE")
        with pytest.raises(Refusal) as refused:
            await ada.answer(bad)
        assert refused.value.code == Refusal.STORE_FAILED
        accepted = [(await eva.answer(request)).smuid for request in (before, after)]
        got = await bob.delivered(2)
        assert [one.stored.message.smuid for one in got] == accepted
        await bob.commit(*(one.number for one in got))
        assert await ada.publish("jobs", b"the next of the same publisher")
        assert site.broker.mishaps.count == 1
        assert site.broker.store_failed is None
        image = site.image(tmp_path / "image")
    [told] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "StoreMessage, topic jobs" in told.getMessage()
    assert error in caplog.text
    assert "Traceback" in caplog.text
    finals = [record.smuid for record in site.records() if record.final]
    assert sorted(set(accepted)) == sorted(smuid for smuid in finals if smuid in accepted)
    async with virtual_site(image) as site:
        [left] = await (await site.login("bob").subscribe("jobs")).delivered()
        assert left.stored.message.sections[0].body == b"the next of the same publisher"


async def test_the_same_error_again_is_counted_and_fills_no_log(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for _ in range(20):
            with pytest.raises(Refusal):
                await ada.answer(publish_unchecked(ada, site, "jobs", TOO_GREAT))
        assert site.broker.mishaps.count == 20
        assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1
        mock_clock.jump(60)
        with pytest.raises(Refusal):
            await ada.answer(publish_unchecked(ada, site, "jobs", TOO_GREAT))
    assert caplog.messages[-1].endswith("as before; 21 errors so far")


async def test_a_request_that_cannot_be_stored_is_refused(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = site.login("ada"), site.login("eva")
        with pytest.raises(Refusal) as refused:
            await ada.subscribe("jobs", credit=2**63)
        assert refused.value.code == Refusal.BAD_HEADER, "front ends say it before"
        request = ada.request()
        options = frontend.SubscribeOptions(credit=2**63)
        site.broker.door.subscribe(ada.session.consumer, "jobs", options, request)
        stored = eva.send("jobs", b"work", delivery="ONE")
        with pytest.raises(Refusal) as refused:
            await ada.answer(request)
        assert refused.value.code == Refusal.STORE_FAILED
        await eva.answer(stored)


class BrokenHandle:
    """A front end's session that fails when it is told something: at each event, or at all of them."""

    def __init__(self, *, at_each: bool) -> None:
        self.endings: list[frontend.Ending] = []
        self._at_each = at_each

    def gather(self, event: frontend.SessionEvent) -> None:
        if self._at_each:
            raise TypeError("a front end that is broken")

    def hand_on(self) -> None:
        raise TypeError("a front end that is broken")

    def end(self, ending: frontend.Ending) -> None:
        self.endings.append(ending)


@pytest.mark.parametrize("at_each", [True, False])
async def test_an_effect_that_fails_ends_its_session_and_no_other(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, at_each: bool
) -> None:
    async with virtual_site(tmp_path) as site:
        door = site.broker.door
        bob, eva = await site.login("bob").subscribe("news"), site.login("eva")
        handle: Any = BrokenHandle(at_each=at_each)
        broken = Consumer(handle, "ada", "desk")
        door.subscribe(broken, "news", frontend.SubscribeOptions(), 1)
        smuid = await eva.publish("news", b"hello")
        assert [one.stored.message.smuid for one in await bob.delivered()] == [smuid]
        assert {ending.reason for ending in handle.endings} == {"failed"}
        door.close(broken)
        ada = await site.login("ada").subscribe("news")
        [again] = await ada.delivered()
        assert again.stored.message.smuid == smuid, "it was not lost with the session"
    assert "a front end that is broken" in caplog.text


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_of_what_happens_together_nothing_happens_where_one_message_cannot_be_stored(
    tmp_path: Path, mock_clock: MockClock, place: int
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("out")
        ada = await site.login("ada").subscribe("in", credit=1)
        one, two = [await eva.publish("in", delivery="ONE") for _ in range(2)]
        [taken] = await ada.delivered()
        with sqlite3.connect(site.directory / "smqpd.db") as other:
            other.execute(
                "CREATE TRIGGER damaged BEFORE INSERT ON message WHEN NEW.topic = 'bad'"
                " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
            )
        topics = ["out", "out"]
        topics.insert(place, "bad")
        request = ada.request()
        before = eva.send("out", b"before")
        with ada.session.transaction(request):
            ada.session.commit([taken.number])
            for topic in topics:
                ada.session.publish(topic, Message(delivery="ONE"))
        after = eva.send("out", b"after")
        with pytest.raises(Refusal) as refused:
            await ada.answer(request)
        assert refused.value.code == Refusal.STORE_FAILED
        for published in (before, after):
            await eva.answer(published)
        got = await bob.delivered(2)
        assert [event.stored.message.sections[0].body for event in got] == [b"before", b"after"]
        [next_] = await ada.delivered()
        assert next_.stored.message.smuid == two
        assert site.broker.held == 4
        await ada.commit(next_.number)
        [again] = await ada.delivered()
        assert (again.stored.message.smuid, again.redelivered) == (one, True)
        await ada.commit(again.number)
        assert site.broker.held == 2
        image = site.image(tmp_path / "image")
    events = [record.event for record in site.records() if record.smuid == one]
    assert events == ["published", "delivered", "returned", "delivered", "committed"]
    async with virtual_site(image) as site:
        assert site.broker.held == 2


async def test_what_was_finished_together_with_what_cannot_be_stored_is_still_there_after_a_restart(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("news")
        ada = await site.login("ada").subscribe("news")
        smuid = await eva.publish("news", b"rain", receipt="ALL")
        await eva.subscribe(eva.session.system_topic)
        [taken], [of_bob] = await ada.delivered(), await bob.delivered()
        await ada.received(taken.number)
        with sqlite3.connect(site.directory / "smqpd.db") as other:
            other.execute(
                "CREATE TRIGGER damaged BEFORE INSERT ON message WHEN NEW.topic = 'bad'"
                " BEGIN SELECT RAISE(ABORT, 'as a damaged page would'); END"
            )
        request = ada.request()
        with ada.session.transaction(request):
            ada.session.commit([taken.number])
            ada.session.publish("bad", Message(delivery="ONE"))
        with pytest.raises(Refusal):
            await ada.answer(request)
        await bob.commit(of_bob.number)
        image = site.image(tmp_path / "image")
        [again] = await ada.delivered()
        await ada.commit(again.number)
        [receipt] = await eva.delivered()
        assert receipt.stored.message.sections[0].body == b"2/2"
    async with virtual_site(image) as site:
        [again] = await (await site.login("ada").subscribe("news")).delivered()
        assert again.stored.message.smuid == smuid


async def test_what_is_stored_counts_as_stored_where_the_store_cannot_be_measured_after_it(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(action: int, name: str | None, *others: str | None) -> int:
        return sqlite3.SQLITE_DENY if name == "freelist_count" else sqlite3.SQLITE_OK

    (tmp_path / "site").mkdir()
    async with virtual_site(tmp_path / "site") as site:
        eva = site.login("eva")
        empty = site.store.size_bytes
        site.store._writer.set_authorizer(refuses)
        for body in (bytes(BYTES_UNMEASURED), b"2"):
            assert await eva.publish("jobs", body, delivery="ONE")
        assert site.broker.store_failed is None
        assert site.store.size_bytes == empty
        site.store._writer.set_authorizer(None)
        assert await eva.publish("jobs", b"3", delivery="ONE")
        assert site.store.size_bytes > empty
        image = site.image(tmp_path / "image")
    assert caplog.text.count("how large the store is cannot be read") == 1
    async with virtual_site(image) as site:
        assert site.broker.held == 3


async def test_a_message_that_an_error_of_ours_meets_is_refused_and_its_session_goes_on(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        eva, bob = site.login("eva"), await site.login("bob").subscribe("good")
        kept = await eva.publish("bad", delivery="ONE")
        topic: Any = site.broker._router._state.topics["bad"]
        topic.shared = None
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                eva.send("bad", delivery="ONE")
            assert refused.value.code == Refusal.STORE_FAILED
        assert await eva.publish("good", delivery="ONE")
        [got] = await bob.delivered()
        await bob.commit(got.number)
        assert site.broker.mishaps.count
        assert site.broker.held == 1
        image = site.image(tmp_path / "image")
    async with virtual_site(image) as site:
        [left] = await (await site.login("bob").subscribe("bad")).delivered()
        assert left.stored.message.smuid == kept


async def test_a_transaction_that_an_error_of_ours_meets_is_refused_whole(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, bob = await site.login("ada").subscribe("in", credit=1), await site.login("bob").subscribe("out")
        smuid = await ada.publish("in", delivery="ONE")
        [taken] = await ada.delivered()
        assert await ada.publish("bad", delivery="ONE")
        topic: Any = site.broker._router._state.topics["bad"]
        waiting, topic.shared = topic.shared, None
        request = ada.request()
        with ada.session.transaction(request):
            ada.session.commit([taken.number])
            for name in ("out", "bad", "out"):
                ada.session.publish(name, Message(delivery="ONE"))
        with pytest.raises(Refusal) as refused:
            await ada.answer(request)
        assert refused.value.code == Refusal.STORE_FAILED
        topic.shared = waiting
        after = await ada.publish("out", delivery="ONE")
        [got] = await bob.delivered()
        assert got.stored.message.smuid == after
        [again] = await ada.delivered()
        assert (again.stored.message.smuid, again.redelivered) == (smuid, True)
        assert site.broker.mishaps.count
        assert site.broker.held == 3


@pytest.mark.parametrize("how", ["commit", "give back"])
async def test_what_an_error_of_ours_meets_as_it_is_finished_is_set_aside_and_all_else_is_done(
    how: str, tmp_path: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(tmp_path) as site:
        ada, eva = await site.login("ada").subscribe("jobs", credit=2), site.login("eva")
        smuids = [await eva.publish("jobs", delivery="ONE") for _ in range(3)]
        got = await ada.delivered(2)
        damaged, _ = (ada.session.consumer.locks[each.number] for each in got)
        numbers = [each.number for each in got]
        if how == "commit":
            del damaged.subscription.locks[damaged.entry.id]
            with pytest.raises(Refusal) as refused:
                ada.session.commit(numbers, ada.request())
        else:
            damaged.attempt = None  # type: ignore[assignment] # as an error of ours would leave it
            with pytest.raises(Refusal) as refused:
                ada.session.give_back(numbers, "busy", request=ada.request())
        assert refused.value.code == Refusal.STORE_FAILED
        left = {smuids[2]} if how == "commit" else {smuids[1], smuids[2]}
        seen: set[str] = set()
        while seen < left:
            for each in await ada.delivered():
                seen.add(each.stored.message.smuid)
                await ada.commit(each.number)
        assert seen == left
        assert [one.smuid for one in site.store.quarantined()] == [smuids[0]]
        assert site.broker.held == 0
    assert [r.smuid for r in site.records() if r.final and r.event == "dropped"] == [smuids[0]]
