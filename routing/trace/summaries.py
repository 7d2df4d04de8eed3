"""What a run says of itself (`batch.run`, `batch.summarize`), as far as that depends on how much there is."""

from collections.abc import Sequence
from typing import Any, Final

NAMED_MAX: Final = 50
"""So many names of a kind a summary has at most."""


def counted(number: int, thing: str, things: str = "") -> str:
    """So many of a thing: 1 record, 2,000 records."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names of a summary, which does not say whether there are more than it has room for."""
    return ", ".join(names) + (f" (only {NAMED_MAX} are named here)" if len(names) >= NAMED_MAX else "")


def records_read(found: dict[str, Any]) -> int:
    """How many lines of the logs of a run were records, those that earlier runs have read as well."""
    return int(found["aside"]["lines"] - sum(found["aside"]["reasons"].values()))
