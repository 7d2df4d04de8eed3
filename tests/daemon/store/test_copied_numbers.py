"""The numbers that a site gives which goes on with a copy of a store: none that was given since."""

import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from daemon.store.backup import copy_store, raise_numbers
from daemon.store.store import Store

HOUR_NS: Final = 3_600_000_000_000
YEAR_NS: Final = 365 * 24 * HOUR_NS
WRITTEN: Final = 1_000_000_000
"""Records, and `STARTED` boots, that a site may have behind it an hour later."""

STARTED: Final = 5


def numbers(path: Path) -> tuple[int, int]:
    """Of the site's next start."""
    store = Store(path)
    store.close()
    return store.site.boot, store.site.last_record


def test_nobody_who_goes_on_with_a_copy_gives_a_number_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it run as it is, or a site made of it, and an hour later another one."""
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    lives = [numbers(tmp_path / "site.db")]
    copy_store(tmp_path / "site.db", tmp_path / "copy.db", lambda done, total: None)
    for name in ("once.db", "twice.db"):
        now_ns += HOUR_NS
        shutil.copy(tmp_path / "copy.db", tmp_path / name)
        raise_numbers(tmp_path / name)
    lives += [numbers(tmp_path / name) for name in ("copy.db", "once.db", "twice.db")]
    for (boot, record), (later_boot, later_record) in pairwise(lives):
        assert later_boot > boot + STARTED
        assert later_record > record + WRITTEN


def test_two_sites_that_are_made_of_one_copy_at_a_time_give_no_number_twice_where_one_replaces_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    numbers(tmp_path / "site.db")
    copy_store(tmp_path / "site.db", tmp_path / "copy.db", lambda done, total: None)
    now_ns += HOUR_NS
    for name in ("first.db", "second.db"):
        shutil.copy(tmp_path / "copy.db", tmp_path / name)
    raise_numbers(tmp_path / "first.db")
    boot, record = [numbers(tmp_path / "first.db") for _ in range(STARTED)][-1]
    raise_numbers(tmp_path / "second.db", tmp_path / "first.db")
    later_boot, later_record = numbers(tmp_path / "second.db")
    assert later_boot > boot + STARTED
    assert later_record > record


def test_a_store_that_cannot_be_read_is_replaced_all_the_same(tmp_path: Path) -> None:
    numbers(tmp_path / "site.db")
    copy_store(tmp_path / "site.db", tmp_path / "copy.db", lambda done, total: None)
    (tmp_path / "bad.db").write_bytes(b"no store at all" * 1_000)
    (tmp_path / "empty.db").touch()
    for name in ("bad.db", "empty.db", "gone.db"):
        before = numbers(tmp_path / "copy.db")
        raise_numbers(tmp_path / "copy.db", tmp_path / name)
        assert numbers(tmp_path / "copy.db") > before


def test_where_the_clock_is_behind_the_numbers_they_are_raised_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    numbers(tmp_path / "site.db")
    copy_store(tmp_path / "site.db", tmp_path / "copy.db", lambda done, total: None)
    boot, record = numbers(tmp_path / "copy.db")
    now_ns -= 10 * YEAR_NS
    raise_numbers(tmp_path / "copy.db")
    later_boot, later_record = numbers(tmp_path / "copy.db")
    assert later_boot > boot + STARTED
    assert later_record >= record + WRITTEN
