import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daemon.hops.examine import examine
from daemon.hops.files import RECORD_MAX, closed_name, list_files
from daemon.hops.open_file import close_file
from daemon.hops.reader import HopLogReader
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from daemon.store.columns import BOOT_MAX
from routing.hops import HopRecord
from routing.names import OWN_NAME_MAX
from tests.support.hop_log_writer import SERVER, MovedClock, batch, names, numbers


def test_a_record_is_one_line_without_its_defaults(
    start: Callable[..., HopLog], clock: MovedClock, tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    log.append("published", smuid="alpha.example/1-1-1", topic="news", size=3)
    log.flush()
    assert (tmp_path / "open-1.jsonl").read_bytes() == (
        b'{"version":1,"server":"alpha.example:7200","boot":1,"record":1,"time_us":1795000000000000,'
        b'"event":"published","smuid":"alpha.example/1-1-1","topic":"news","size":3}\n'
    )


def test_records_wait_in_memory_until_they_are_flushed(start: Callable[..., HopLog], tmp_path: Path) -> None:
    log = start(boot=1, committed=0)
    log.append("published", topic="news")
    assert log.last_record == 1
    assert names(tmp_path) == []
    assert log.flush() == 1
    assert numbers(tmp_path) == [1]


def test_a_closed_file_is_named_for_what_it_holds(start: Callable[..., HopLog], tmp_path: Path) -> None:
    log = start(boot=3, committed=0)
    batch(log, 5)
    log.close()
    assert names(tmp_path) == ["hops-alpha.example_7200-3-1-5.jsonl"]
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]


