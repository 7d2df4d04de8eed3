"""What may stand in columns, for the rows of `daemon.store.tables`: whatever else is read there is damage."""

import math
import re
from typing import Annotated, Final, Literal

import msgspec

from routing.names import ACCOUNT_PATTERN, CHANNEL_PATTERN, SERVER_PATTERN, SMUID_PATTERN
from routing.numbers import SECONDS_MAX
from routing.queue import COUNTER_BITS

BOOT_MAX: Final = 2 ** (63 - COUNTER_BITS) - 2
"""Of a site; its numbers of messages begin with it, and the next start needs one more."""

Flag = Literal[0, 1]

SiteTime = Annotated[float, msgspec.Meta(ge=0.0, le=4 * SECONDS_MAX)]
"""Seconds: a site that is as old as lengths of time may be, and deadlines and memories beyond that."""

Seconds = Annotated[float, msgspec.Meta(ge=0.0)]
"""A length of time, also one without end."""

BirthMs = Annotated[int, msgspec.Meta(ge=0, le=2**48 - 1)]
"""As many as a Smuid has digits for."""

SmuidText = Annotated[str, msgspec.Meta(pattern=rf"^{SMUID_PATTERN}\Z")]
is_smuid: Final = re.compile(SMUID_PATTERN).fullmatch
"""The same for `Table.checks`: a pattern in a type takes three times as long."""

AddressText = Annotated[
    str, msgspec.Meta(pattern=rf"^{ACCOUNT_PATTERN}:{CHANNEL_PATTERN}@{SERVER_PATTERN}\Z")
]
TopicText = Annotated[str, msgspec.Meta(pattern=r"^[^\s\x00-\x1f\x7f-\x9f/*#>]+\Z", max_length=300)]
"""As in `routing.names`; those of earlier versions may be longer by what dead letters begin with."""

_LEVEL: Final = r"(?:\*|[^\s\x00-\x1f\x7f-\x9f/*#>.]*)"
WantedText = Annotated[
    str, msgspec.Meta(pattern=rf"^(?=.)(?:{_LEVEL}(?:\.{_LEVEL})*(?:\.#)?|#)\Z", max_length=300)
]
"""The name of a topic, or a pattern."""

NO_DEADLINE: Final = None
"""In the place of infinity."""


def deadline_column(deadline: float) -> float | None:
    """A deadline as it is stored."""
    return NO_DEADLINE if deadline == math.inf else deadline


def deadline_of(column: float | None) -> float:
    """A deadline as it was stored."""
    return math.inf if column is None else column
