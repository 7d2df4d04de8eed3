"""How many examples a property is held against: all in a whole run, fewer in a quick one."""

from typing import Final

from hypothesis import settings

WHOLE: Final = 100
"""So many Hypothesis draws where nothing else is said."""

QUICK: Final = 25
"""As many of them in the profile `quick`."""


def examples(whole: int) -> int:
    """Of `whole`, the share that the profile of this run takes; to be asked when a module is imported."""
    return max(1, whole * settings().max_examples // WHOLE)