def test_after_a_kill_what_the_store_did_not_commit_is_cut_away(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    killed = start(boot=1, committed=0)
    batch(killed, 4)
    killed.append("published", topic="never accepted")
    killed.flush()

    log = start(boot=2, committed=4)
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-4.jsonl"]
    batch(log, 2)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_the_first_record_of_a_boot_and_no_other_names_the_last_of_the_boot_before(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    batch(start(boot=1, committed=0), 4)
    log = start(boot=2, committed=4)
    batch(log, 2)
    batch(log, 1)
    assert [record.previous for record in HopLogReader(tmp_path).records()] == [0, 0, 0, 0, 4, 0, 0]


def test_a_tail_that_a_power_loss_took_shows_as_a_gap(start: Callable[..., HopLog], tmp_path: Path) -> None:
    batch(start(boot=1, committed=0), 4)
    batch(start(boot=2, committed=10), 1)
    assert numbers(tmp_path) == [1, 2, 3, 4, 11]
    assert [record.previous for record in HopLogReader(tmp_path).records()][-1] == 10


def test_a_torn_last_line_is_cut_away_even_where_the_store_committed_it(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    batch(start(boot=1, committed=0), 4)
    torn = tmp_path / "open-1.jsonl"
    os.truncate(torn, torn.stat().st_size - 7)
    start(boot=2, committed=4)
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-3.jsonl"]
    assert (tmp_path / names(tmp_path)[0]).read_bytes().endswith(b"}\n")


def test_what_a_start_closes_is_as_old_as_it_was(start: Callable[..., HopLog], tmp_path: Path) -> None:
    """Else retention takes all that follows it for as new as the start."""
    batch(start(boot=1, committed=0), 2)
    os.utime(tmp_path / "open-1.jsonl", (1_795_000_000, 1_795_000_000))
    start(boot=2, committed=2)
    [closed] = list_files(tmp_path)
    assert (closed.last, closed.written_s) == (2, 1_795_000_000)


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b'{"version":1,"server":"a', b"[" * 100_000])
def test_an_open_file_that_holds_no_record_is_deleted(
    start: Callable[..., HopLog], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "open-1.jsonl").write_bytes(content)
    batch(start(boot=2, committed=0), 1)
    assert numbers(tmp_path) == [1]


def test_no_file_has_a_longer_name_than_a_file_can_have() -> None:
    assert len(closed_name(OWN_NAME_MAX * "a", BOOT_MAX, RECORD_MAX, RECORD_MAX)) <= 255


def test_numbers_continue_after_closed_files_that_the_store_does_not_know(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    """An idle site logs heartbeats, and closes files of them, without a batch of the store."""
    log = start(boot=1, committed=0)
    batch(log, 5)
    log.close()
    batch(start(boot=2, committed=2), 1)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_numbers_do_not_continue_after_a_name_with_a_number_that_no_log_has_reached(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    (tmp_path / f"hops-alpha.example_7200-1-1-{2**63 - 1}.jsonl").write_bytes(b"")
    batch(start(boot=2, committed=2), 1)
    assert numbers(tmp_path) == [3]


def test_a_start_that_was_killed_half_way_is_simply_repeated(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    killed = start(boot=1, committed=0)
    batch(killed, 4)
    start(boot=2, committed=3)
    start(boot=3, committed=3)
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-3.jsonl"]


def test_a_file_is_finished_at_its_age_once_everything_in_it_is_committed(
    start: Callable[..., HopLog], clock: MovedClock, tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    batch(log, 1)
    clock.us += 60_000_000
    log.append("published", topic="in a batch that is being committed")
    record = log.flush()
    assert log.take_finished() == []

    log.settle(record)
    (finished,) = log.take_finished()
    batch(log, 1)
    assert names(tmp_path) == ["open-1.jsonl", "open-3.jsonl"]

    close_file(finished)
    assert names(tmp_path) == ["hops-alpha.example_7200-1-1-2.jsonl", "open-3.jsonl"]
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_file_is_finished_at_its_size(start: Callable[..., HopLog], tmp_path: Path) -> None:
    log = start(boot=1, committed=0, settings=HopSettings(file_bytes_max=4_096))
    written = 0
    while not (finished := log.take_finished()):
        written = batch(log, 1)
    assert written * 150 < 4_096 < written * 250
    close_file(finished[0])
    assert (tmp_path / names(tmp_path)[0]).stat().st_size >= 4_096


def test_an_empty_log_makes_no_files_however_old_it_gets(
    start: Callable[..., HopLog], clock: MovedClock, tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    clock.us += 3_600_000_000
    log.settle(log.flush())
    log.close()
    assert names(tmp_path) == []


def test_a_clock_set_back_finishes_the_file(start: Callable[..., HopLog], clock: MovedClock) -> None:
    log = start(boot=1, committed=0)
    batch(log, 1)
    clock.us -= 86_400_000_000
    batch(log, 1)
    assert len(log.take_finished()) == 1


def test_a_commit_that_failed_leaves_no_record_of_its_batch(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    settled = batch(log, 2)
    log.append("published", topic="refused after all")
    log.flush()
    log.append("published", topic="gathered meanwhile")
    log.revert()
    assert log.last_record == settled
    assert numbers(tmp_path) == [1, 2]
    batch(log, 1)
    assert numbers(tmp_path) == [1, 2, 3]


def test_what_came_true_without_a_transaction_stays_when_the_next_one_fails(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    log.append("delivered", topic="true")
    log.confirm()
    log.append("published", topic="failed")
    log.flush()
    log.revert()
    log.append("published", topic="again")
    log.flush()
    assert [record.topic for record in HopLogReader(tmp_path).records()] == ["true", "again"]
    assert numbers(tmp_path) == [1, 2]


def test_what_came_true_stays_when_the_next_transaction_fails_before_it_is_written(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    log.append("delivered", topic="true")
    log.confirm()
    log.append("published", topic="failed")
    log.revert()
    batch(log, 1)
    assert [record.topic for record in HopLogReader(tmp_path).records()] == ["true", "news"]
    assert numbers(tmp_path) == [1, 2]


def test_only_the_batches_after_the_settled_one_are_reverted(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(boot=1, committed=0)
    log.append("published", topic="committed")
    first = log.flush()
    log.append("published", topic="failed")
    log.flush()
    log.settle(first)
    log.revert()
    log.append("published", topic="again")
    log.flush()
    assert [record.topic for record in HopLogReader(tmp_path).records()] == ["committed", "again"]
    assert numbers(tmp_path) == [1, 2]


def test_the_first_batch_of_a_boot_tells_of_the_boot_before_also_when_it_is_repeated(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(boot=2, committed=9)
    log.append("published")
    log.flush()
    log.revert()
    assert names(tmp_path) == []
    batch(log, 1)
    assert [(record.record, record.previous) for record in HopLogReader(tmp_path).records()] == [(10, 9)]


def test_every_field_of_a_record_that_is_not_the_logs_own_can_be_given(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    given = HopRecord(
        version=1, server=SERVER, boot=1, record=1, time_us=1_795_000_000_000_000, event="forwarded",
        smuid="s", topic="t", peer="p", account="a", subscription="u", mode="ONE", depth=-1, attempt=2,
        hops=("x", "y"), size=9, priority=4, guarantee=False, final=True, reason="r", receipt="1/2",
        outcome="loop", sent_us=5, peer_received_us=6, peer_sent_us=7, acknowledged_us=9,
        held=8,
    )  # fmt: skip
    fields = msgspec.structs.asdict(given)
    for own in ("version", "server", "boot", "record", "time_us", "previous"):
        del fields[own]
    log = start(boot=1, committed=0)
    log.append(**fields)
    log.flush()
    assert list(HopLogReader(tmp_path).records()) == [given]


UNENCODABLE = "half a pair: \ud800"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_record_that_cannot_be_encoded_is_missing_and_the_others_are_there(
    start: Callable[..., HopLog], tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    batch(log := start(1, 0), 2)
    for number in range(3):
        log.append(
            "published",
            smuid="alpha.example/0198c3a1b2c3-1-9",
            topic="news" if number != place else UNENCODABLE,
        )
    log.settle(log.flush())
    batch(log, 1)
    assert log.lost_records == 1
    assert numbers(tmp_path) == [number for number in range(1, 7) if number != 3 + place]
    assert f"record {3 + place} of the hop log" in caplog.text
    log.close()
    [gap] = examine(tmp_path, "alpha.example/0198c3a1b2c3-1-0").gaps
    assert (gap.first, gap.last) == (3 + place, 3 + place)


def test_the_first_record_of_a_boot_tells_of_the_one_before_though_it_cannot_be_encoded(
    start: Callable[..., HopLog], tmp_path: Path
) -> None:
    log = start(1, 0)
    batch(log, 2)
    log.close()
    log = start(2, 2)
    log.append("published", topic=UNENCODABLE)
    log.append("published", topic="news")
    log.settle(log.flush())
    assert [(record.record, record.previous) for record in HopLogReader(tmp_path).records()][2:] == [(4, 2)]


def test_a_record_that_cannot_be_made_has_its_number(start: Callable[..., HopLog], tmp_path: Path) -> None:
    log = start(1, 0)
    batch(log, 1)
    log.skip()
    batch(log, 1)
    assert numbers(tmp_path) == [1, 3]
    assert log.lost_records == 1
