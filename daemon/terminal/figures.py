"""Numbers for people, short: what is exact is in `--json`."""

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def bytes_shown(size: int) -> str:
    """`12.3 MB`, by powers of ten."""
    for unit, length in _UNITS:
        if size >= 0.9995 * length:  # of the unit below it would be 1000
            return f"{_three_digits(size / length)} {unit}"
    return f"{size} B"


def exactly(number: float) -> str:
    """`1,234.5`: every digit, of a number that somebody has set."""
    return f"{int(number) if number == int(number) else number:,}"


def rate_shown(per_s: float, none: str = "-") -> str:
    """`12.3`, messages a second; or what is shown for none."""
    return _three_digits(per_s) if per_s else none


def count_shown(count: int) -> str:
    """`1,234`; `-` for none."""
    return f"{count:,}" if count else "-"


def time_shown(unix_s: float) -> str:
    """`2026-11-21 10:00:00`, UTC."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"


def age_shown(seconds: float | None) -> str:
    """`1.5 h`; `-` for None."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{_three_digits(seconds / length)} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
