"""A store that an earlier version wrote: it is opened with all that it held.

`f168fa2.sql` is what a site left that was killed: the broker of that commit, with two peers, on virtual time.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemon.store import quarantine
from daemon.store.store import Store
from routing.peering.copies import PeerRules
from routing.peering.decisions import Send, TellReceipt, TellRemoved
from tests.support.broker import VirtualSite, virtual_site

EARLIER = Path(__file__).parent / "f168fa2.sql"
PEERS = {"b.example": PeerRules(), "c.example": PeerRules()}
TABLES = ("topic", "subscription", "message", "mark", "publication", "quarantine")
TABLES_OF_LINKS = ("copy", "seen", "removal", "interest", "receipt", "answer")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a site with that store."""
    store = sqlite3.connect(tmp_path / "smqpd.db")
    store.executescript(EARLIER.read_text())
    store.close()
    return tmp_path


def rows(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    store = sqlite3.connect(directory / "smqpd.db")
    try:
        return {
            table: store.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES + TABLES_OF_LINKS
        }
    finally:
        store.close()


def body(delivered: Any) -> str:
    text: str = delivered.stored.message.sections[0].body.decode()
    return text


def test_every_kind_of_stored_thing_is_in_it_and_stays(directory: Path) -> None:
    before = rows(directory)
    assert all(before.values())
    Store(directory / "smqpd.db").close()
    after = rows(directory)
    for table, rows_before in before.items():
        columns = len(rows_before[0])
        assert [row[:columns] for row in after[table]] == rows_before
        assert not any(added for row in after[table] for added in row[columns:])


def test_a_new_store_has_the_tables_that_it_has(directory: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> list[tuple[str, ...]]:
        store = sqlite3.connect(path)
        try:
            return store.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        finally:
            store.close()

    Store(tmp_path / "new.db").close()
    Store(directory / "smqpd.db").close()
    for path in (directory / "smqpd.db", tmp_path / "new.db"):
        assert tables(path) == tables(tmp_path / "new.db")


async def test_who_subscribed_gets_what_was_due(directory: Path, mock_clock: MockClock) -> None:
    async with virtual_site(directory) as site:
        ada = await site.login("ada").subscribe("news", name="second", accepts="ALL", ordered=True)
        got = await ada.delivered(3)
        assert [(body(one), one.received) for one in got] == [
            ("Straße\n", True),
            ("here only", False),
            ("from b 1", False),
        ]
        bob = site.login("bob")
        await bob.subscribe("news")
        assert [body(one) for one in await bob.delivered(2)] == ["Straße\n", "from b 1"]
        await bob.subscribe("jobs", accepts="ONE")
        jobs = await bob.delivered(5)
        assert [(body(one), one.attempt, one.received) for one in jobs] == [
            ("received", 1, True),
            ("failed once", 2, False),
            ("waits", 1, False),
            ("from b 2", 1, False),
            ("last", 1, False),
        ]
        late = await site.login("eva", "late").subscribe("state")
        assert [body(one) for one in await late.delivered()] == ["stays"]
    assert not site.broker.mishaps.count


async def test_topics_cmuids_and_the_quarantine_are_as_they_were(
    directory: Path, mock_clock: MockClock
) -> None:
    async with virtual_site(directory) as site:
        eva = site.login("eva")
        smuid = await eva.publish("jobs", b"again", cmuid="j-1", delivery="ONE")
        assert smuid == "a.example/01a1ee5661e8-1-3"
        topics = site.broker._router._state.topics
        assert (topics["orders"].mode, topics["state"].timeout_s) == ("ONE", float("inf"))
        [one] = quarantine.read(directory / "smqpd.db", quarantine.quarantined)
        assert (one.topic, one.account) == ("jobs", "eva:desk@a.example")


async def test_peers_get_what_was_on_its_way_and_are_told_what_they_asked(
    directory: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with virtual_site(directory) as site:
        told = await told_to_peers(site)
        seen = site.broker._router.federation.removing.entry_id("b.example/0123456789ab-1-3")
    assert seen == 1_099_511_627_789
    sent = {(d.peer, d.copy.smuid, d.depth, d.attempt) for d in told if isinstance(d, Send)}
    assert sent == {
        ("b.example", "a.example/01a1ee5661e8-1-1", 1, 2),
        ("b.example", "a.example/01a1ee5661e8-1-8", -1, 2),
    }
    answers = {(d.peer, d.query, d.due, d.have, d.closed) for d in told if isinstance(d, TellReceipt)}
    assert answers == {("b.example", 78, 0, 0, True), ("b.example", 77, 2, 0, False)}
    removed = {(d.peer, d.smuid, d.topic) for d in told if isinstance(d, TellRemoved)}
    assert removed == {
        (peer, smuid, topic)
        for peer in PEERS
        for smuid, topic in (
            ("a.example/01a1ee5661e8-1-9", "weather"),
            ("c.example/0123456789ab-1-9", "state"),
        )
    }
    distances = site.broker.door.outlook.distances
    assert distances(("ONE", "far.jobs")) == {"b.example": 1}
    assert distances(("ALL", "news")) == {"b.example": 0}


async def test_questions_that_followed_each_other_are_all_repeated(
    directory: Path, mock_clock: MockClock
) -> None:
    store = sqlite3.connect(directory / "smqpd.db")
    forwards = '{"b.example": [2, 7, 1, 1, [4, 6]]}'
    assert store.execute("UPDATE copy SET forwards = ? WHERE depth = -1", (forwards,)).rowcount == 1
    store.commit()
    store.close()
    async with virtual_site(directory) as site:
        told = await told_to_peers(site)
    [again] = [d for d in told if isinstance(d, Send) and d.depth == 2]
    assert (again.query, again.earlier, again.destinations) == (7, (4, 6), ())


async def told_to_peers(site: VirtualSite) -> list[Any]:
    """The decisions for peers, once the links are up."""
    told: list[Any] = []
    for kind in (Send, TellReceipt, TellRemoved):
        site.broker._executor._releases[kind] = told.append
    site.broker.door.set_peers(PEERS)
    for peer in PEERS:
        site.broker.door.link_up(peer)
    await trio.testing.wait_all_tasks_blocked()
    return told
