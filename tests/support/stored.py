"""What is written to a store, and what it gives back."""

import math
import sqlite3
from pathlib import Path
from typing import Any

from daemon.store.batch import Batch
from daemon.store.changes import Surroundings
from daemon.store.store import Store
from routing import decisions as d
from routing.message import Message
from routing.queue import GUARANTEED, Entry
from routing.restore import StoredMark
from routing.targets import Topic


class Noted:
    """Takes what a store restores, and keeps it to look at."""

    def __init__(self) -> None:
        self.topics: list[tuple[object, ...]] = []
        self.annotations: list[tuple[object, ...]] = []
        self.subscriptions: list[tuple[object, ...]] = []
        self.publications: list[tuple[object, ...]] = []
        self.messages: dict[int, tuple[Entry, list[StoredMark]]] = {}
        self.besides: dict[int, dict[str, object]] = {}
        self.ended = False

    def topic(self, *values: object) -> None:
        self.topics.append(values)

    def annotation(self, *values: object) -> None:
        self.annotations.append(values)

    def subscription(self, *values: object) -> None:
        self.subscriptions.append(values)

    def publication(self, *values: object) -> None:
        self.publications.append(values)

    def topic_of(self, name: str) -> Topic:
        return Topic(name, "a.example")

    def message(self, entry: Entry, marks: list[StoredMark], **besides: object) -> None:
        self.messages[entry.id] = (entry, marks)
        self.besides[entry.id] = besides

    def end(self) -> None:
        self.ended = True


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What another program would see."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(sql).fetchall()
    finally:
        connection.close()


def entry(number: int, flags: int = GUARANTEED, deadline: float = math.inf) -> Entry:
    return Entry(number, Topic("news", "a.example"), 1_000 + number, 3, 5, flags, 1, deadline)


def a_mark(now: float = 0.0) -> tuple[float, float, str, float]:
    """Of the clock of a site."""
    return now, 0.0, "", 0.0


def a_batch(now: float = 0.0, stopped_s: float = 0.0) -> Batch:
    return Batch(Surroundings("a.example", lambda: now, lambda: stopped_s, lambda: 0, {}))


def write_batch(store: Store, batch: Batch, record: int = 0, now: float = 0.0) -> None:
    store.write(batch, record, a_mark(now))
    store.commit()


def with_messages(*entries: Entry, message: Message | None = None, receipt_due: int = 0) -> Batch:
    batch = a_batch()
    for each in entries:
        store_message(
            batch, each, b"wire %d" % each.id, message or Message(account="eva:desk@a"), receipt_due
        )
    return batch


def store_message(batch: Batch, entry: Entry, wire: bytes, message: Message, receipt_due: int = 0) -> None:
    batch.begin_message(d.StoreMessage(entry, message, receipt_due), wire)


def take(batch: Batch, *decisions: Any) -> Batch:
    for decision in decisions:
        batch.handlers[type(decision)](decision)
    return batch


def restored(store: Store, now: float = 0.0) -> Noted:
    noted = Noted()
    store.restore_into(noted, now, 600.0)  # type: ignore[arg-type]  # the same methods
    assert noted.ended
    return noted
