"""What closed files claim, and whether they are what they were: the lines in them may be fewer, or others."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from daemon.hops.files import list_files
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from daemon.store.backup import AHEAD, raise_numbers
from daemon.store.store import Store
from tests.support.hop_logs import WrittenLogs, records_frame
from tests.support.traced import NOW_US

SERVER = "a.example:7200"
BORN_US = 1_763_719_200_000_000


def close_two(logs: Path) -> list[Path]:
    """Two files that a daemon has closed: the first one of 70 records, the second of 3."""
    ticks = iter(range(BORN_US, BORN_US + 10**12, 1_000_000))
    for boot, count, last in ((1, 70, 0), (2, 3, 70)):
        log = HopLog.open(
            logs,
            server=SERVER,
            boot=boot,
            committed_record=last,
            settings=HopSettings(),
            now_us=lambda: next(ticks),
        )
        for number in range(count):
            smuid = f"{SERVER}/{BORN_US // 1000:012x}-{boot}-{number + 1:x}"
            log.append("published", smuid=smuid, topic="t", due=1)
        log.close()
    return [file.path for file in list_files(logs)]


@pytest.fixture
def closed(tmp_path: Path) -> list[Path]:
    return close_two(tmp_path / "logs")


@pytest.fixture(scope="module")
def cut(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What the jobs say where the second file lost its last record, and the directory of their tables.

    Its name claims more records than there can be.
    """
    from routing.trace import batch

    directory = tmp_path_factory.mktemp("cut")
    _, second = close_two(directory / "logs")
    left = second.rename(second.with_name(second.name.replace("-73.", f"-{2**63 - 1}.")))
    left.write_bytes(b"".join(left.read_bytes().splitlines(keepends=True)[:2]))
    out = str(directory / "tables")
    return batch.run(spark, [str(directory / "logs")], out, now_us=NOW_US), out


def missing(spark: Any, directory: Path) -> list[tuple[int, int]]:
    """Ranges of records that are not there, of the one server."""
    from routing.trace import coverage, files, ingest

    paths = [str(directory)]
    damaged = files.damaged(spark, paths)
    lines = ingest.checked(ingest.logs(spark, paths), NOW_US, ingest.FUTURE_MAX_BATCH_US, damaged=damaged)
    words = coverage.words(ingest.records(lines))
    found = coverage.gaps(words, files.claims_frame(spark, files.claimed(spark, paths))).collect()
    return sorted((row.first_missing, row.last_missing) for row in found)


def test_whole_files_are_believed(spark: Any, closed: list[Path], tmp_path: Path) -> None:
    assert missing(spark, tmp_path / "logs") == []


def test_a_flipped_bit_makes_a_file_one_of_which_nothing_is_known(
    spark: Any, closed: list[Path], tmp_path: Path
) -> None:
    from routing.trace import files

    data = closed[0].read_bytes()
    closed[0].write_bytes(data.replace(b'-1-5"', b'-1-7"', 1))
    assert [path.rpartition("/")[2] for path in files.damaged(spark, [str(tmp_path / "logs")])] == [
        closed[0].name
    ]
    assert missing(spark, tmp_path / "logs") == [(1, 70)]


def test_a_closing_line_that_is_damaged_itself_damages_its_file(
    spark: Any, closed: list[Path], tmp_path: Path
) -> None:
    data = closed[1].read_bytes()
    closed[1].write_bytes(data.replace(b'"crc32":', b'"crc23":'))
    assert missing(spark, tmp_path / "logs") == [(71, 73)]


def test_records_that_a_name_claims_and_the_file_has_not_are_missing(
    spark: Any, closed: list[Path], tmp_path: Path
) -> None:
    first, second = (path.read_bytes().splitlines(keepends=True) for path in closed)
    closed[0].write_bytes(b"".join(first[2:69]))
    closed[1].write_bytes(b"".join(second[:1]) + bytes(4096))
    assert missing(spark, tmp_path / "logs") == [(1, 2), (70, 70), (72, 73)]


def test_a_copy_whose_end_may_be_in_records_that_only_a_name_claims_is_not_held(
    cut: tuple[dict[str, Any], str],
) -> None:
    summary, _ = cut
    assert (summary["balance"]["held"], summary["balance"]["log_missing"]) == (0, 72)
    assert summary["logs"]["gaps"] == [SERVER]


def test_logs_without_a_message_of_mode_one_or_a_receipt_have_all_tables(
    spark: Any, cut: tuple[dict[str, Any], str]
) -> None:
    from routing.trace import tables

    summary, out = cut
    assert summary["messages"]["total"] == 72
    for name in (*tables.BY_DAY, *tables.WHOLE):
        assert "smuid" in tables.read(spark, out, name).columns or name not in ("custody", "receipts")
    assert tables.read(spark, out, "custody").count() == 0


def test_what_a_restored_site_leaves_out_is_a_gap_and_counts_as_one_record(spark: Any) -> None:
    """Nobody knows how many were written between the backup and the loss."""
    from routing.trace import coverage

    logs = WrittenLogs()
    again = (1 << 50) + AHEAD[1]
    for last in (0, 1, 3, 1 << 50, again):
        logs.last[SERVER] = last
        logs.write(SERVER, "heartbeat")
    read = records_frame(spark, logs.records)
    words = coverage.words(read)
    gaps = coverage.gaps(words)
    ranges = {(row.first_missing, row.last_missing) for row in gaps.collect()}
    assert ranges == {(3, 3), (5, 1 << 50), ((1 << 50) + 2, again)}
    (log,) = coverage.coverage(read, words, gaps).collect()
    assert (log.log, log.missing, log.complete_from) == ("gaps", 3, again + 1)


def test_a_site_that_is_restored_twice_leaves_out_more_than_any_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it ten minutes later, or with a clock that was set back meanwhile."""
    from routing.trace import coverage

    Store(tmp_path / "site.db").close()
    restored = []
    for now_s in (1_795_000_000, 1_795_000_600, 1_794_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now_s=now_s: now_s * 1_000_000_000)
        raise_numbers(tmp_path / "site.db")
        store = Store(tmp_path / "site.db")
        restored.append(store.site.last_record)
        store.close()
    assert min(later - earlier for earlier, later in pairwise(restored)) > coverage.LEAP
