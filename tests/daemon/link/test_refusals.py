"""Whoever is refused, and for whatever, fills no log."""

import logging

import pytest
from trio.testing import MockClock

from daemon.link.refusals import Refusals
from daemon.system.limited_log import AT_ONCE


async def test_a_flood_of_ever_others_who_are_refused_is_counted(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    refusals = Refusals(logging.getLogger("test"))
    for number in range(3_000):
        refusals.log(f"10.0.{number // 250}.{number % 250}", "a stranger", "it does not speak TLS")
    assert len(caplog.messages) == AT_ONCE
    mock_clock.jump(1)
    refusals.log("10.1.0.1", "another", "it shows no certificate")
    assert caplog.messages[-2:] == [
        "2900 more refusals are not in the log: too many at once",
        "refused another: it shows no certificate",
    ]


async def test_who_is_refused_again_is_said_once_a_minute(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    refusals = Refusals(logging.getLogger("test"))
    for _ in range(3):
        refusals.log("10.0.0.1", "a stranger", "it does not speak TLS")
    assert len(caplog.messages) == 1
    mock_clock.jump(60)
    refusals.log("10.0.0.1", "a stranger", "it does not speak TLS")
    assert len(caplog.messages) == 2
