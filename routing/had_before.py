"""What a subscription to a pattern has had already of topics to which its account may get the right again."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from routing.copy_states import is_kept
from routing.patterns import AnyPattern
from routing.queue import Entry

PATTERNS_MAX: Final = 100
"""What was allowed at different times, and is told apart; what is forgotten of it comes again."""


class HadBefore:
    """Which messages that are kept in topics it has had: those do not come again with the right.

    What there was of a topic as its right went it has had, but for what it was not done with. So nothing has
    to be looked for in the topics, of which there may be very many.
    """

    __slots__ = ("_finished", "_unfinished", "_until")

    def __init__(self) -> None:
        self._until: dict[str, tuple[AnyPattern, int]] = {}  # the last id that there was, by what was allowed
        self._unfinished: set[int] = set()  # but for these
        self._finished: set[int] = set()

    def includes(self, entry: Entry) -> bool:
        """Whether the subscription has had a message that a topic keeps, or has it in hand."""
        if entry.id in self._unfinished:
            return False
        name = entry.topic.name
        return entry.id in self._finished or any(
            entry.id <= last_id and pattern.covers(name) for pattern, last_id in self._until.values()
        )

    def finish(self, id: int) -> None:
        """Note a message that it is done with."""
        self._finished.add(id)

    def lack(self, id: int) -> None:
        """Note a message that it has given back, or that has come only now, without the right."""
        self._finished.discard(id)
        self._unfinished.add(id)

    def lost(
        self, allowed: Sequence[str], last_id: int, unfinished: Iterable[Entry], entries: Mapping[int, Entry]
    ) -> "HadBefore":
        """The same once rights change from the patterns `allowed`, and `unfinished` is given up.

        `last_id` is of the newest message, `entries` are those that there are.
        """
        then, had = HadBefore(), AnyPattern(allowed)
        until = {each: (AnyPattern((each,)), last_id) for each in allowed}
        until |= {each: before for each, before in reversed(self._until.items()) if each not in until}
        then._until = dict(reversed(list(islice(until.items(), PATTERNS_MAX))))
        then._finished = {id for id in self._finished if id in entries}
        then._unfinished = {
            id for id in self._unfinished if id in entries and not had.covers(entries[id].topic.name)
        }
        then._unfinished.update(entry.id for entry in unfinished if is_kept(entry))
        return then
