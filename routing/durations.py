"""Lengths of time, for people."""


def duration(us: int) -> str:
    """A length of time for people, in the unit that suits it."""
    sign, size = ("-", -us) if us < 0 else ("", us)
    for unit, length_us in (
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
    ):
        if size >= length_us:
            return f"{sign}{_short(size / length_us)} {unit}"
    return f"{sign}{_short(size / 1000)} ms"


def _short(number: float) -> str:
    """Three digits are enough, but no powers of ten."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
