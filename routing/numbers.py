"""How great the numbers may be that come in: the one place for that, whoever sends or wrote them.

Python's integers have no bounds, SQLite's have 63 bits, and a date ends with the year 9999. What lies beyond
is refused where a link, a file, a header or a log is read, so that nothing behind has to expect it.
"""

from typing import Annotated, Final

import msgspec

SMALL_MAX: Final = 2**31 - 1
"""Of what people choose or sites count: Priority, Depth, attempts, the two numbers of a receipt."""

NUMBER_MAX: Final = 2**63 - 1
"""Of what names something, or adds up over the years; SQLite, Parquet and JVMs hold no more."""

EXACT_MAX: Final = 2**53
"""Of what people set and programs read: above this, a JSON or TOML reader in another language may round."""

TIME_US_MAX: Final = 253_402_300_799_999_999
"""The end of the year 9999, Unix microseconds."""

SECONDS_DIGITS_MAX: Final = 10
"""Before the point, of a length of time: three hundred years."""

SECONDS_MAX: Final = float(10**SECONDS_DIGITS_MAX)
"""A length of time is less than this, or infinite."""

Count = Annotated[int, msgspec.Meta(ge=0, le=SMALL_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Depth = Annotated[int, msgspec.Meta(ge=-1, le=SMALL_MAX)]
TimeUs = Annotated[int, msgspec.Meta(ge=0, le=TIME_US_MAX)]

_DIGITS_MAX: Final = len(str(NUMBER_MAX))


def read_integer(text: str, least: int = 0, greatest: int = NUMBER_MAX) -> int | None:
    """A decimal number, with a minus sign where `least` is below zero; None where it is none, or too great.

    However long the text is, it takes no time.
    """
    digits = text[1:] if least < 0 and text[:1] == "-" else text
    if len(digits) > _DIGITS_MAX or not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if least <= number <= greatest else None
