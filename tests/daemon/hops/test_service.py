import math
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemon.hops.files import list_files
from daemon.hops.reader import HopLogReader
from daemon.hops.service import keep
from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from routing.hops import HopRecord
from tests.support.virtual_time import virtual_clock

EPOCH_S = 1_795_000_000


class Broker:
    """What the service asks of one."""

    def __init__(self) -> None:
        self.copies = 7
        self.is_idle = True

    def held(self) -> int:
        return self.copies

    def idle(self) -> bool:
        return self.is_idle


@pytest.fixture
def clock() -> MockClock:
    """Virtual time that also waits for threads, which take none of it."""
    return virtual_clock(autojump_threshold=0.01)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
async def log(tmp_path: Path, broker: Broker, nursery: trio.Nursery) -> HopLog:
    """A log that is kept, on virtual time."""
    log = HopLog.open(
        tmp_path,
        server="alpha.example",
        boot=1,
        committed_record=0,
        settings=HopSettings(),
        now_us=lambda: int((EPOCH_S + trio.current_time()) * 1e6),
    )
    await nursery.start(partial(keep, log, tmp_path, HopSettings(), held=broker.held, idle=broker.idle))
    return log


def read(directory: Path) -> list[HopRecord]:
    return list(HopLogReader(directory).records())


async def test_a_boot_is_on_record_before_anything_happens_in_it(
    clock: MockClock, log: HopLog, tmp_path: Path
) -> None:
    assert [record.event for record in read(tmp_path)] == ["heartbeat"]


async def test_a_heartbeat_opens_the_log_and_one_a_minute_says_what_is_held(
    clock: MockClock, log: HopLog, broker: Broker, tmp_path: Path
) -> None:
    await trio.sleep(61)
    broker.copies = 8
    await trio.sleep(60)
    assert [(record.event, record.held) for record in read(tmp_path)] == [
        ("heartbeat", 7),
        ("heartbeat", 7),
        ("heartbeat", 8),
    ]


async def test_a_record_without_a_batch_is_written_soon(
    clock: MockClock, log: HopLog, tmp_path: Path
) -> None:
    await trio.sleep(1)
    log.append("denied", reason="no right to publish")
    await trio.sleep(0.2)
    assert [record.event for record in read(tmp_path)] == ["heartbeat", "denied"]


async def test_while_a_batch_is_on_its_way_writing_is_left_to_it(
    clock: MockClock, log: HopLog, broker: Broker, tmp_path: Path
) -> None:
    await trio.sleep(1)
    broker.is_idle = False
    log.append("published", topic="not committed yet")
    await trio.sleep(3)
    assert [record.event for record in read(tmp_path)] == ["heartbeat"]


async def test_while_there_is_a_batch_a_heartbeat_is_left_to_who_has_its_decisions_on_record(
    clock: MockClock, log: HopLog, broker: Broker, tmp_path: Path
) -> None:
    await trio.sleep(59)
    broker.is_idle, broker.copies = False, 8
    await trio.sleep(3)
    log.append("published", topic="decided a while ago")
    log.beat(broker.held())
    broker.is_idle = True
    await trio.sleep(1)
    assert [(record.event, record.held) for record in read(tmp_path)] == [
        ("heartbeat", 7),
        ("published", 0),
        ("heartbeat", 8),
    ]


async def test_a_heartbeat_that_is_late_for_a_batch_comes_once_that_is_done(
    clock: MockClock, log: HopLog, broker: Broker, tmp_path: Path
) -> None:
    await trio.sleep(59)
    broker.is_idle = False
    await trio.sleep(3)
    broker.is_idle, broker.copies = True, 8
    await trio.sleep(0.1)
    assert [record.held for record in read(tmp_path)] == [7, 8]


async def test_a_heartbeat_that_is_reverted_is_owed_again(clock: MockClock, log: HopLog) -> None:
    log.owes_heartbeat = True
    log.append("published", topic="the store fails")
    log.beat(8)
    assert not log.owes_heartbeat
    log.revert()
    assert log.owes_heartbeat


async def test_a_quiet_site_closes_files_too(clock: MockClock, log: HopLog, tmp_path: Path) -> None:
    await trio.sleep(185)
    closed = ["hops-alpha.example-1-1-2.jsonl", "hops-alpha.example-1-3-4.jsonl"]
    clock.autojump_threshold = math.inf
    while [file.path.name for file in list_files(tmp_path)] != closed:  # a thread syncs and renames them
        await trio.testing.wait_all_tasks_blocked(0.01)
