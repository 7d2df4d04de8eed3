"""Numbers for people, of commands and of pages, short: what is exact is in `--json`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from routing.durations import duration
from routing.traffic import Counter

_UNITS: Final = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def bytes_shown(size: float) -> str:
    """`12.3 MiB`, by powers of two, as limits are set."""
    for unit, length in _UNITS:
        if size >= length - length / 2_048:  # of the unit below it would be 1024
            return f"{_three_digits(size / length)} {unit}"
    return f"{size:,.0f} B"


def exactly(number: float) -> str:
    """`1,234.5`: every digit, of a number that somebody has set."""
    return f"{int(number) if number == int(number) else number:,}"


def rate_shown(per_s: float, none: str = "-") -> str:
    """`12.3`, messages a second; or what is shown for none."""
    return _three_digits(per_s) if per_s else none


def counted(number: int, thing: str) -> str:
    """`1 message`, `1,234 messages`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def count_shown(count: int) -> str:
    """`1,234`; `-` for none."""
    return f"{count:,}" if count else "-"


def counts_shown(counted: object, counters: Mapping[str, Counter]) -> str:
    """`1,234 came, 1,230 handed out`: some of what is counted, which are fields by their names."""
    return ", ".join(f"{getattr(counted, name):,} {counter.words}" for name, counter in counters.items())


def guaranteed_shown(held: int, guaranteed: int) -> str:
    """` (2 guaranteed)`, to stand behind how many messages are held; "" where all of them are."""
    return f" ({guaranteed:,} guaranteed)" if guaranteed < held else ""


def time_shown(unix_s: float) -> str:
    """`2026-11-21 10:00:00`, UTC."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"


def duration_shown(seconds: float | None) -> str:
    """`1.5 h`; `-` for None."""
    return "-" if seconds is None else duration(round(seconds * 1e6))


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
