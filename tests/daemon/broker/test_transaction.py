"""Calls of a session that happen together or not at all."""

import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from daemon.broker.session import BrokerSession
from daemon.frontend import Answer, Delivered, Identity, SubscribeOptions
from daemon.settings import QueueSettings
from routing.errors import Refusal
from routing.message import Message, Section
from tests.support.broker import virtual_site
from tests.support.patience import PATIENCE_S
from tests.support.site import BrokerSite, running_site

WORK = Message(delivery="ONE", sections=(Section("text/plain", b"work"),))
ALONE = SubscribeOptions(accepts="ONE", durable=False)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BrokerSite]:
    async with running_site(tmp_path, queues=QueueSettings(queue_messages_max=3)) as site:
        yield site


@pytest.fixture
def session(site: BrokerSite) -> Iterator[BrokerSession]:
    session = site.open_session(Identity("ada"), "desk", protocol="test", remote="test")
    yield session
    session.close()


async def event(session: BrokerSession, kind: type[Answer] | type[Delivered], found: list[Any]) -> Any:
    """The next event of a kind; others are kept in `found` for later."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for event in found:
                if type(event) is kind:
                    found.remove(event)
                    return event
            found += await session.events()


def together(session: BrokerSession, *calls: Any) -> None:
    with session.transaction("together"):
        for call, *arguments in calls:
            call(*arguments)


async def held(session: BrokerSession, found: list[Any]) -> int:
    """A message that the session holds, and its number."""
    session.publish("in", WORK)
    session.subscribe("in", ALONE)
    number: int = (await event(session, Delivered, found)).number
    return number


async def test_all_calls_happen_and_are_answered_once(session: BrokerSession) -> None:
    found: list[Any] = []
    number = await held(session, found)
    session.subscribe("out", ALONE)
    with session.transaction("done"):
        session.publish("out", WORK, "one")
        session.publish("out", WORK, "two")
        session.commit([number], "three")
    assert (await event(session, Answer, found)) == Answer("done")
    assert [(await event(session, Delivered, found)).topic for _ in range(2)] == ["out", "out"]


async def test_a_topic_is_set_with_what_is_published_to_it(session: BrokerSession) -> None:
    session.subscribe("news", SubscribeOptions(accepts="ALL", durable=False))
    found: list[Any] = []
    together(
        session,
        (session.set_delivery, "news", "ALL"),
        (session.set_timeout, "news", 60.0),
        (session.annotate, "news", "rain"),
        (session.publish, "news", Message()),
    )
    assert (await event(session, Delivered, found)).expires_in_s is not None, "as the topic says"
    assert (await event(session, Answer, found)) == Answer("together")
    known = session.topic("news")
    assert known is not None
    assert (known.delivery, known.timeout_s, known.annotations) == ("ALL", 60.0, {"test": "rain"})


async def test_what_is_refused_together_with_a_topic_leaves_it_as_it_was(session: BrokerSession) -> None:
    with pytest.raises(Refusal, match="is not a topic"):
        together(
            session,
            (session.set_delivery, "news", "ALL"),
            (session.set_timeout, "news", 60.0),
            (session.annotate, "news", "rain"),
            (session.publish, "not a topic", WORK),
        )
    assert session.topic("news") is None


async def test_a_call_that_is_refused_undoes_the_others(session: BrokerSession) -> None:
    found: list[Any] = []
    number = await held(session, found)
    with pytest.raises(Refusal, match="is not a topic"):
        together(session, (session.commit, [number]), (session.publish, "no topic", WORK))
    session.commit([number], "still held")
    assert (await event(session, Answer, found)).error is None


async def test_a_lost_lock_is_refused_in_the_block(session: BrokerSession) -> None:
    with pytest.raises(Refusal) as raised:
        together(session, (session.publish, "out", WORK), (session.commit, [7]))
    assert raised.value.code == Refusal.LOCK_LOST


async def test_a_delivery_can_be_settled_only_once_in_it(session: BrokerSession) -> None:
    found: list[Any] = []
    number = await held(session, found)
    with pytest.raises(Refusal, match="no longer"):
        together(session, (session.commit, [number]), (session.give_back, [number]))
    session.commit([number], "still held")
    assert (await event(session, Answer, found)).error is None


async def test_what_does_not_fit_whole_is_refused_whole(session: BrokerSession) -> None:
    found: list[Any] = []
    with pytest.raises(Refusal) as raised:
        together(session, *[(session.publish, "out", WORK)] * 4)
    assert raised.value.code == Refusal.QUEUE_FULL
    session.publish("out", WORK, "alone")
    session.subscribe("out", ALONE)
    await event(session, Delivered, found)
    assert (await event(session, Answer, found)).request == "alone"
    assert not [event for event in found if isinstance(event, Delivered)]


@pytest.mark.parametrize(
    "message",
    [Message(sections=(Section("text/plain", b"x" * 40_000),)), Message(others=(("X", "x" * 40_000),))],
    ids=["bodies", "headers"],
)
async def test_what_it_publishes_counts_until_it_is_on_disk(session: BrokerSession, message: Message) -> None:
    together(session, *[(session.publish, "out", message)] * 2)
    assert session.is_storing_much
    await event(session, Answer, [])
    await trio.testing.wait_all_tasks_blocked()
    assert not session.is_storing_much


async def test_what_fits_exactly_is_taken_whole(tmp_path: Path) -> None:
    """Also where its last message, of no bytes, finds the topic as full as it may be."""
    empty = Message(delivery="ONE")
    async with running_site(tmp_path, queues=QueueSettings(queue_bytes_max=WORK.size_bytes)) as site:
        session = site.open_session(Identity("ada"), "desk", protocol="test", remote="test")
        together(session, (session.publish, "out", WORK), (session.publish, "out", empty))
        assert (await event(session, Answer, [])).request == "together"
        assert site.broker.held == 2
        session.close()


@contextmanager
def full_disk() -> Iterator[Any]:
    """No file grows beyond what any has now."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_while_the_store_fails_it_waits_whole_and_single_messages_are_refused(
    session: BrokerSession,
) -> None:
    found: list[Any] = []
    number = await held(session, found)
    session.subscribe("out", ALONE)
    with full_disk():
        session.publish("out", WORK, "alone")
        with session.transaction("together"):
            session.publish("out", WORK)
            session.commit([number])
        refused = await event(session, Answer, found)
        assert (refused.request, refused.error.code) == ("alone", Refusal.STORE_FAILED)
        assert not [event for event in found if isinstance(event, Delivered)]
    assert (await event(session, Answer, found)) == Answer("together")
    await event(session, Delivered, found)


