"""Calls of one session that take effect together, or not at all.

Checked as they are made, carried out as one when the block ends: with no await in between, what they
decide is in one transaction of the store. If that fails, it is not taken apart but tried again whole, so
that a crash meanwhile undoes all of it. Where something of it can never be stored, or the disk has no room
for it alone, all of it is refused: its messages never were, and what it has finished waits again. But what
removes a message goes on waiting for room, and what it has set of topics stays set.
"""

from collections.abc import Callable, Iterable
from typing import Any

from routing.door import Door
from routing.errors import Refusal
from routing.message import Message
from routing.options import ReturnOutcome
from routing.subscription import Consumer


class Transaction:
    """What was called so far; `publisher` is the session's Account header."""

    def __init__(self, door: Door, consumer: Consumer, publisher: str) -> None:
        self._door = door
        self._consumer = consumer
        self._publisher = publisher
        self._steps: list[Callable[[], None]] = []
        self._settled: set[int] = set()
        self._published: dict[str, list[int]] = {}
        self._to_system_topics: list[tuple[str, int, bool]] = []
        self._removes = False
        self.published = 0
        """Messages that were added."""
        self.memory_bytes = 0
        """Of these: see `Message`."""

    def publish(self, topic: str, message: Message, head: bytes, delay_s: float) -> None:
        """Add a message that was checked like any other, but for the room in its topic.

        See `Publishing.publish`; a delay begins when the block ends.
        """
        self.published += 1
        self.memory_bytes += message.memory_bytes
        self._published.setdefault(topic, []).append(message.size_bytes)
        wants_receipt = message.receipt != "NONE"
        if "@" in topic or wants_receipt:  # what has neither is to no system topic; the rest is judged there
            self._to_system_topics.append((topic, message.size_bytes, wants_receipt))
        publish = self._door.publish
        self._steps.append(
            lambda: publish(
                self._consumer,
                topic,
                message,
                self._publisher,
                None,
                together=True,
                head=head,
                delay_s=delay_s,
            )
        )

    @property
    def published_bytes(self) -> int:
        """Of all messages that were added."""
        return sum(map(sum, self._published.values()))

    def commit(self, numbers: Iterable[int]) -> None:
        """Add that these deliveries are finished. Raises Refusal (lock-lost)."""
        held = self._take(numbers)
        self._steps.append(lambda: self._door.commit(self._consumer, held, None))

    def give_back(self, numbers: Iterable[int], reason: str, delay_s: float, outcome: ReturnOutcome) -> None:
        """Add that these deliveries are given back. Raises Refusal (lock-lost)."""
        held = self._take(numbers)
        self._steps.append(lambda: self._door.give_back(self._consumer, held, reason, delay_s, None, outcome))

    def remove(self, topic: str, smuid: str) -> None:
        """Add that a message is removed. Raises Refusal (not-found)."""
        self._door.check_removable(topic, smuid)
        self._removes = True
        self._steps.append(lambda: self._door.remove(self._consumer, topic, smuid, None))

    def change(self, change: Callable[[], None]) -> None:
        """Add a change, which has been checked, of what is kept with a topic."""
        self._steps.append(change)

    def _take(self, numbers: Iterable[int]) -> list[int]:
        taken = list(numbers)
        for number in taken:
            if number not in self._consumer.locks or number in self._settled:
                raise Refusal(Refusal.LOCK_LOST, f"not held by this session, or no longer: {number}")
            self._settled.add(number)
        return taken

    def carry_out(self, request: Any) -> None:
        """Do all that was called. Raises Refusal (queue-full), and then has done nothing of it."""
        room = self._door.room
        for topic, sizes in self._published.items():
            room.check(topic, len(sizes), sum(sizes))
        if self._published:
            room.check_share(self._consumer.account, self.published, self.published_bytes)
        if self._to_system_topics:
            room.check_system(self._publisher, self._to_system_topics)
        self._door.begin_together(removes=self._removes)
        failed = None
        try:
            for step in self._steps:
                step()
        except Exception as error:  # of ours: the broker undoes all of it, and refuses the request
            failed = error
        self._door.end_together(self._consumer, request, failed)
