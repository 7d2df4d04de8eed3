"""Reads back what the store holds about links: see `daemon.store.link_batch`."""

import math
import sqlite3
from collections.abc import Callable
from typing import Any, Final

import msgspec

from routing.federation.copies import Forward, Seen
from routing.federation.interest import InterestChange
from routing.restore import Restore, StoredCopy, StoredReceipt


class _StoredForward(msgspec.Struct, array_like=True):
    """The fields of `routing.federation.copies.Forward`; a store of earlier may not have the last."""

    depth: int
    query: int
    unacknowledged: int
    attempts: int
    earlier: list[int] = []


_forwards: Final = msgspec.json.Decoder(dict[str, _StoredForward])
_children: Final = msgspec.json.Decoder(dict[int, tuple[int, int, bool]])


def recall(read: Callable[..., sqlite3.Cursor], smuid: str) -> Seen | None:
    """What is remembered of a Smuid."""
    row = read("SELECT entry, depth, custody, until FROM seen WHERE smuid = ?", (smuid,)).fetchone()
    return None if row is None else Seen(*row)


def restore_links(read: Callable[..., sqlite3.Cursor], restore: Restore) -> None:
    """Give the index all of it, before the messages."""
    for smuid, topic, at in read("SELECT smuid, topic, at FROM removal ORDER BY at"):
        restore.removal(smuid, topic, at)
    for peer, *change in read("SELECT peer, kind, name, distance FROM interest"):
        restore.interest(peer, InterestChange(*change))
    for row in read("SELECT peer, query, due, have FROM answer ORDER BY query"):
        restore.answer(*row)
    for id, depth, hops, forwards in read("SELECT id, depth, hops, forwards FROM copy"):
        restore.copy(id, StoredCopy(depth, tuple(hops.split(",")) if hops else (), _read_forwards(forwards)))
    for row in read(
        "SELECT id, topic, origin, priority, size, flags, deadline, mode, publisher, cmuid, due, have,"
        " parent, query, children FROM receipt ORDER BY id"
    ):
        restore.receipt(_read_receipt(row))


def _read_forwards(text: str) -> dict[str, Forward]:
    return {name: Forward(*msgspec.structs.astuple(f)) for name, f in _forwards.decode(text).items()}


def _read_receipt(row: tuple[Any, ...]) -> StoredReceipt:
    stored = StoredReceipt(*(*row[:-1], _children.decode(row[-1])))
    if stored.deadline is None:
        stored.deadline = math.inf
    return stored
