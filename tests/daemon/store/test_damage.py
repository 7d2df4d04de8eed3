"""A store in which bits have changed: what is damaged is set aside or mended, and told; all else starts."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.broker import reading
from daemon.broker.router_settings import router_settings
from daemon.settings import Settings, SiteSettings
from daemon.store import quarantine, table
from daemon.store.backup import copy_store
from daemon.store.store import Store
from routing.queue import RECEIPT
from routing.router import Router
from tests.daemon.store.earlier import make_earlier_store
from tests.support.broker import VirtualSite, virtual_site
from tests.support.notary import said, wanted
from tests.support.operator import Operator

NOT_UTF_8 = "CAST(x'fe61' AS TEXT)"
BLOB = "x'0001'"
DAMAGES = {
    "TEXT": ("NULL", BLOB, NOT_UTF_8, "'x\ty'"),
    "INTEGER": ("NULL", BLOB, NOT_UTF_8, "'x'", "9223372036854775807", "-9223372036854775808", "0.5"),
    "REAL": ("NULL", BLOB, NOT_UTF_8, "'x'", "9e999", "-9e999"),
    "BLOB": (),
    "": ("NULL", BLOB, NOT_UTF_8, "'x'", "9223372036854775807", "-1", "0.5"),
}
JSON_DAMAGES = (
    "NULL",
    BLOB,
    NOT_UTF_8,
    "'x'",
    "'[[1]]'",
    """'{"b.example":[1e300,1,1,1,[]],"1":[1e300,0,true]}'""",
    """'{"b.example":[1,9223372036854775808,1,1,[]],"1":[9223372036854775808,0,true]}'""",
)
JSON = {("copy", "forwards"), ("receipt", "children"), ("subscription", "allowed_since")}

# what may stand in a column and is not to be told from what stood there
ANY_TEXT = {
    ("subscription", "name"),
    ("message", "cmuid"),
    ("publication", "publisher"),
    ("publication", "cmuid"),
    ("receipt", "publisher"),
    ("receipt", "cmuid"),
    ("receipt", "parent"),
    ("answer", "peer"),
    ("interest", "peer"),
}
NULL = {
    ("topic", "mode"),
    ("topic", "timeout_s"),
    ("subscription", "lock_s"),
    ("subscription", "allowed_since"),
    ("message", "deadline"),
    ("copy", "destinations"),
    ("receipt", "deadline"),
}
UNBOUNDED = {("topic", "timeout_s"), ("subscription", "lock_s")}

READ_AT_THE_START = (
    "topic",
    "subscription",
    "mark",
    "publication",
    "copy",
    "removal",
    "interest",
    "receipt",
    "answer",
    "news",
    "wants",
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("intact")
    make_earlier_store(directory)
    Store(directory / "smqpd.db").close()  # brought up to date
    (wants,) = wanted("weather")
    news = said("b.example", 1, "a.example", wants=[wants])
    blobs = [f"x'{blob.hex()}'" for blob in (news.statement, news.certificate, news.signature)]
    execute(
        directory,
        "INSERT INTO news (site, said_at, source, statement, certificate, signature) VALUES"
        f" ('b.example', 1.0, 'b.example', {', '.join(blobs)})",
        "INSERT INTO wants (site, bucket, leaves) VALUES"
        f" ('b.example', {wants.index}, x'{wants.data.hex()}')",
    )
    return directory


@pytest.fixture
def directory(intact: Path, tmp_path: Path) -> Path:
    """Of a site that holds every kind of stored thing."""
    shutil.copy(intact / "smqpd.db", tmp_path)
    return tmp_path


def execute(directory: Path, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last one."""
    store = sqlite3.connect(directory / "smqpd.db", isolation_level=None)
    store.text_factory = bytes
    store.execute("PRAGMA synchronous = OFF")
    store.execute("PRAGMA writable_schema = ON")
    try:
        return [store.execute(statement).fetchall() for statement in statements][-1]
    finally:
        store.close()


def damage(directory: Path, table: str, column: str, value: str, where: str = "") -> bool:
    """Change a column of one row as no statement of smqpd could; False where SQLite cannot hold the value."""
    keys = [row[1].decode() for row in execute(directory, f"PRAGMA table_info({table})") if row[5]]
    [(schema,)] = execute(directory, f"SELECT sql FROM sqlite_master WHERE name = '{table}'")
    is_rowid = b"WITHOUT ROWID" not in schema
    if column in keys and (is_rowid or value == "NULL"):
        return False
    sql = schema.decode()
    lax = sql.replace(" NOT NULL", "")
    key = ", ".join(keys)
    execute(directory, f"UPDATE sqlite_master SET sql = '{lax}' WHERE name = '{table}'")
    execute(
        directory,
        f"UPDATE {table} SET {column} = {value} WHERE ({key}) IN"
        f" (SELECT {key} FROM {table} {where or f'ORDER BY {key}'} LIMIT 1)",
        f"UPDATE sqlite_master SET sql = '{sql}' WHERE name = '{table}'",
    )
    return True


