"""Ordered delivery: a subscription that asks for it gets each publisher's messages by Sequence.

SMQP SEQUENCE leaves it to the subscriber to hold back what came too early. Here the server does it for
subscriptions of mode ALL: a message waits for its predecessor, but never longer than `WAIT_S`, so that
one number that never comes holds nobody up. What comes after its successor was let go is handed on at
once: late is better than never.
"""

from typing import Final

import msgspec

from routing.queue import GONE, Entry

WAIT_S: Final = 5.0
"""Long enough for a slower path between sites, short enough for a person who waits."""

PUBLISHERS_MAX: Final = 10_000
"""Accounts and channels whose next number a subscription remembers: anybody can publish as ever others."""


class _Publisher(msgspec.Struct):
    next: int
    early: dict[int, Entry]
    since: float


class SequenceOrder:
    """What one subscription holds back, by publisher."""

    __slots__ = ("_early", "_publishers")

    def __init__(self) -> None:
        self._publishers: dict[str, _Publisher] = {}  # who has published last is the last
        self._early: dict[str, _Publisher] = {}  # those who have something held back, the longest first

    def arrived(self, entry: Entry, publisher: str, sequence: int, now: float) -> list[Entry]:
        """The messages that may go on now that this one is here, in order; it may not be among them."""
        state = self._publishers.pop(publisher, None) or _Publisher(1, {}, now)
        self._publishers[publisher] = state
        if len(self._publishers) > PUBLISHERS_MAX:
            self._make_room()
        if sequence < state.next:
            return [entry]
        if sequence > state.next:
            if not state.early:
                state.since = now
                self._early[publisher] = state
            previous = state.early.get(sequence)
            state.early[sequence] = entry
            return [previous] if previous is not None else []
        state.next += 1
        return [entry, *self._follow(publisher, state, now)]

    def _make_room(self) -> None:
        """Forget who has published nothing for longest, unless something is held back: that goes on soon."""
        while len(self._publishers) > PUBLISHERS_MAX:
            longest = next(iter(self._publishers))
            if longest in self._early:
                return
            del self._publishers[longest]

    def release(self, now: float) -> list[Entry]:
        """Take out what has waited long enough for a number that did not come."""
        out: list[Entry] = []
        while (first := next(iter(self._early.items()), None)) is not None:
            publisher, state = first
            if now < state.since + WAIT_S:
                break
            state.next = min(state.early)
            out += self._follow(publisher, state, now)
        return out

    def release_all(self) -> list[Entry]:
        """Take out everything held back, by publisher and Sequence."""
        out: list[Entry] = []
        for state in self._early.values():
            out += [state.early[n] for n in sorted(state.early) if not state.early[n].flags & GONE]
            state.early.clear()
        self._early.clear()
        return out

    def next_release(self) -> float | None:
        """Site time at which `release` is to be called next; None where nothing is held back."""
        return next((state.since + WAIT_S for state in self._early.values()), None)

    def _follow(self, publisher: str, state: _Publisher, now: float) -> list[Entry]:
        out = []
        while (entry := state.early.pop(state.next, None)) is not None:
            state.next += 1
            if not entry.flags & GONE:
                out.append(entry)
        state.since = now
        self._early.pop(publisher, None)
        if state.early:
            self._early[publisher] = state
        return out
