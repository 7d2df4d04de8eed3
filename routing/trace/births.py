"""The day on which a message was born, as its Smuid tells: routes and records are kept by it."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from routing.hop_words import SMUID_IN_LOGS
from routing.names import birth_ms


def birthday(smuid: str) -> str | None:
    """The UTC day of birth, `YYYY-MM-DD`; None where this can be the id of no message in any table."""
    if re.fullmatch(SMUID_IN_LOGS, smuid) is None:
        return None
    try:
        return datetime.fromtimestamp(birth_ms(smuid) / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def birthdays(smuids: Iterable[str]) -> list[str]:
    """The UTC days on which any of these messages was born, in order."""
    return sorted({day for day in map(birthday, smuids) if day is not None})