def cases(directory: Path, table: str) -> Iterator[tuple[str, str]]:
    """Each column with each damage."""
    for row in execute(directory, f"PRAGMA table_info({table})"):
        column, kind = row[1].decode(), row[2].decode()
        for value in JSON_DAMAGES if (table, column) in JSON else DAMAGES[kind]:
            yield column, value


def is_sound(table: str, column: str, value: str) -> bool:
    """Whether what stands there may stand there."""
    place = (table, column)
    return (
        (value == "NULL" and place in NULL)
        or (value == "'x\ty'" and place in ANY_TEXT)
        or (value == "9e999" and place in UNBOUNDED)
        or (value == "9223372036854775807" and place in WIDE)
        or (value == "-9e999" and place == ("publication", "at"))  # long ago
    )


WIDE = {
    (table, column)
    for table, column in (
        ("subscription", "since"),
        ("mark", "message"),
        ("mark", "subscription"),
        ("message", "sequence"),
        ("receipt", "query"),
        ("answer", "query"),
    )
}


def damaged_at_a_start(directory: Path) -> int:
    """Rows that a start finds damaged which ends before it carries out anything."""
    store = Store(directory / "smqpd.db")
    settings = router_settings(Settings(site=SiteSettings(server_name="a.example")))
    router = Router("a.example", store.site.boot, settings, lambda: 1_795_000_000_000)
    store.restore_into(router.restore(100.0), 100.0, 600.0)
    store.close()
    return store.damaged


def held(site: VirtualSite) -> set[int]:
    return set(site.broker._router._state.entries)


@pytest.mark.parametrize("table", READ_AT_THE_START)
async def test_a_damaged_row_is_told_and_mended_or_left_out_and_all_else_starts(
    table: str, intact: Path, tmp_path: Path, mock_clock: MockClock
) -> None:
    messages = {id for (id,) in execute(intact, "SELECT id FROM message")}
    for number, (column, value) in enumerate(cases(intact, table)):
        directory = tmp_path / str(number)
        directory.mkdir()
        shutil.copy(intact / "smqpd.db", directory)
        if not damage(directory, table, column, value):
            continue
        case = f"{table}.{column} = {value}"
        async with virtual_site(directory) as site:
            assert bool(site.broker.damaged) is not is_sound(table, column, value), case
            assert messages <= held(site) or table == "subscription", case
            assert await site.login("eva").publish("jobs", b"more", delivery="ONE", cmuid="more"), case
            assert not site.broker.mishaps.count, case
        if value == NOT_UTF_8:
            async with virtual_site(directory) as site:
                assert not site.broker.damaged, case


async def test_a_damaged_message_is_set_aside_and_all_others_are_delivered(
    intact: Path, tmp_path: Path, mock_clock: MockClock
) -> None:
    messages = {id for (id,) in execute(intact, "SELECT id FROM message")}
    [(first,)] = execute(intact, "SELECT min(id) FROM message WHERE topic = 'jobs'")
    waits = "WHERE topic = 'jobs'"
    for number, (column, value) in enumerate(cases(intact, "message")):
        if column in ("wire", "checksum") or is_sound("message", column, value):
            continue  # read when it is delivered
        directory = tmp_path / str(number)
        directory.mkdir()
        shutil.copy(intact / "smqpd.db", directory)
        if not damage(directory, "message", column, value, waits):
            continue
        case = f"{column} = {value}"
        async with virtual_site(directory) as site:
            assert site.broker.damaged == 1, case
            assert held(site) == messages - {first}, case
            assert not site.broker.mishaps.count, case
        [_, one] = quarantine.read(directory / "smqpd.db", quarantine.quarantined)
        assert (one.smuid, one.reason) == (
            "a.example/01a1ee5661e8-1-3",
            f"damaged in the store: {column}",
        ), case
        [end] = [r for r in site.records() if r.smuid == one.smuid and r.final]
        assert end.event == "dropped", case
        if value == NOT_UTF_8:
            async with virtual_site(directory) as site:
                assert (site.broker.damaged, held(site)) == (0, messages - {first}), case