async def test_one_that_finds_no_room_alone_is_refused_whole(session: BrokerSession) -> None:
    """Others would wait behind it for as long as the disk is full."""
    found: list[Any] = []
    number = await held(session, found)
    session.subscribe("out", ALONE, "sub")
    assert (await event(session, Answer, found)) == Answer("sub")
    with full_disk():
        with session.transaction("together"):
            session.publish("out", WORK)
            session.commit([number])
        refused = await event(session, Answer, found)
        assert (refused.request, refused.error.code) == ("together", Refusal.STORE_FAILED)
    again = await event(session, Delivered, found)
    assert (again.topic, again.redelivered) == ("in", True)
    session.commit([again.number], "later")
    assert (await event(session, Answer, found)) == Answer("later")
    assert not any(isinstance(each, Delivered) for each in found)


async def test_one_that_removes_waits_for_room_and_nothing_is_removed_before(
    tmp_path: Path, site: BrokerSite, session: BrokerSession
) -> None:
    """What it removes could not come back, so that it is not refused."""
    session.publish("in", WORK, "first")
    first = await event(session, Answer, [])
    with full_disk():
        with session.transaction("together"):
            session.publish("out", WORK)
            session.remove("in", first.smuid)
        with trio.fail_after(PATIENCE_S):
            while site.broker.store_failed is None:
                await trio.sleep(0.01)
        store = sqlite3.connect(tmp_path / "smqpd.db")
        assert store.execute("SELECT topic FROM message").fetchall() == [("in",)]
    assert (await event(session, Answer, [])) == Answer("together")
    assert store.execute("SELECT topic FROM message").fetchall() == [("out",)]
    store.close()


async def test_where_one_removes_what_is_not_there_nothing_of_it_happens(session: BrokerSession) -> None:
    session.publish("in", WORK, "first")
    first = await event(session, Answer, [])
    with pytest.raises(Refusal) as refused:
        together(session, (session.publish, "out", WORK), (session.remove, "out", first.smuid))
    assert refused.value.code == Refusal.NOT_FOUND
    assert [topic.name for topic in await session.topics() if topic.messages] == ["in"]


async def test_a_topic_with_an_at_sign_is_no_system_topic(tmp_path: Path, mock_clock: MockClock) -> None:
    async with virtual_site(tmp_path, system_messages_max=1) as site:
        ada = site.login("ada")
        await ada.publish(ada.session.system_topic, b"all that may wait there")
        await ada.publish("orders.a@b")
        ada.session.publish("orders.a@b", Message())
        with ada.session.transaction(1):
            ada.session.publish("orders.a@b", Message())
        with pytest.raises(Refusal, match="as much as may"), ada.session.transaction(2):
            ada.session.publish(ada.session.system_topic, Message())
        with pytest.raises(Refusal, match="as much as may"), ada.session.transaction(3):
            ada.session.publish("orders.a@b", Message(receipt="ALL"))
