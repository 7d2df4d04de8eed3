import os
from pathlib import Path

import pytest

from daemon.hops.files import list_files
from daemon.hops.retention import delete_old
from daemon.settings import HopSettings

NOW_S = 1_795_000_000.0
DAY_S = 86_400.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three closed files of 1000 bytes, one, two and three days old, and an open one."""
    for age_days, name in ((3, "hops-a-1-1-9"), (2, "hops-a-1-10-19"), (1, "hops-a-1-20-29"), (0, "open-30")):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"x" * 1_000)
        written_s = NOW_S - age_days * DAY_S
        os.utime(path, (written_s, written_s))
    return tmp_path


def firsts(directory: Path) -> list[int]:
    return [file.first for file in list_files(directory)]


def test_nothing_is_deleted_within_the_bounds(log: Path) -> None:
    assert delete_old(log, HopSettings(), NOW_S) == 0
    assert firsts(log) == [1, 10, 20, 30]


def test_files_above_the_age_are_deleted(log: Path) -> None:
    assert delete_old(log, HopSettings(retention_s=1.5 * DAY_S), NOW_S) == 2
    assert firsts(log) == [20, 30]


def test_the_oldest_are_deleted_until_the_rest_fits(log: Path) -> None:
    assert delete_old(log, HopSettings(retention_bytes_max=4_000), NOW_S) == 0
    assert delete_old(log, HopSettings(retention_bytes_max=3_999), NOW_S) == 1
    assert firsts(log) == [10, 20, 30]


def test_the_open_file_is_never_deleted(log: Path) -> None:
    os.utime(log / "open-30.jsonl", (0, 0))
    assert delete_old(log, HopSettings(retention_s=60, retention_bytes_max=0), NOW_S) == 3
    assert firsts(log) == [30]


def test_a_file_that_could_not_be_closed_is_deleted_with_those_around_it(log: Path) -> None:
    """The next start closes it, which may be in a year; until then it would stand before a gap."""
    (log / "hops-a-1-10-19.jsonl").rename(log / "open-10.jsonl")
    assert delete_old(log, HopSettings(retention_s=1.5 * DAY_S), NOW_S) == 2
    assert firsts(log) == [20, 30]


def test_a_file_that_is_hardly_finished_is_left_to_who_closes_it(log: Path) -> None:
    (log / "hops-a-1-20-29.jsonl").rename(log / "open-20.jsonl")
    assert delete_old(log, HopSettings(retention_s=60, retention_bytes_max=0), NOW_S) == 2
    assert firsts(log) == [20, 30]


def test_files_of_other_names_are_left_alone(log: Path) -> None:
    (log / "notes").write_text("mine")
    os.utime(log / "notes", (0, 0))
    delete_old(log, HopSettings(retention_s=60, retention_bytes_max=0), NOW_S)
    assert (log / "notes").exists()


def written_days_ago(directory: Path, *days: float) -> None:
    """The closed files, the oldest first, by a clock that may have been set between them."""
    for file, age_days in zip(list_files(directory), days, strict=False):
        os.utime(file.path, (NOW_S - age_days * DAY_S, NOW_S - age_days * DAY_S))


@pytest.mark.parametrize(
    ("days", "kept"),
    [
        ((-400, 2, 1), [20, 30]),  # the clock was more than a year ahead when the first was written
        ((3, -400, 1), [10, 20, 30]),
        ((3, 2, -400), [20, 30]),
        ((-400, -400, 2), [30]),
        ((-400, -400, -400), [1, 10, 20, 30]),
        ((1, 20_000, 1), [1, 10, 20, 30]),  # a machine that began in 1970, before it asked for the time
        ((3, 20_000, 1), [20, 30]),
        ((1, 3, 2), [1, 10, 20, 30]),
    ],
)
def test_a_clock_that_was_set_leaves_no_file_before_one_that_is_deleted(
    log: Path, days: tuple[float, ...], kept: list[int]
) -> None:
    written_days_ago(log, *days)
    delete_old(log, HopSettings(retention_s=1.5 * DAY_S), NOW_S)
    assert firsts(log) == kept
