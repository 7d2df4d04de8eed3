"""Whoever brings lines of the log about cannot fill it."""

import logging

import pytest
from trio.testing import MockClock

from daemon.system.limited_log import AT_ONCE, LimitedLog


async def test_a_flood_is_counted_and_not_written(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    log = LimitedLog(logging.getLogger("test"), "logins")
    for number in range(1_000):
        log.log(logging.WARNING, "login %d", number)
    assert len(caplog.messages) == AT_ONCE
    mock_clock.jump(1)
    log.log(logging.WARNING, "the next one")
    assert caplog.messages[-2:] == ["900 more logins are not in the log: too many at once", "the next one"]
