import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.hops.files import list_files
from daemon.hops.open_file import close_file
from daemon.hops.reader import BLOCK_BYTES, HopLogReader, Skipped
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from routing.errors import HeaderRefusal
from routing.hop_words import LINE_BYTES_MAX
from routing.hops import HopRecord

BORN_MS = 1_795_000_000_000
SMUID = f"alpha.example/{BORN_MS:012x}-1-1"


def line(number: int, smuid: str = SMUID, **fields: object) -> bytes:
    record = HopRecord(
        version=1, server="alpha.example", boot=1, record=number, time_us=BORN_MS * 1000 + number,
        event="published", smuid=smuid, topic="news",
    )  # fmt: skip
    return msgspec.json.encode(msgspec.structs.replace(record, **fields)) + b"\n"


def read(directory: Path) -> tuple[list[int], Skipped]:
    reader = HopLogReader(directory)
    return [record.record for record in reader.records()], reader.unread


def test_files_are_read_in_the_order_of_their_records(tmp_path: Path) -> None:
    (tmp_path / "open-11.jsonl").write_bytes(line(11))
    (tmp_path / "hops-alpha.example-1-9-10.jsonl").write_bytes(line(9) + line(10))
    (tmp_path / "hops-alpha.example-1-1-8.jsonl").write_bytes(line(1) + line(8))
    assert read(tmp_path) == ([1, 8, 9, 10, 11], Skipped())


def test_a_directory_that_is_not_there_holds_no_records(tmp_path: Path) -> None:
    assert read(tmp_path / "hops") == ([], Skipped())


@pytest.mark.parametrize("name", ["notes.txt", "open-.jsonl", "open-1.jsonl.zst", "hops-a-1-2.jsonl"])
def test_files_of_other_names_are_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(line(1))
    assert read(tmp_path) == ([], Skipped())


def test_links_and_directories_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(line(1))
    (tmp_path / "open-1.jsonl").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "open-2.jsonl").mkdir()
    assert read(tmp_path) == ([], Skipped())


@pytest.mark.parametrize("missing", range(1, len(line(2)) + 1))
def test_a_torn_last_line_is_counted_at_whatever_byte_it_was_torn(tmp_path: Path, missing: int) -> None:
    (tmp_path / "open-1.jsonl").write_bytes(line(1) + line(2)[:-missing])
    assert read(tmp_path) == ([1], Skipped(torn=1 if missing < len(line(2)) else 0))


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x00\xff\xfe",
        b"{}",
        b"[1, 2]",
        b'{"version":1,"server":"a","boot":1,"record":"one","time_us":1,"event":"published"}',
        b'{"version":1,"server":"a","boot":1,"record":1,"time_us":1,"event":"invented"}',
        b'{"version":2,"server":"a","boot":1,"record":1,"time_us":1,"event":"published"}',
        b'{"x":' + b"[" * 100_000,
        b"",
    ],
)
def test_a_line_that_is_no_record_is_counted_and_hurts_no_other(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "open-1.jsonl").write_bytes(line(1) + rubbish + b"\n" + line(2))
    assert read(tmp_path) == ([1, 2], Skipped(bad=1))


@pytest.mark.parametrize(
    "length", [LINE_BYTES_MAX + 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES]
)
def test_a_gigantic_line_is_counted_and_hurts_no_other(tmp_path: Path, length: int) -> None:
    (tmp_path / "open-1.jsonl").write_bytes(line(1) + b"x" * length + b"\n" + line(2))
    assert read(tmp_path) == ([1, 2], Skipped(too_long=1))


def test_the_longest_line_that_is_allowed_is_read(tmp_path: Path) -> None:
    longest = line(2, reason="x" * (LINE_BYTES_MAX - len(line(2, reason="x")) + 2))
    assert len(longest) == LINE_BYTES_MAX + 1
    (tmp_path / "open-1.jsonl").write_bytes(line(1) + longest + line(3))
    assert read(tmp_path) == ([1, 2, 3], Skipped())


def test_lines_on_the_border_of_a_block_are_whole(tmp_path: Path) -> None:
    count = 2 * BLOCK_BYTES // len(line(1)) + 10
    (tmp_path / "open-1.jsonl").write_bytes(b"".join(line(number) for number in range(1, count + 1)))
    assert read(tmp_path) == (list(range(1, count + 1)), Skipped())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=300), st.just(line(1)), st.just(line(2)[:-20]), st.just(b"\n"))
    )
)
def test_whatever_a_file_holds_reading_it_raises_nothing(tmp_path: Path, pieces: list[bytes]) -> None:
    (tmp_path / "open-1.jsonl").write_bytes(b"".join(pieces))
    reader = HopLogReader(tmp_path)
    assert {record.record for record in reader.records()} <= {1, 2}
    assert all(record.smuid == SMUID for record in reader.find(SMUID))
    reader.last()


