"""Stored messages that cannot be read: they are set aside, said, and hold nobody up."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest
from trio.testing import MockClock

from daemon.hops.examine import examine
from daemon.store import quarantine
from daemon.store.backup import copy_store
from daemon.store.checksum import checksum
from daemon.store.quarantine import Quarantined
from daemon.store.store import Store
from daemon.store.tables.quarantine import BYTES_MAX, FORGET_OLDEST, MESSAGES_MAX
from tests.support.broker import virtual_site
from tests.support.operator import Operator


async def with_messages(directory: Path, *bodies: bytes, topic: str = "jobs", **headers: object) -> list[str]:
    """Have a site that stopped hold these messages; their Smuids."""
    async with virtual_site(directory) as site:
        await site.login("ada").subscribe("news")
        eva = site.login("eva")
        return [await eva.publish(topic, body, **headers) for body in bodies]


def change(directory: Path, sql: str, *values: object) -> None:
    with sqlite3.connect(directory / "smqpd.db") as store:
        assert store.execute(sql, values).rowcount >= 1


def flip_a_bit(directory: Path, body: bytes) -> None:
    """In the file itself, as a disk would."""
    path = directory / "smqpd.db"
    path.write_bytes(path.read_bytes().replace(body, bytes((body[0] ^ 0x10,)) + body[1:]))


def set_aside(directory: Path) -> list[quarantine.Quarantined]:
    found: list[Quarantined] = quarantine.read(directory / "smqpd.db", quarantine.quarantined)
    return found


FLIP = "UPDATE message SET wire = CAST(replace(wire, 'second', 'sEcond') AS BLOB) WHERE instr(wire, 'second')"
UNREADABLE = "UPDATE message SET wire = ?1, checksum = ?2 WHERE instr(wire, 'second')"


async def test_a_flipped_bit_in_a_body_is_not_delivered_and_the_next_message_is(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    smuids = await with_messages(tmp_path, b"first", b"the body", b"third", delivery="ONE")
    flip_a_bit(tmp_path, b"the body")
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("jobs")
        got = await ada.delivered(2)
        assert [one.stored.message.sections[0].body for one in got] == [b"first", b"third"]
        await ada.commit(*(one.number for one in got))
        assert site.broker.held == 0
    [one] = set_aside(tmp_path)
    assert (one.smuid, one.topic, one.account) == (smuids[1], "jobs", "eva:desk@a.example")
    assert "its checksum is wrong" in one.reason
    finals = {record.smuid: record.event for record in site.records() if record.final}
    assert finals == {smuids[0]: "committed", smuids[1]: "dropped", smuids[2]: "committed"}
    found = examine(tmp_path / "hops", smuids[1])
    assert "its checksum is wrong" in found.verdict
    assert "`smqpd quarantine`" in found.verdict
    assert f"{smuids[1]} to jobs cannot be read and was set aside" in caplog.text
    async with virtual_site(tmp_path) as site:
        assert site.broker.held == 0, "it does not come back with a restart"


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
@pytest.mark.parametrize("stated", [True, False], ids=["checksum", "none"])
async def test_bytes_that_are_no_message_are_set_aside(
    tmp_path: Path, mock_clock: MockClock, mode: str, stated: bool
) -> None:
    topic = "news" if mode == "ALL" else "jobs"
    await with_messages(tmp_path, b"first", b"second", b"third", topic=topic, delivery=mode)
    wire = b"Smuid: a.example/0123456789ab-1-2\r\nDepth: 2147483648\r\n\r\n"
    with sqlite3.connect(tmp_path / "smqpd.db") as store:
        [id] = store.execute("SELECT id FROM message WHERE instr(wire, 'second')").fetchone()
    change(tmp_path, UNREADABLE, wire, checksum(id, topic.encode(), wire) if stated else None)
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe(topic)
        got = await ada.delivered(2)
        assert [one.stored.message.sections[0].body for one in got] == [b"first", b"third"]
    [one] = set_aside(tmp_path)
    assert "2147483648" in one.reason
    assert quarantine.read(tmp_path / "smqpd.db", lambda e: quarantine.wire_of(e, one.smuid)) == wire


async def test_a_subscriber_with_a_credit_of_one_gets_the_next_message(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    await with_messages(tmp_path, b"second", b"third", delivery="ONE")
    change(tmp_path, FLIP)
    async with virtual_site(tmp_path) as site:
        ada = await site.login("ada").subscribe("jobs", credit=1)
        [got] = await ada.delivered()
        assert got.stored.message.sections[0].body == b"third"


async def test_who_waits_for_a_receipt_is_told(tmp_path: Path, mock_clock: MockClock) -> None:
    await with_messages(tmp_path, b"second", topic="news", receipt="ALL")
    change(tmp_path, FLIP)
    async with virtual_site(tmp_path) as site:
        await site.login("ada").subscribe("news")
        eva = site.login("eva")
        await eva.subscribe(eva.session.system_topic)
        [receipt] = await eva.delivered()
        assert receipt.stored.message.sections[0].body == b"0/1"


async def test_a_message_whose_last_delivery_failed_and_that_cannot_be_read_is_no_dead_letter(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    await with_messages(tmp_path, b"first", b"second", delivery="ONE")
    async with virtual_site(tmp_path, max_deliveries=1) as site:
        ada = await site.login("ada").subscribe("jobs")
        got = await ada.delivered(2)
        change(tmp_path, FLIP)
        site.broker._bodies._recent.clear()
        ada.session.give_back([one.number for one in got], "broken")
        await ada.subscribe("dead.jobs")
        [dead] = await ada.delivered()
        assert dead.stored.message.sections[0].body == b"first"
    assert len(set_aside(tmp_path)) == 1


async def test_what_is_browsed_leaves_it_out(tmp_path: Path, mock_clock: MockClock) -> None:
    await with_messages(tmp_path, b"first", b"second", b"third", delivery="ONE")
    change(tmp_path, FLIP)
    async with virtual_site(tmp_path) as site:
        shown = await site.login("ada").session.browse("jobs")
        assert [one.stored.message.sections[0].body for one in shown.held] == [b"first", b"third"]


async def test_a_row_that_is_gone_holds_nobody_up(tmp_path: Path, mock_clock: MockClock) -> None:
    await with_messages(tmp_path, b"first", b"second", b"third", delivery="ONE")
    async with virtual_site(tmp_path) as site:
        change(tmp_path, "DELETE FROM message WHERE instr(wire, 'second')")
        got = await (await site.login("ada").subscribe("jobs")).delivered(2)
        assert [one.stored.message.sections[0].body for one in got] == [b"first", b"third"]
    assert [r.reason for r in site.records() if r.event == "dropped"] == [
        "it cannot be read and was set aside: it is not in the store"
    ]


async def test_the_quarantine_is_bounded_and_the_oldest_go_first(
    tmp_path: Path,
    mock_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("daemon.store.tables.quarantine.QUARANTINE_MAX", (2, BYTES_MAX))
    smuids = await with_messages(tmp_path, b"second 1", b"second 2", b"second 3", b"last", delivery="ONE")
    change(tmp_path, FLIP)
    async with virtual_site(tmp_path) as site:
        await (await site.login("ada").subscribe("jobs", credit=1)).delivered()
    assert [one.smuid for one in set_aside(tmp_path)] == smuids[1:3]
    assert "1 of the oldest left the quarantine for good: it holds as much as it may" in caplog.messages


def test_its_bytes_are_bounded_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "smqpd.db")
    store.close()
    with sqlite3.connect(tmp_path / "smqpd.db") as opened:
        for number in range(3):
            row = (number, f"a/0123456789ab-1-{number}", "t", "a:b@c", number, "", bytes(400))
            opened.execute("INSERT INTO quarantine VALUES (?,?,?,?,?,?,?)", row)
        opened.execute(FORGET_OLDEST, (MESSAGES_MAX, 1_000))
    assert [one.smuid[-1] for one in set_aside(tmp_path)] == ["1", "2"]


async def test_a_backup_says_how_many_of_its_messages_cannot_be_read(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    await with_messages(tmp_path, b"first", b"second", delivery="ONE")
    change(tmp_path, FLIP)
    copy = copy_store(tmp_path / "smqpd.db", tmp_path / "copy.db", lambda done, total: None)
    assert (copy.messages, copy.unreadable) == (2, 1)


async def test_what_is_dropped_while_the_site_runs_is_gone(tmp_path: Path, mock_clock: MockClock) -> None:
    smuids = await with_messages(tmp_path, b"second 1", b"second 2", b"last", delivery="ONE")
    change(tmp_path, FLIP)
    async with virtual_site(tmp_path) as site:
        await (await site.login("ada").subscribe("jobs", credit=1)).delivered()
        assert await site.broker.reading.drop("a.example/0123456789ab-7-7") == 0
        assert await site.broker.reading.drop(smuids[0]) == 1
        assert [one.smuid for one in set_aside(tmp_path)] == [smuids[1]]
        assert await site.broker.reading.drop("") == 1
        assert set_aside(tmp_path) == []


class TestCommands:
    @pytest.fixture
    def operator(self, tmp_path: Path) -> Operator:
        (tmp_path / "smqpd.toml").write_text('[site]\nserver_name = "a.example"\n')
        (tmp_path / "state").mkdir()
        store = Store(tmp_path / "state" / "smqpd.db")
        store.close()
        with sqlite3.connect(tmp_path / "state" / "smqpd.db") as opened:
            for number in (1, 2):
                smuid = f"a.example/0123456789ab-1-{number}"
                row = (
                    number,
                    smuid,
                    "jobs",
                    "eva:desk@a.example",
                    number,
                    "bits\x1b[2J",
                    b"Depth: 9\r\n\r\n\xff",
                )
                opened.execute("INSERT INTO quarantine VALUES (?,?,?,?,?,?,?)", row)
        return Operator(tmp_path)

    async def test_they_list_dump_and_drop_where_no_daemon_runs(self, operator: Operator) -> None:
        _, shown, _ = await operator.command("quarantine", "list")
        assert "a.example/0123456789ab-1-2: bits\\x1b[2J" in shown
        [first, second] = await operator.asked("quarantine", "list")
        assert (first["smuid"], second["topic"], first["size"]) == ("a.example/0123456789ab-1-1", "jobs", 13)
        code, dumped, _ = await operator.command("quarantine", "dump", first["smuid"])
        assert (code, dumped.startswith("Depth: 9")) == (0, True)
        assert await operator.asked("quarantine", "drop", first["smuid"]) == {"dropped": 1}
        code, _, why = await operator.command("quarantine", "dump", first["smuid"])
        assert (code, "is not in the quarantine" in why) == (1, True)
        code, _, _ = await operator.command("quarantine", "drop", first["smuid"])
        assert code == 1
        assert await operator.asked("quarantine", "drop", "--all") == {"dropped": 1}
        assert await operator.asked("quarantine", "list") == []

    @pytest.mark.parametrize("words", [("drop",), ("drop", "a/0123456789ab-1-1", "--all"), ("dump", "what")])
    async def test_wrong_usage_is_said(self, operator: Operator, words: Iterable[str]) -> None:
        code, _, _ = await operator.command("quarantine", *words)
        assert code == 2
