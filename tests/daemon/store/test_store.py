"""What the store gives back, how it is brought up to date, and what it refuses."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlite_utils import Database

from daemon.store import schema
from daemon.store.schema import TooNewError
from daemon.store.store import Store
from routing import decisions as d
from routing.message import Message
from routing.options import SubscribeOptions
from routing.queue import GUARANTEED, ONE, RECEIPT, SEQUENCED, STATED
from routing.restore import NOT_YET, StoredMark
from routing.subscription import Subscription
from routing.targets import Topic
from tests.support.stored import (
    a_batch,
    a_mark,
    entry,
    query,
    restored,
    store_message,
    take,
    with_messages,
    write_batch,
)


def test_a_message_comes_back_as_it_was_stored(store: Store) -> None:
    flags = GUARANTEED | ONE | STATED | RECEIPT | SEQUENCED
    message = Message(receipt="ONE", sequence=7, account="eva:desk@a", cmuid="c1")
    write_batch(store, with_messages(entry(9, flags, 12.5), message=message, receipt_due=4))
    noted = restored(store)
    [(found, marks)] = noted.messages.values()
    assert (found.id, found.topic.name, found.origin, found.priority) == (9, "news", 1_009, 3)
    assert (found.size, found.flags, found.deadline) == (5, flags, 12.5)
    assert noted.besides[9] == {
        "publisher": "eva:desk@a",
        "cmuid": "c1",
        "sequence": 7,
        "receipt_due": 4,
        "receipt_mode": "ONE",
        "damage": "",
    }
    assert marks == []
    assert store.load([9, 10]).wires == {9: b"wire 9"}


def test_a_message_without_a_deadline_comes_back_without_one(store: Store) -> None:
    write_batch(store, with_messages(entry(1)))
    assert restored(store).messages[1][0].deadline == math.inf


def test_messages_come_back_in_the_order_of_their_ids_each_with_its_own_marks(store: Store) -> None:
    write_batch(store, with_messages(*(entry(number) for number in (3, 1, 2))))
    batch = a_batch()
    take(batch, d.MarkReceived(1, 50))
    take(batch, d.MarkDone(3, 50, True), d.MarkDone(3, 51, False))
    take(batch, d.MarkReturned(2, 0, 4))
    write_batch(store, batch)
    messages = restored(store).messages
    assert list(messages) == [1, 2, 3]
    assert messages[1][1] == [StoredMark(50, True, False, False, 0)]
    assert messages[2][1] == [StoredMark(0, False, False, False, 4)]
    assert messages[3][1] == [StoredMark(50, False, True, True, 0), StoredMark(51, False, True, False, 0)]


def test_a_return_undoes_what_was_received_and_keeps_the_count(store: Store) -> None:
    write_batch(store, with_messages(entry(1), entry(2)))
    batch = a_batch()
    take(batch, d.MarkReceived(1, 50), d.MarkReceived(2, 50))
    take(batch, d.MarkReturned(1, 0, 1))
    take(batch, d.MarkReturned(2, 50, 3))
    write_batch(store, batch)
    messages = restored(store).messages
    assert [mark.received for mark in messages[1][1]] == [False, False]
    assert messages[2][1] == [StoredMark(50, False, False, False, 3)]


def test_that_a_message_is_due_is_the_least_that_is_known_of_it(store: Store) -> None:
    write_batch(store, with_messages(*(entry(number) for number in (1, 2, 3, 4))))
    batch = a_batch()
    take(batch, *(d.MarkDue(number, 50) for number in (1, 2, 3)), d.MarkReturned(3, 50, 2))
    write_batch(store, batch)
    batch = a_batch()
    take(batch, d.MarkReceived(2, 50), d.MarkDone(4, 50, True))
    take(batch, *(d.MarkDue(number, 50) for number in (2, 3, 4)))
    write_batch(store, batch)
    marks = [mark for _, [mark] in restored(store).messages.values()]
    assert marks == [
        StoredMark(50, False, False, False, NOT_YET),
        StoredMark(50, True, False, False, 0),
        StoredMark(50, False, False, False, 2),
        StoredMark(50, False, True, True, NOT_YET),
    ]


def test_what_is_discarded_is_gone_with_its_marks(store: Store, path: Path) -> None:
    write_batch(store, with_messages(entry(1), entry(2)))
    batch = a_batch()
    take(batch, d.MarkReceived(1, 50))
    write_batch(store, batch)
    batch = with_messages(entry(3))
    take(batch, d.MarkReturned(3, 0, 1))
    for number in (1, 3):
        batch.end_message(entry(number))
    write_batch(store, batch)
    assert list(restored(store).messages) == [2]
    assert query(path, "SELECT * FROM mark") == []


def test_a_receipt_that_was_told_is_not_owed_any_more(store: Store) -> None:
    write_batch(store, with_messages(entry(1, GUARANTEED | RECEIPT), receipt_due=1))
    batch = a_batch()
    take(batch, d.MarkReceipted(1))
    write_batch(store, batch)
    assert restored(store).messages[1][0].flags == GUARANTEED


def test_subscriptions_and_topics_come_back_as_they_last_were(store: Store) -> None:
    topic = Topic("news", "a.example")
    options = SubscribeOptions(credit=7, accepts="ONE", ordered=True, lock_s=2.5, name="second")
    subscription = Subscription(9, topic, "ada:desk@a", SubscribeOptions(name="second"), 4, 100.0)
    ended = Subscription(10, topic, "bob:desk@a", SubscribeOptions(), 4, 100.0)
    batch = a_batch()
    take(batch, d.StoreSubscription(subscription))
    take(batch, d.StoreSubscription(ended))
    subscription.set(options)
    take(batch, d.StoreSubscription(subscription))
    take(batch, d.DiscardSubscription(10))
    take(batch, d.StoreTopic(topic))
    topic.mode, topic.timeout_s = "ONE", math.inf
    take(batch, d.StoreTopic(topic))
    write_batch(store, batch)
    noted = restored(store, now=100.0)
    assert noted.subscriptions == [(9, "news", "ada:desk@a", options, 4, 100.0, None)]
    assert noted.topics == [("news", "ONE", math.inf)]


def test_marks_of_subscriptions_that_have_ended_go_at_the_next_start_but_for_owed_receipts(
    path: Path,
) -> None:
    store = Store(path)
    owed = with_messages(entry(1), entry(2, GUARANTEED | RECEIPT), receipt_due=2)
    take(owed, d.MarkDone(1, 50, True), d.MarkDone(2, 50, True))
    take(owed, d.MarkReturned(1, 0, 3))
    write_batch(store, owed)
    store.close()
    store = Store(path)
    messages = restored(store).messages
    assert [mark.subscription_id for mark in messages[1][1]] == [0]
    assert [mark.subscription_id for mark in messages[2][1]] == [50]
    store.close()


def test_what_was_not_committed_did_not_happen(path: Path) -> None:
    store = Store(path)
    store.write(with_messages(entry(1)), 1, a_mark())
    store.roll_back()
    store.roll_back()
    write_batch(store, with_messages(entry(2)), 2)
    store.write(with_messages(entry(3)), 3, a_mark())
    store.close()
    store = Store(path)
    assert list(restored(store).messages) == [2]
    assert store.site.last_record == 2
    store.close()


def test_each_start_has_a_greater_boot_number_also_after_a_kill(path: Path) -> None:
    boots = []
    for _ in range(3):
        store = Store(path)
        boots.append(store.site.boot)
        store.close()
    code = (
        "import os, signal, sys; from pathlib import Path; from daemon.store.store import Store;"
        "print(Store(Path(sys.argv[1])).site.boot, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        cwd=Path(schema.__file__).parents[2],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    boots.append(int(killed.stdout))
    store = Store(path)
    assert [*boots, store.site.boot] == [1, 2, 3, 4, 5]
    store.close()


def test_only_its_owner_may_read_it(store: Store, path: Path) -> None:
    write_batch(store, with_messages(entry(1)))
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert {file.stat().st_uid for file in path.parent.iterdir()} == {os.getuid()}


def test_a_store_that_is_too_new_is_refused_and_left_as_it_was(path: Path) -> None:
    Store(path).close()
    query(path, "UPDATE _sqlite_migrations SET name = 'from-tomorrow' WHERE name = 'second'")
    before = path.read_bytes()
    with pytest.raises(TooNewError, match="from-tomorrow"):
        Store(path)
    assert path.read_bytes() == before


def test_only_a_store_that_has_to_be_changed_is_opened_with_the_library_for_it(path: Path) -> None:
    code = "import sys; from daemon.store.store import *; Store(Path(sys.argv[1])); print(*sys.modules)"
    loaded = [
        subprocess.run(
            [sys.executable, "-c", code, path],
            capture_output=True,
            text=True,
            cwd=Path(schema.__file__).parents[2],
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert ["sqlite_utils" in modules for modules in loaded] == [True, False]


def test_a_migration_that_is_interrupted_has_not_happened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(path).close()
    interrupted = True

    def from_tomorrow(db: Database) -> None:
        db.execute("CREATE TABLE later (id INTEGER)")
        db.execute("INSERT INTO later VALUES (1)")
        if interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(schema, "STEPS", [*schema.STEPS, from_tomorrow])
    with pytest.raises(KeyboardInterrupt):
        Store(path)
    assert query(path, "SELECT name FROM sqlite_master WHERE name = 'later'") == []
    interrupted = False
    Store(path).close()
    assert query(path, "SELECT * FROM later") == [(1,)]


def test_what_is_discarded_makes_room_for_others(store: Store, path: Path) -> None:
    def fill(first: int) -> None:
        batch = a_batch()
        for number in range(first, first + 500):
            store_message(batch, entry(number), bytes(4_000), Message())
        write_batch(store, batch)
        batch = a_batch()
        for number in range(first, first + 500):
            batch.end_message(entry(number))
        batch.forget(publications_until=0.0, removals_from=0.0)
        write_batch(store, batch)
        store.checkpoint()
        assert store.empty_wal()
        assert store.wal_bytes() == 0

    fill(1)
    size = store.size_bytes
    for round_ in range(2, 6):
        fill(round_ * 1_000)
    assert store.size_bytes <= size
    assert path.stat().st_size < 5_000_000


def test_while_a_backup_reads_the_write_ahead_log_is_not_emptied_and_takes_more(
    store: Store, path: Path
) -> None:
    write_batch(store, with_messages(entry(1)))
    backup = sqlite3.connect(path, isolation_level=None)
    backup.execute("BEGIN")
    assert backup.execute("SELECT count(*) FROM message").fetchone() == (1,)
    write_batch(store, with_messages(entry(2)))
    store.checkpoint()
    assert not store.empty_wal()
    write_batch(store, with_messages(entry(3)))
    assert backup.execute("SELECT count(*) FROM message").fetchone() == (1,)
    backup.close()
    store.checkpoint()
    assert store.empty_wal()
    assert list(restored(store).messages) == [1, 2, 3]


def test_the_write_ahead_log_keeps_its_length_and_is_written_over(store: Store, path: Path) -> None:
    write_batch(store, with_messages(*map(entry, range(1, 200))))
    length = store.wal_bytes()
    store.checkpoint()
    assert store.move_rest()
    assert store.logged_bytes == 0
    write_batch(store, with_messages(entry(200)))
    assert 0 < store.logged_bytes < length == store.wal_bytes()
    assert list(restored(Store(path)).messages) == list(range(1, 201))


def test_what_a_backup_still_reads_is_not_written_over(store: Store, path: Path) -> None:
    write_batch(store, with_messages(entry(1)))
    backup = sqlite3.connect(path, isolation_level=None)
    backup.execute("BEGIN")
    assert backup.execute("SELECT count(*) FROM message").fetchone() == (1,)
    write_batch(store, with_messages(entry(2)))
    store.checkpoint()
    assert not store.move_rest()
    assert store.logged_bytes > 0
    write_batch(store, with_messages(entry(3)))
    assert backup.execute("SELECT count(*) FROM message").fetchone() == (1,)
    backup.close()
    assert store.move_rest()
    assert list(restored(store).messages) == [1, 2, 3]


def test_the_size_of_the_store_is_at_most_some_messages_old(store: Store) -> None:
    empty = store.size_bytes
    for number in range(1, 100):
        write_batch(store, with_messages(entry(number)))
    assert store.size_bytes > empty
    before = store.size_bytes
    batch = a_batch()
    store_message(batch, entry(100), bytes(1_000_000), Message())
    write_batch(store, batch)
    assert store.size_bytes > before + 900_000