def test_a_message_is_found_in_all_files_and_nothing_else_is(tmp_path: Path) -> None:
    other = f"alpha.example/{BORN_MS:012x}-1-11"
    (tmp_path / "hops-alpha.example-1-1-3.jsonl").write_bytes(line(1) + line(2, other) + line(3))
    (tmp_path / "open-4.jsonl").write_bytes(line(4, other, reason=f'"{SMUID}"') + line(5, event="committed"))
    assert [record.record for record in HopLogReader(tmp_path).find(SMUID)] == [1, 3, 5]


def files_written_at(directory: Path, times_s: list[float], smuid: str = SMUID, **fields: object) -> None:
    """A file of one record for each time, all of this message."""
    for number, time_s in enumerate(times_s, 1):
        path = directory / f"hops-alpha.example-1-{number}-{number}.jsonl"
        path.write_bytes(line(number, smuid, **fields))
        os.utime(path, (time_s, time_s))


def test_files_that_are_older_than_the_message_are_not_opened(tmp_path: Path) -> None:
    files_written_at(tmp_path, [BORN_MS / 1000 - 3_000 * back for back in reversed(range(60))], event="depth")
    found = [record.record for record in HopLogReader(tmp_path).find(SMUID)]
    assert found == list(range(60 - 86_400 // 3_000, 61))


def test_files_that_a_clock_which_was_behind_has_made_older_are_opened(tmp_path: Path) -> None:
    two_days_behind = [BORN_MS / 1000 - 172_800 + 60 * number for number in range(5)]
    before = [BORN_MS / 1000 - 260_000 + 60 * number for number in range(5)]
    after = [BORN_MS / 1000 + 300 + 60 * number for number in range(3)]
    files_written_at(tmp_path, before + two_days_behind + after, event="depth")
    reader = HopLogReader(tmp_path)
    assert [record.record for record in reader.find(SMUID)] == list(range(1, 14))
    assert reader.gaps == []


def test_files_that_may_be_older_are_opened_no_further_than_the_beginning_of_the_message(
    tmp_path: Path,
) -> None:
    files_written_at(tmp_path, [BORN_MS / 1000 - 172_800] * 5 + [BORN_MS / 1000])
    assert [record.record for record in HopLogReader(tmp_path).find(SMUID)] == [6]
    files_written_at(tmp_path, [BORN_MS / 1000 - 172_800] * 5)
    (tmp_path / "hops-alpha.example-1-6-6.jsonl").write_bytes(line(6, event="committed"))
    assert [record.record for record in HopLogReader(tmp_path).find(SMUID)] == [5, 6]


def test_a_file_that_follows_a_later_one_is_opened_though_the_clock_was_set_back(tmp_path: Path) -> None:
    files_written_at(tmp_path, [BORN_MS / 1000, BORN_MS / 1000 - 172_800])
    assert [record.record for record in HopLogReader(tmp_path).find(SMUID)] == [1, 2]


def test_where_no_file_is_as_late_as_the_message_the_clock_may_be_behind_still(tmp_path: Path) -> None:
    files_written_at(tmp_path, [BORN_MS / 1000 - 172_800 + 60 * number for number in range(3)])
    assert [record.record for record in HopLogReader(tmp_path).find(SMUID)] == [3]


def test_first_and_last_are_the_ends_of_the_log(tmp_path: Path) -> None:
    reader = HopLogReader(tmp_path)
    assert reader.first() is None
    assert reader.last() is None
    (tmp_path / "hops-alpha.example-1-1-3.jsonl").write_bytes(b"rubbish\n" + line(2) + line(3))
    (tmp_path / "open-4.jsonl").write_bytes(line(4) + line(5)[:-10])
    first, last = reader.first(), reader.last()
    assert first is not None
    assert last is not None
    assert (first.record, last.record) == (2, 4)


def test_a_file_that_is_closed_while_a_reader_is_at_work_is_read_under_its_new_name(tmp_path: Path) -> None:
    log = HopLog.open(
        tmp_path,
        server="alpha.example",
        boot=1,
        committed_record=0,
        settings=HopSettings(file_bytes_max=4_096),
    )
    (tmp_path / "hops-alpha.example-0-0-0.jsonl").write_bytes(line(0))
    while not (finished := log.take_finished()):
        log.append("published", smuid=SMUID)
        log.settle(log.flush())
    reader = HopLogReader(tmp_path)
    records = reader.records()
    assert next(records).record == 0
    close_file(finished[0])
    assert [record.record for record in records] == list(range(1, log.last_record + 1))
    assert reader.unread == Skipped()


def test_a_file_that_is_deleted_while_a_reader_is_at_work_is_counted(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"hops-alpha.example-1-{number}-{number}.jsonl").write_bytes(line(number))
    reader = HopLogReader(tmp_path)
    records = reader.records()
    assert next(records).record == 1
    list_files(tmp_path)[1].path.unlink()
    assert [record.record for record in records] == [3]
    assert reader.unread == Skipped(vanished=1)


def numbered(first: int, last: int) -> bytes:
    return b"".join(line(number) for number in range(first, last + 1))


@pytest.fixture
def while_listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have something happen once, after so many times that a directory was listed."""

    def happens(meanwhile: Callable[[], object], *, after: int) -> None:
        listings = 0

        @contextmanager
        def scandir(path: Path) -> Iterator[Iterator["os.DirEntry[str]"]]:
            nonlocal listings
            with os_scandir(path) as entries:
                listed = list(entries)
            listings += 1
            if listings == after:
                meanwhile()
            yield iter(listed)

        monkeypatch.setattr(os, "scandir", scandir)

    os_scandir = os.scandir
    return happens


def test_a_file_that_is_closed_as_the_directory_is_listed_is_in_the_list(
    tmp_path: Path, while_listed: Callable[..., None]
) -> None:
    def rotate() -> None:
        (tmp_path / "open-4.jsonl").rename(tmp_path / "hops-alpha.example-1-4-6.jsonl")
        (tmp_path / "open-7.jsonl").write_bytes(numbered(7, 8))

    (tmp_path / "hops-alpha.example-1-1-3.jsonl").write_bytes(numbered(1, 3))
    (tmp_path / "open-4.jsonl").write_bytes(numbered(4, 6))
    while_listed(rotate, after=1)
    reader = HopLogReader(tmp_path)
    assert [record.record for record in reader.find(SMUID)] == list(range(1, 9))
    assert reader.gaps == []


@pytest.mark.parametrize("deleted", [1, 2, 3])
def test_the_oldest_files_that_are_deleted_while_a_log_is_read_are_not_missing_in_it(
    tmp_path: Path, while_listed: Callable[..., None], deleted: int
) -> None:
    paths = [tmp_path / f"hops-alpha.example-1-{first}-{first + 2}.jsonl" for first in (4, 7, 10)]
    for path, first in zip(paths, (4, 7, 10), strict=True):
        path.write_bytes(numbered(first, first + 2))

    def delete() -> None:
        for path in paths[:deleted]:
            path.unlink()

    while_listed(delete, after=2)
    reader = HopLogReader(tmp_path)
    reader.check()
    assert reader.gaps == []
    assert reader.unread.vanished == deleted


def test_a_file_in_the_middle_that_is_gone_while_a_log_is_read_is_missing(
    tmp_path: Path, while_listed: Callable[..., None]
) -> None:
    for first in (4, 7, 10):
        (tmp_path / f"hops-alpha.example-1-{first}-{first + 2}.jsonl").write_bytes(numbered(first, first + 2))
    gone = tmp_path / "hops-alpha.example-1-7-9.jsonl"
    while_listed(lambda: gone.rename(tmp_path / "elsewhere"), after=2)
    reader = HopLogReader(tmp_path)
    reader.check()
    assert [(gap.first, gap.last) for gap in reader.gaps] == [(7, 9)]


def test_an_old_file_that_could_not_be_closed_is_opened_as_its_name_does_not_tell_what_it_holds(
    tmp_path: Path,
) -> None:
    other = f"alpha.example/{BORN_MS:012x}-1-11"
    files_written_at(tmp_path, [BORN_MS / 1000 - 1_800 * back for back in reversed(range(100))], other)
    (tmp_path / "hops-alpha.example-1-9-9.jsonl").rename(tmp_path / "open-9.jsonl")
    reader = HopLogReader(tmp_path)
    assert reader.find(SMUID) == []
    assert reader.gaps == []


def test_what_is_no_smuid_is_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(HeaderRefusal):
        HopLogReader(tmp_path).find("news")
