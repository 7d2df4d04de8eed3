"""For tests of the writer: a hop log that is opened as often as wanted, at a time of theirs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.hops.writer import HopLog
from daemon.settings import HopSettings
from tests.support.hop_log_writer import SERVER, SETTINGS, MovedClock


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def start(tmp_path: Path, clock: MovedClock) -> Callable[..., HopLog]:
    def open_log(boot: int, committed: int, settings: HopSettings = SETTINGS, **options: Any) -> HopLog:
        return HopLog.open(
            tmp_path,
            server=SERVER,
            boot=boot,
            committed_record=committed,
            settings=settings,
            now_us=clock,
            **options,
        )

    return open_log
