"""Numbers for people: short where they were measured, whole where somebody has set them."""

from pathlib import Path

import pytest

from daemon.terminal.figures import bytes_shown, counted, counts_shown, duration_shown, exactly, rate_shown
from routing.traffic import TOPIC_COUNTERS, Traffic
from tests.support.process import daemon
from tests.support.running import SiteProcess


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1_023, "1,023 B"),
        (1_024, "1 KiB"),
        (2**20 - 513, "1,023 KiB"),
        (2**20 - 512, "1 MiB"),
        (268_435_456, "256 MiB"),
        (2**40 - 1, "1 TiB"),
        (2**53, "8 PiB"),
    ],
)
def test_a_size_has_the_unit_in_which_limits_are_set(size: int, shown: str) -> None:
    assert bytes_shown(size) == shown


def test_a_length_of_time_has_three_digits_and_the_unit_that_fits() -> None:
    times = [None, 0.0, 0.0042, 59.94, 90.0, 3_725.0, 100_000.0]
    assert [duration_shown(each) for each in times] == [
        "-", "0 ms", "4.2 ms", "59.9 s", "1.5 min", "1.03 h", "1.16 d",
    ]  # fmt: skip


def test_one_of_a_thing_is_no_more_than_one() -> None:
    assert [counted(number, "message") for number in (0, 1, 2_000)] == [
        "0 messages",
        "1 message",
        "2,000 messages",
    ]


def test_a_rate_of_many_digits_is_read_in_thousands() -> None:
    assert [rate_shown(rate) for rate in (0, 0.5, 99.94, 12_345.6, 123_456_789_012)] == [
        "-", "0.5", "99.9", "12,346", "123,456,789,012",
    ]  # fmt: skip


def test_what_was_set_is_shown_with_all_its_digits() -> None:
    assert [exactly(number) for number in (0, 1.0, 0.5, 1_234_567, 12_345_678.5, 2**53)] == [
        "0", "1", "0.5", "1,234,567", "12,345,678.5", "9,007,199,254,740,992",
    ]  # fmt: skip


async def test_quotas_are_told_as_they_were_set(tmp_path: Path) -> None:
    site = SiteProcess(tmp_path / "site")
    async with daemon(site.config) as running:
        shown = await site.printed(
            "account", "quotas", "eve", "--publish-rate", "1234567", "--held-messages", "12345678"
        )
    assert "publish     1,234,567/s\n" in shown
    assert "held        0 of 12,345,678\n" in shown
    assert "publish_rate_per_s_max 1,234,567, held_messages_max 12,345,678" in running.log


def test_one_of_what_is_counted_reads_as_many_do() -> None:
    traffic = Traffic()
    traffic.came, traffic.delivered = 1_234, 1
    shown = "1,234 came, 1 handed out, 0 expired, 0 wanted by nobody, 0 dead"
    assert counts_shown(traffic, TOPIC_COUNTERS) == shown
