"""What has come true for one session, until its front end has sent it.

The session is paused, and gets no more messages, while more than `PENDING_BYTES_MAX` wait for its front
end to send them: a slow reader holds up its own subscriptions and costs a bounded amount of memory.
"""

from collections.abc import Callable
from typing import Final, cast

import msgspec
import trio

from daemon.broker.bodies import Stored
from daemon.broker.reading import Reading
from daemon.frontend import Delivered, Ending, SessionEvent
from daemon.system.clock import Clock
from routing.door import Door
from routing.subscription import Consumer

PENDING_BYTES_MAX: Final = 1_048_576
EVENTS_BYTES: Final = 262_144
EVENT_BYTES: Final = 200
"""What an event costs besides its message, roughly."""


class UnreadDelivery(msgspec.Struct, frozen=True):
    """A delivery whose message is on disk only: an event once that has been read."""

    message_id: int
    size: int
    delivered: Callable[[Stored], Delivered]


OutboxItem = SessionEvent | UnreadDelivery


class Outbox:
    """Events in the order in which they came true; the handle of the session's `Consumer`, which it makes.

    Attributes:
        session_id: of the session whose it is.
        consumer: the session, as the router knows it: what is delivered to that is put here.
        published: messages that the session has published, without those that could not be stored.
        ended: nothing comes any more, and nothing may be asked.
        ended_by: why, as its client is told; "" where it was not the site that ended it.
    """

    def __init__(
        self, session_id: int, account: str, channel: str, door: Door, reading: Reading, clock: Clock
    ) -> None:
        self.session_id = session_id
        self.consumer = Consumer(self, account, channel)
        self.published = 0
        self.ended = False
        self.ended_by = ""
        self._door = door
        self._reading = reading
        self._clock = clock
        self._items: list[OutboxItem] = []
        self._arrived = trio.Event()
        self._is_awaited = False
        self._offer: Callable[[list[SessionEvent]], bool] | None = None
        self._pending_bytes = 0
        self._handed_bytes = 0
        self._paused_at = 0.0

    def put(self, event: OutboxItem) -> None:
        """Hand an event on; called by the broker once it has come true."""
        self.gather(event)
        self._arrived.set()

    def gather(self, event: OutboxItem) -> None:
        """Take an item as `put` does, but to be handed on with others, by `hand_on`."""
        if self.ended:
            return
        self._items.append(event)
        self._pending_bytes += _cost(event)
        if self._pending_bytes > PENDING_BYTES_MAX and self.consumer.open:
            self.consumer.pause()
            self._paused_at = self._clock.now()

    def offer_to(self, take: Callable[[list[SessionEvent]], bool]) -> None:
        """See `offer_events_to` of `daemon.frontend.Session`."""
        self._offer = take

    def hand_on(self) -> None:
        """Hand on what was gathered: to whom it is offered, where nothing is to be read, else by `take`."""
        items, offer = self._items, self._offer
        if (
            offer is None
            or not self._is_awaited
            or self._arrived.is_set()
            or self._pending_bytes > EVENTS_BYTES
            or UnreadDelivery in map(type, items)
            or not offer(cast(list[SessionEvent], items))
        ):
            self._arrived.set()
        else:
            self._items, self._pending_bytes = [], 0

    def unpublish(self, messages: int) -> None:
        """Note that so many messages that the session published never were."""
        self.published -= messages

    def end(self, event: Ending) -> None:
        """Tell the front end to say goodbye; nothing comes after this."""
        self.put(event)
        self.ended = True
        self.ended_by = event.text
        self._arrived.set()

    def close(self) -> None:
        """Forget what is unsent: nobody reads it."""
        self.ended = True
        self._items.clear()
        self._arrived.set()

    @property
    def unsent(self) -> tuple[int, int]:
        """What the front end has still to send: events, and about how many bytes."""
        return len(self._items), self._pending_bytes

    @property
    def paused_s(self) -> float | None:
        """How long the session gets no more messages, since so much is unsent; None where it does."""
        return None if self.consumer.open else self._clock.now() - self._paused_at

    # -- the front end's side ---------------------------------------------------------------------

    async def take(self) -> list[SessionEvent]:
        """See `events` of `daemon.frontend.Session`."""
        self._sent()
        has_waited = False
        while True:
            while not self._items:
                if self.ended:
                    await trio.lowlevel.checkpoint()
                    return []
                await self._wait()
                has_waited = True
            if events := await self._read(has_waited):
                return events
            # all of them had ended before they could be loaded
            self._sent()

    async def _wait(self) -> None:
        self._arrived = trio.Event()
        self._is_awaited = True
        try:
            await self._arrived.wait()
        finally:
            self._is_awaited = False

    async def _read(self, has_waited: bool) -> list[SessionEvent]:
        handed, size = self._next()
        unread = [each.message_id for each in handed if isinstance(each, UnreadDelivery)]
        found: dict[int, Stored] = {}
        if unread:
            # headers are not in the sizes of those that were not read, and may be most of them
            found, loaded = await self._reading.load_some(unread, EVENTS_BYTES)
            handed, size = _up_to(loaded, handed)
        elif not has_waited:  # who has, has let all others run
            await trio.lowlevel.cancel_shielded_checkpoint()
        del self._items[: len(handed)]
        self._handed_bytes = size
        events: list[SessionEvent] = []
        for each in handed:
            if not isinstance(each, UnreadDelivery):
                events.append(each)
            elif (stored := found.get(each.message_id)) is not None:
                events.append(each.delivered(stored))
        return events

    def _next(self) -> tuple[list[OutboxItem], int]:
        size = 0
        for count, event in enumerate(self._items):
            if size >= EVENTS_BYTES:
                return self._items[:count], size
            size += _cost(event)
        return self._items[:], size

    def _sent(self) -> None:
        """What was handed out last time has been sent."""
        if not self._handed_bytes:
            return
        self._pending_bytes -= self._handed_bytes
        self._handed_bytes = 0
        if not self.consumer.open and self._pending_bytes < PENDING_BYTES_MAX // 2 and not self.ended:
            self._door.resume(self.consumer)


def _up_to(unread: int, items: list[OutboxItem]) -> tuple[list[OutboxItem], int]:
    """What stands before the next delivery after so many of messages that had to be read, and its cost."""
    size = 0
    for count, item in enumerate(items):
        if isinstance(item, UnreadDelivery):
            if not unread:
                return items[:count], size
            unread -= 1
        size += _cost(item)
    return items, size


def _cost(event: OutboxItem) -> int:
    if isinstance(event, Delivered):
        return event.size + event.stored.header_bytes + EVENT_BYTES
    return event.size + EVENT_BYTES if isinstance(event, UnreadDelivery) else EVENT_BYTES
