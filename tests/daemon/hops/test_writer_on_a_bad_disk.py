"""A disk that is full, or that refuses to have a file cut: records wait, and what is lost shows."""

import errno
import logging
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.hops import writer
from daemon.hops.examine import examine
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from tests.support.hop_log_writer import batch, names, numbers, read_only


@pytest.fixture
def full_disk() -> Iterator[Callable[..., Any]]:
    """A disk that takes so many bytes of one file: the process's own limit, with its signal ignored."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def set_limit(size_bytes: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits if size_bytes is None else (size_bytes, limits[1]))

    yield set_limit
    set_limit(None)


@pytest.fixture
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """More records wait for the disk than may."""
    monkeypatch.setattr(writer, "WAITING_MAX", 0)


def test_on_a_full_disk_records_wait_and_none_is_lost(
    start: Callable[..., HopLog],
    tmp_path: Path,
    full_disk: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = start(boot=1, committed=0)
    batch(log, 2)
    full_disk((tmp_path / "open-1.jsonl").stat().st_size + 100)
    batch(log, 3)
    log.append("published")
    log.flush()
    log.revert()
    batch(log, 1)
    assert numbers(tmp_path) == [1, 2]
    full_disk(None)
    batch(log, 1)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7]
    assert (log.lost_records, caplog.messages) == (0, [])
    log.close()
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-7.jsonl"]


def test_room_that_is_made_is_used_at_once(
    start: Callable[..., HopLog], tmp_path: Path, full_disk: Callable[..., Any]
) -> None:
    def make_room() -> bool:
        full_disk(None)
        return True

    log = start(boot=1, committed=0, make_room=make_room)
    full_disk(10)
    batch(log, 2)
    assert numbers(tmp_path) == [1, 2]


@pytest.mark.usefixtures("nothing_waits")
def test_a_full_disk_loses_records_and_nothing_else(
    start: Callable[..., HopLog],
    tmp_path: Path,
    full_disk: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = start(boot=1, committed=0)
    batch(log, 2)
    full_disk((tmp_path / "open-1.jsonl").stat().st_size + 100)
    with caplog.at_level(logging.WARNING):
        batch(log, 3)
        batch(log, 1)
        full_disk(None)
        batch(log, 1)
    assert numbers(tmp_path) == [1, 2, 7]
    assert HopLogReader(tmp_path).unread.torn == 0
    assert log.lost_records == 4
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert os.strerror(errno.EFBIG) in caplog.text
    assert "4 records were lost" in caplog.text
    log.close()
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-7.jsonl"]


@pytest.mark.usefixtures("nothing_waits")
def test_a_file_whose_first_write_failed_is_named_for_what_came_after(
    start: Callable[..., HopLog], tmp_path: Path, full_disk: Callable[..., Any]
) -> None:
    log = start(boot=2, committed=5)
    full_disk(10)
    batch(log, 2)
    full_disk(None)
    batch(log, 1)
    assert [(record.record, record.previous) for record in HopLogReader(tmp_path).records()] == [(8, 5)]
    log.close()
    assert names(tmp_path) == ["hops-alpha.example_7200-2-8-8.jsonl"]


@pytest.mark.usefixtures("nothing_waits")
def test_the_boot_before_is_told_of_also_where_its_first_records_were_lost_and_a_commit_failed(
    start: Callable[..., HopLog], tmp_path: Path, full_disk: Callable[..., Any]
) -> None:
    log = start(boot=2, committed=5)
    full_disk(10)
    batch(log, 2)
    log.append("published")
    log.revert()
    full_disk(None)
    batch(log, 1)
    assert [(record.record, record.previous) for record in HopLogReader(tmp_path).records()] == [(8, 5)]


def test_a_log_that_cannot_be_cut_back_is_not_written_until_it_can(
    start: Callable[..., HopLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch(log := start(1, 0), 2)
    log.append("published", topic="never came true")
    log.flush()
    with read_only(log):
        log.revert()
        log.append("published", topic="waits")
        log.settle(log.flush())
        assert log._gathered
    assert "cannot be cut back" in caplog.text
    batch(log, 1)
    log.close()
    assert [record.topic for record in HopLogReader(tmp_path).records()] == ["news", "news", "waits", "news"]
    assert numbers(tmp_path) == [1, 2, 3, 4]


def test_a_log_that_can_never_be_cut_back_is_cut_at_the_next_start(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    batch(log := start(1, 0), 2)
    log.append("published", topic="never came true")
    log.flush()
    with read_only(log):
        log.revert()
        log.close()
    start(2, 2).close()
    assert numbers(tmp_path) == [1, 2]


def test_a_file_that_cannot_be_closed_at_the_end_is_said_to_stay_open_and_the_others_are_closed(
    start: Callable[..., HopLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = start(1, 0, HopSettings(file_bytes_max=1))
    batch(log, 2)
    batch(log, 1)
    (tmp_path / "hops-alpha.example_7200-1-1-2.jsonl").mkdir()  # nothing can take its place
    log.close()
    assert names(tmp_path) == ["open-1.jsonl", "hops-alpha.example_7200-1-3-3.jsonl"]
    assert "stays open until the next start" in caplog.text
    (tmp_path / "hops-alpha.example_7200-1-1-2.jsonl").rmdir()
    start(2, 3).close()
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_log_whose_directory_is_gone_ends_without_an_error(
    start: Callable[..., HopLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch(log := start(1, 0), 2)
    (tmp_path / "open-1.jsonl").unlink()
    log.close()
    assert "stays open until the next start" in caplog.text


def test_a_file_without_records_that_cannot_be_removed_ends_no_stop(
    start: Callable[..., HopLog],
    tmp_path: Path,
    full_disk: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The disk was full as it was begun, and takes no change by now."""
    log = start(1, 0)
    full_disk(0)
    batch(log, 2)
    (tmp_path / "open-1.jsonl").unlink()
    (tmp_path / "open-1.jsonl").mkdir()
    log.close()
    assert "stays open until the next start" in caplog.text


def test_a_log_whose_records_wait_for_the_disk_is_behind(
    start: Callable[..., HopLog], tmp_path: Path, full_disk: Callable[..., Any]
) -> None:
    log = start(boot=1, committed=0)
    batch(log, 2)
    assert not log.is_behind
    full_disk((tmp_path / "open-1.jsonl").stat().st_size + 100)
    batch(log, 3)
    assert log.is_behind
    found = examine(tmp_path, "beta.example/0198c3a1b2c3-1-f", is_behind=lambda newest: log.is_behind)
    assert not found.covered
    full_disk(None)
    batch(log, 1)
    assert not log.is_behind