async def test_a_message_on_a_system_topic_whose_publisher_is_damaged_is_set_aside(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    bob = "bob:desk@a.example"
    async with virtual_site(tmp_path) as site:
        for body in (b"damaged", b"whole"):
            await site.login("ada").publish(bob, body)
    assert damage(tmp_path, "message", "publisher", NOT_UTF_8)
    async with virtual_site(tmp_path) as site:
        [got] = await (await site.login("bob").subscribe(bob)).delivered()
        assert got.stored.message.sections[0].body == b"whole"
        [one] = site.store.quarantined()
        assert (one.topic, one.reason) == (bob, "damaged in the store: publisher")


@pytest.mark.parametrize("column", ["wire", "checksum"])
async def test_a_body_or_a_checksum_of_a_wrong_kind_is_found_when_it_is_read(
    column: str, intact: Path, tmp_path: Path, mock_clock: MockClock
) -> None:
    for number, value in enumerate(("NULL", "'x'", NOT_UTF_8, "9e999", "7")):
        directory = tmp_path / str(number)
        directory.mkdir()
        shutil.copy(intact / "smqpd.db", directory)
        damage(directory, "message", column, value, "WHERE topic = 'jobs'")
        without_checksum = (column, value) == ("checksum", "NULL")  # as of an earlier version
        if value != "NULL":  # that is seen by SQLite itself
            copied = copy_store(directory / "smqpd.db", tmp_path / f"{number}.db", lambda done, total: None)
            assert copied.unreadable == 1
        async with virtual_site(directory) as site:
            bob = await site.login("bob").subscribe("jobs", accepts="ONE")
            got = await bob.delivered(5 if without_checksum else 4)
            bodies = [one.stored.message.sections[0].body for one in got]
            assert bodies[0] == b"received"
            assert (b"failed once" in bodies) is without_checksum


async def test_a_message_that_may_be_another_sites_already_is_set_aside(
    directory: Path, mock_clock: MockClock
) -> None:
    assert damage(directory, "copy", "forwards", "'{'", "WHERE depth = -1")
    async with virtual_site(directory) as site:
        assert "far.jobs" not in site.broker._router._state.topics
    [_, one] = quarantine.read(directory / "smqpd.db", quarantine.quarantined)
    assert (one.topic, one.reason) == ("far.jobs", "damaged in the store: which site has it")


async def test_nobody_is_told_a_receipt_that_is_damaged(directory: Path, mock_clock: MockClock) -> None:
    assert damage(directory, "receipt", "have", "7", "WHERE topic = 'news' AND parent = ''")
    assert damage(directory, "receipt", "children", "'{'", "WHERE topic = 'news' AND parent = ''")
    async with virtual_site(directory) as site:
        assert len(held(site)) == 11
    assert "receipt" not in [record.event for record in site.records()]
    async with virtual_site(directory) as site:
        assert not site.broker.damaged
    assert "receipt" not in [record.event for record in site.records()]


def test_a_start_that_a_kill_ends_leaves_nobody_to_be_told_a_damaged_receipt(directory: Path) -> None:
    where = "WHERE topic = 'news' AND parent = ''"
    owed = (
        f"SELECT count(*) FROM message WHERE id IN (SELECT id FROM receipt {where}) AND flags & {RECEIPT}",
        f"SELECT count(*) FROM message {where.split(' AND')[0]} AND flags & {RECEIPT}",
    )
    assert execute(directory, owed[0]) == [(1,)]
    [(before,)] = execute(directory, owed[1])
    assert damage(directory, "receipt", "children", "'{'", where)
    assert [damaged_at_a_start(directory) for _ in range(2)] == [1, 0]
    assert execute(directory, owed[1]) == [(before - 1,)]


async def test_of_a_message_with_two_damaged_columns_each_is_seen(
    directory: Path, mock_clock: MockClock
) -> None:
    waits = "WHERE topic = 'jobs'"
    for column, value in (("flags", "1073741823"), ("publisher", "'nobody'"), ("priority", "'x'")):
        assert damage(directory, "message", column, value, waits)
    async with virtual_site(directory) as site:
        assert (len(held(site)), site.broker.mishaps.count) == (10, 0)
    [_, one] = quarantine.read(directory / "smqpd.db", quarantine.quarantined)
    assert one.reason == "damaged in the store: priority, flags, publisher"


def test_what_is_known_of_a_copy_whose_message_is_gone_is_deleted_where_it_is_damaged(
    directory: Path,
) -> None:
    execute(directory, "INSERT INTO copy VALUES (7, 0, '', '{', NULL)")
    for found in (1, 0):
        assert damaged_at_a_start(directory) == found


async def test_a_subscription_whose_settings_are_damaged_gets_what_is_due_to_it(
    directory: Path, mock_clock: MockClock
) -> None:
    for column in ("credit", "accepts", "ordered", "lock_s", "since", "used_at"):
        assert damage(directory, "subscription", column, NOT_UTF_8, "WHERE name = 'second'")
    async with virtual_site(directory) as site:
        ada = await site.login("ada").subscribe("news", name="second", accepts="ALL")
        assert len(await ada.delivered(3)) == 3


async def test_a_mark_whose_count_is_damaged_still_says_that_it_was_done(
    directory: Path, mock_clock: MockClock
) -> None:
    assert damage(directory, "mark", "attempts", NOT_UTF_8, "WHERE done = 1")
    async with virtual_site(directory) as site:
        bob = await site.login("bob").subscribe("news")
        bodies = [one.stored.message.sections[0].body for one in await bob.delivered(2)]
        assert b"here only" not in bodies


def test_what_is_remembered_of_a_copy_that_was_here_is_not_believed_where_it_is_damaged(
    intact: Path, tmp_path: Path
) -> None:
    smuid = "b.example/0123456789ab-1-1"
    for number, (column, value) in enumerate(cases(intact, "seen")):
        directory = tmp_path / str(number)
        directory.mkdir()
        shutil.copy(intact / "smqpd.db", directory)
        if column == "smuid" or not damage(directory, "seen", column, value):
            continue
        store = Store(directory / "smqpd.db")
        wide = (column, value) == ("entry", "9223372036854775807")
        assert (store.recall(smuid) is None, store.damaged) == ((False, 0) if wide else (True, 1)), value
        store.close()


@pytest.mark.parametrize(
    "column", ["boot", "last_record", "site_time", "wall_time", "machine_boot", "machine_time"]
)
def test_without_the_row_about_itself_no_site_starts(column: str, directory: Path) -> None:
    assert damage(directory, "site", column, NOT_UTF_8)
    before = execute(directory, "SELECT * FROM site")
    with pytest.raises(sqlite3.DatabaseError, match=f"the site itself is damaged: {column}"):
        Store(directory / "smqpd.db")
    assert execute(directory, "SELECT * FROM site") == before


async def test_the_quarantine_shows_what_is_damaged(
    directory: Path, tmp_path_factory: pytest.TempPathFactory, mock_clock: MockClock
) -> None:
    waits = "WHERE topic = 'jobs'"
    assert damage(directory, "message", "topic", "CAST(x'6a6f62fe' AS TEXT)", waits)
    assert damage(directory, "message", "publisher", "NULL", waits)
    async with virtual_site(directory):
        pass
    assert damage(directory, "quarantine", "account", NOT_UTF_8)
    assert damage(directory, "quarantine", "at_us", BLOB)
    assert damage(directory, "quarantine", "wire", "NULL")
    root = tmp_path_factory.mktemp("site")
    operator = Operator(root)
    (root / "smqpd.toml").write_text('[site]\nserver_name = "a.example"\n')
    (root / "state").mkdir()
    shutil.copy(directory / "smqpd.db", root / "state")
    listed = await operator.asked("quarantine", "list")
    assert {(one["topic"], one["account"]) for one in listed} == {
        ("job\\xfe", "\\xfea"),
        ("jobs", "eva:desk@a.example"),
        ("jobs", ""),
    }
    code, shown, _ = await operator.command("quarantine", "list")
    assert (code, "job\\xfe" in shown) == (0, True)
    for one in listed:
        code, dumped, _ = await operator.command("quarantine", "dump", one["smuid"])
        assert (code, bool(dumped)) == (0, one["topic"] == "jobs")


async def test_many_damaged_rows_are_told_in_a_few_lines_and_counted(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for _ in range(100):
            await ada.publish("jobs", delivery="ONE")
    execute(tmp_path, "UPDATE message SET priority = 'x' WHERE topic = 'jobs'")
    caplog.clear()
    async with virtual_site(tmp_path) as site:
        assert site.broker.damaged == 100
        told = [record.getMessage() for record in caplog.records]
        assert sum("a row of the store is damaged" in line for line in told) == table.TOLD_MAX
        assert "100 rows of the store are damaged: 100 in message" in told
        assert len(told) < 2 * table.TOLD_MAX


async def test_many_messages_that_cannot_be_read_are_told_in_a_few_lines(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with virtual_site(tmp_path) as site:
        ada = site.login("ada")
        for _ in range(100):
            await ada.publish("jobs", delivery="ONE")
    execute(tmp_path, "UPDATE message SET checksum = checksum + 1")
    caplog.clear()
    async with virtual_site(tmp_path) as site:
        await site.login("ada").subscribe("jobs")
        while len(site.store.quarantined()) < 100:  # they are read in a thread
            await wait_all_tasks_blocked(0.01)
        assert site.broker.held == 0
        told = [record.getMessage() for record in caplog.records]
        assert sum("cannot be read and was set aside" in line for line in told) == reading.TOLD_MAX
