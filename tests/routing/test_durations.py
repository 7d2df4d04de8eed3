"""Lengths of time as people read them."""

import pytest

from routing.durations import duration


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (0, "0 ms"),
        (12, "0.012 ms"),
        (12_345, "12.3 ms"),
        (999_900, "1000 ms"),
        (1_500_000, "1.5 s"),
        (90_000_000, "1.5 min"),
        (5_400_000_000, "1.5 h"),
        (129_600_000_000, "1.5 d"),
        (-12_345, "-12.3 ms"),
    ],
)
def test_durations_read_well(us: int, words: str) -> None:
    assert duration(us) == words
