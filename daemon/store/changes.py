"""What one transaction does to one kind of stored thing; see `daemon.store.batch`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from routing.peering.copies import Copy

Values = tuple[Any, ...]
Statement = tuple[str, Collection[Values]]
"""A statement, and for which rows it is executed."""


class Surroundings(msgspec.Struct, frozen=True):
    """What is stored besides what decisions say.

    Attributes:
        server: the name of this site.
        now: site time.
        stopped_s: how much of it the site has not run in, all its stops together.
        wall_us: Unix time, microseconds.
        copies: by entry id, what is held and may cross links.
    """

    server: str
    now: Callable[[], float]
    stopped_s: Callable[[], float]
    wall_us: Callable[[], int]
    copies: Mapping[int, Copy]


class Changes(ABC):
    """Gathers the rows of one transaction, and is emptied for the next.

    Attributes:
        gathered: the containers of rows; there are none to write where all are empty.
        handlers: what takes each kind of decision that is of this thing alone.
    """

    def __init__(self, *gathered: Any) -> None:
        self.gathered = gathered
        self.handlers: dict[type, Callable[[Any], None]] = {}

    def __bool__(self) -> bool:
        return any(self.gathered)

    def clear(self) -> None:
        """Forget everything."""
        for rows in self.gathered:
            rows.clear()

    @abstractmethod
    def statements(self) -> Iterator[Statement]:
        """What to execute, in order; what has no rows is passed over."""
