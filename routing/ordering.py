"""Ordered delivery: a subscription that asks for it gets each publisher's messages to a topic by Sequence.

SMQP SEQUENCE leaves it to the subscriber to hold back what came too early. Here the server does it for
subscriptions of mode ALL: a message waits for its predecessor, but never longer than `WAIT_S`, so that
one number that never comes holds nobody up. What comes after its successor was let go is handed on at
once: late is better than never.
"""

from collections import OrderedDict
from itertools import islice, takewhile
from typing import Final

import msgspec

from routing.copy_states import is_on_offer
from routing.queue import Entry

WAIT_S: Final = 5.0
"""Long enough for a slower path between sites, short enough for a person who waits."""

PUBLISHERS_MAX: Final = 10_000
"""Accounts and channels whose next number a subscription remembers, of each topic, and as many of which it
holds something back: anybody can publish as ever others."""

RELEASED_MAX: Final = 2_000
"""Publishers of whom what has waited long enough is taken out at once."""

SWEPT_FROM: Final = 100
"""Messages of one publisher that may have ended while they were held back."""

Numbering = tuple[str, str]
"""A topic, and who publishes to it: its numbers are counted for each of both."""


class _Early(msgspec.Struct):
    """What came too early of one publisher to a topic."""

    next: int
    early: dict[int, Entry]
    since: float
    swept_at: int = 0

    @property
    def last(self) -> int:
        """The highest number that has come."""
        return max(self.early, default=self.next - 1)


class SequenceOrder:
    """What one subscription holds back, by topic and publisher."""

    __slots__ = ("_early", "_publishers")

    def __init__(self) -> None:
        # both are queues, too, and a dict takes longer to its first with each that was taken out before it
        # the next number; who published last is last
        self._publishers: OrderedDict[Numbering, int] = OrderedDict()
        # all others, the one that waits longest first
        self._early: OrderedDict[Numbering, _Early] = OrderedDict()

    def arrived(self, entry: Entry, address: str, sequence: int, now: float) -> list[Entry]:
        """The messages that may go on now that this one, published by `address`, is here, in order.

        It may not be among them.
        """
        publisher = entry.topic.name, address
        state = self._early.get(publisher)
        if state is None:
            expected = self._publishers.pop(publisher, 1)
            if sequence > expected:
                self._early[publisher] = _Early(expected, {sequence: entry}, now)
                return self._make_room()
            self._remember(publisher, max(expected, sequence + 1))
            return [entry]
        if sequence < state.next:
            return [entry]
        if sequence > state.next:
            previous = state.early.get(sequence)
            state.early[sequence] = entry
            if len(state.early) > max(SWEPT_FROM, state.swept_at):
                state.early = {number: each for number, each in state.early.items() if is_on_offer(each)}
                state.swept_at = 2 * len(state.early)
            return [previous] if previous is not None else []
        state.next += 1
        return [entry, *self._follow(publisher, state, now)]

    def _remember(self, publisher: Numbering, expected: int) -> None:
        """Remember the next number of one of whom nothing is held back; forget who was silent for longest."""
        self._publishers[publisher] = expected
        if len(self._publishers) > PUBLISHERS_MAX:
            self._publishers.popitem(last=False)

    def _make_room(self) -> list[Entry]:
        """Take out all that is held back of the one that waits longest, where those are too many."""
        if len(self._early) <= PUBLISHERS_MAX:
            return []
        publisher, state = self._early.popitem(last=False)
        self._remember(publisher, state.last + 1)
        return _in_order(state)

    def release(self, now: float) -> list[Entry]:
        """Take out what has waited long enough for a number that did not come; of very many, some at once."""
        out: list[Entry] = []
        late = takewhile(lambda each: now >= each[1].since + WAIT_S, self._early.items())
        for publisher, state in list(islice(late, RELEASED_MAX)):
            waiting = (number for number, entry in state.early.items() if is_on_offer(entry))
            state.next = min(waiting, default=state.last + 1)
            state.early = {number: entry for number, entry in state.early.items() if number >= state.next}
            out += self._follow(publisher, state, now)
        return out

    def release_all(self) -> list[Entry]:
        """Take out everything held back, by topic, publisher and Sequence."""
        out: list[Entry] = []
        while self._early:
            publisher, state = self._early.popitem(last=False)
            self._remember(publisher, state.next)
            out += _in_order(state)
        return out

    def next_release(self) -> float | None:
        """Site time at which `release` is to be called next; None where nothing is held back."""
        return next((state.since + WAIT_S for state in self._early.values()), None)

    def _follow(self, publisher: Numbering, state: _Early, now: float) -> list[Entry]:
        out = []
        while (entry := state.early.pop(state.next, None)) is not None:
            state.next += 1
            if is_on_offer(entry):
                out.append(entry)
        if state.early:
            state.since = now
            self._early.move_to_end(publisher)
        else:
            del self._early[publisher]
            self._remember(publisher, state.next)
        return out


def _in_order(state: _Early) -> list[Entry]:
    return [state.early[number] for number in sorted(state.early) if is_on_offer(state.early[number])]
