"""What texts that come again and again were read as; within bounds, whoever writes them."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

CHARACTERS_MAX: Final = 250_000
"""Of all texts of one kind; what they were read as takes some twenty bytes for each at worst."""


class Remembered(Generic[T]):
    """Reads a text once, as long as not too many others come in between. What cannot be read raises again."""

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = read
        self._known: dict[str, T] = {}
        self._characters = 0

    def __call__(self, text: str) -> T:
        """What the text is read as."""
        found = self._known.get(text)
        if found is None:
            found = self._read(text)
            self._characters += len(text)
            if self._characters > CHARACTERS_MAX:
                self._known.clear()
                self._characters = len(text)
            self._known[text] = found
        return found
