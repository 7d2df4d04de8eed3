"""What is remembered so that nothing comes twice, and for how long."""

from pathlib import Path

import pytest

from daemon.store.store import Store
from daemon.store.tables import publications
from daemon.store.tables.seen import SERVERS_MAX
from routing import decisions as d
from routing.peering.copies import Seen
from routing.peering.decisions import StoreRemoval, StoreSeen
from tests.support.stored import a_batch, a_mark, query, restored, take, write_batch


def test_of_each_publisher_no_more_cmuids_are_read_than_it_keeps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "CMUIDS_PER_PUBLISHER", 2)
    batch = a_batch(100.0)
    for number in range(1, 5):
        for publisher in ("eva", "fay")[: 5 - number]:
            take(batch, d.StorePublication(publisher, f"c{number}", f"a/0123456789ab-1-{number}"))
    write_batch(store, batch)
    known = [(publisher, cmuid) for publisher, cmuid, *_ in restored(store).publications]
    assert known == [("eva", "c4"), ("fay", "c3"), ("eva", "c3"), ("fay", "c2")]


def test_cmuids_come_back_for_as_long_as_the_window(store: Store) -> None:
    first, second = ("eva", "c1", "a/0123456789ab-1-1", 100.0), ("eva", "c2", "a/0123456789ab-1-2", 500.0)
    for *publication, at in (first, second):
        write_batch(store, take(a_batch(at), d.StorePublication(*publication)))
    assert restored(store, now=0.0).publications == [second, first]
    store.site.clock = a_mark(900.0)
    assert restored(store, now=900.0).publications == [second]
    batch = a_batch()
    batch.forget(publications_until=300.0, removals_from=0.0)
    write_batch(store, batch)
    assert restored(store, now=0.0).publications == [second]


def test_where_many_copies_come_their_smuids_are_forgotten_as_fast(store: Store, path: Path) -> None:
    for second in range(100):
        batch = a_batch(second)
        for number in range(1_000):
            take(batch, StoreSeen(f"b/{second}-{number}", Seen(1, 0, 1, until=second + 5.0)))
        write_batch(store, batch)
    [(rows,)] = query(path, "SELECT count(*) FROM seen")
    assert rows <= 8_000


def test_removals_are_forgotten_with_those_that_the_router_has_forgotten(store: Store, path: Path) -> None:
    for at in range(10):
        write_batch(store, take(a_batch(float(at)), StoreRemoval(f"b/{at}", "news")))
    batch = a_batch(10.0)
    batch.forget(publications_until=0.0, removals_from=7.0)
    write_batch(store, batch)
    assert query(path, "SELECT count(*) FROM removal") == [(3,)]


def remember(store: Store, *smuids: str) -> None:
    write_batch(store, take(a_batch(), *(StoreSeen(each, Seen(1, 0, 1, until=1e9)) for each in smuids)))


def known(store: Store, *smuids: str) -> list[bool]:
    return [store.recall(each) is not None for each in smuids]


def test_smuids_are_recalled_in_whatever_order_they_come(store: Store, path: Path) -> None:
    old, early, late, last = (f"b.example/{birth:012x}-1-{birth:x}" for birth in (1, 2, 3, 4))
    remember(store, old)
    assert known(store, old, early, late) == [True, False, False]
    remember(store, late)
    assert known(store, old, early, late, last) == [True, False, True, False]
    remember(store, early)
    assert known(store, old, early, late, last) == [True, True, True, False]
    again = Store(path)
    assert known(again, last, late, early, old) == [False, True, True, True]
    again.close()


def test_with_a_smuid_it_is_recalled_what_was_counted_of_it(store: Store, path: Path) -> None:
    smuid, counted = "b.example/000000000001-1-1", Seen(1, 0, 1, until=1e9, due=3, have=2)
    remember(store, smuid)
    write_batch(store, take(a_batch(), StoreSeen(smuid, counted)))
    assert Store(path).recall(smuid) == counted


@pytest.mark.parametrize("stops", [[10_800.0], [3_000.0, 7_800.0]], ids=["one", "two"])
def test_what_has_been_here_is_remembered_whatever_the_clock_says_of_a_stop(
    path: Path, stops: list[float]
) -> None:
    """A machine starts with a clock that is hours ahead; the peer that may send it again waited a minute."""
    smuid, now = "b.example/000000000001-1-1", 100.0
    store = Store(path)
    write_batch(store, take(a_batch(now), StoreSeen(smuid, Seen(1, 0, 1, until=200.0))), now=now)
    store.close()
    for stop in stops:
        store, now = Store(path), now + stop
        restored(store, now)
        forget(store, now)
        assert store.recall(smuid) == Seen(1, 0, 1, until=now + 100.0)
        store.close()
    store = Store(path)
    restored(store, now)
    forget(store, now + 101.0)
    assert store.recall(smuid) is None


def forget(store: Store, now: float) -> None:
    batch = a_batch(now, store.stopped_s)
    batch.forget(publications_until=0.0, removals_from=0.0)
    write_batch(store, batch, now=now)


def test_what_is_recalled_of_one_server_says_nothing_of_another(store: Store) -> None:
    smuids = [
        f"{server}/00000000000{birth}-1-1" for birth in (1, 2) for server in ("b", "b.a", "b0", "a", "ba")
    ]
    assert known(store, *smuids) == [False] * len(smuids)
    for count in range(1, len(smuids) + 1):
        remember(store, smuids[count - 1])
        assert known(store, *smuids) == [True] * count + [False] * (len(smuids) - count)


def test_of_more_servers_than_are_kept_in_memory_each_smuid_is_looked_up(store: Store) -> None:
    smuids = [f"s{number}/000000000001-1-1" for number in range(SERVERS_MAX + 2)]
    assert not any(known(store, *smuids))
    remember(store, *smuids)
    assert all(known(store, *smuids))
    assert not any(known(store, *(f"{each}1" for each in smuids)))
