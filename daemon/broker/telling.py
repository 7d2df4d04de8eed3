"""From decisions to what sessions are told, once all that a transaction stores is on disk."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from daemon import frontend
from daemon.broker.ages import Ages
from daemon.broker.bodies import Bodies, Stored
from daemon.broker.outbox import OutboxItem, UnreadDelivery
from daemon.metrics import Metrics
from daemon.system.clock import Clock
from daemon.system.mishaps import OWN_ERROR, Mishaps
from routing import decisions
from routing.copy_events import found_nobody
from routing.errors import Refusal
from routing.queue import GUARANTEED, STATED, Entry
from routing.subscription import Consumer


class Telling:
    """Owned by the executor.

    Attributes:
        handlers: how each decision that a session is told of is gathered for it, until `hand_on`.
    """

    def __init__(
        self, bodies: Bodies, clock: Clock, metrics: Metrics, mishaps: Mishaps, last_id: int
    ) -> None:
        """`last_id`: of the messages that have been stored before."""
        self._bodies = bodies
        self._clock = clock
        self._metrics = metrics
        self._mishaps = mishaps
        self._ages = Ages(last_id, clock.now())
        self._fresh = 0
        """Messages that were handed out by the transaction that stored them."""
        self._told: dict[Any, None] = {}
        """Handles of the sessions for which there are events."""
        self.handlers: Final[dict[type, Callable[[Any], None]]] = {
            decisions.Deliver: self._deliver,
            decisions.AnswerRequest: self._answer,
            decisions.Withdraw: self._withdraw,
            decisions.TellRemoval: self._tell_removal,
            decisions.Detach: self._detach,
        }

    def measure(self, came_at: list[float], newest_id: int, stored_at: float) -> None:
        """Note how long messages waited: those that came at these times, and all that were gathered."""
        if came_at:
            self._metrics.stored_s.note_since(came_at, stored_at)
            self._ages.stored(newest_id, stored_at)
        if self._fresh:
            self._metrics.delivered_s.note(self._clock.now() - stored_at, self._fresh)
            self._fresh = 0

    def hand_on(self) -> None:
        """Hand each session what was gathered for it; one where that fails, by an error of ours, ends."""
        told, self._told = self._told, {}
        for handle in told:
            try:
                handle.hand_on()
            except Exception as error:
                self._mishaps.note("what a session is told", error)
                handle.end(frontend.Ending("failed", OWN_ERROR))

    def refuse(self, d: decisions.AnswerRequest, refusal: Refusal) -> None:
        """Tell a session now that its request is refused, and not with what a transaction brings."""
        self._metrics.refuse(refusal)
        d.consumer.handle.put(frontend.Answer(d.request, error=refusal))

    def unpublish(self, consumer: Consumer, messages: int) -> None:
        """Count no more with a session so many that it has published, since they never were."""
        consumer.handle.unpublish(messages)

    def _gather(self, consumer: Consumer, event: OutboxItem) -> None:
        """Have an event told to a session, with all that this transaction brings to it."""
        consumer.handle.gather(event)
        self._told[consumer.handle] = None

    def _deliver(self, d: decisions.Deliver) -> None:
        entry, now = d.entry, self._clock.now()
        if d.attempt == 1 and entry.flags & GUARANTEED:
            if entry.id > self._ages.newest_id:
                self._fresh += 1
            else:
                self._metrics.delivered_s.note(now - self._ages.stored_at(entry.id))
        stored = self._bodies.find(entry.id)
        if stored is not None:
            self._gather(d.consumer, _delivered(d, now, stored))
        else:
            self._gather(d.consumer, UnreadDelivery(entry.id, entry.size, partial(_delivered, d, now)))

    def _answer(self, d: decisions.AnswerRequest) -> None:
        if d.error is not None:
            self._metrics.refuse(d.error)
        elif d.request is None:
            return
        entry = d.entry
        self._gather(
            d.consumer,
            frontend.Answer(
                request=d.request,
                error=d.error,
                smuid=d.smuid,
                repeated=d.repeated,
                due_to_nobody=entry is not None and found_nobody(entry),
            ),
        )

    def _withdraw(self, d: decisions.Withdraw) -> None:
        self._gather(
            d.consumer,
            frontend.Withdrawn(
                number=d.number,
                topic=d.entry.topic.name,
                subscription=d.subscription.options.name,
                reason=d.reason,
                pattern=d.subscription.pattern,
            ),
        )

    def _tell_removal(self, d: decisions.TellRemoval) -> None:
        self._gather(
            d.consumer,
            frontend.Retracted(
                topic=d.entry.topic.name,
                subscription=d.subscription.options.name,
                message_id=d.entry.id,
                pattern=d.subscription.pattern,
            ),
        )

    def _detach(self, d: decisions.Detach) -> None:
        self._gather(d.consumer, frontend.Detached(topic=d.target.name, name=d.name, reason=d.reason))


def _delivered(d: decisions.Deliver, now: float, stored: Stored) -> frontend.Delivered:
    entry, lock = d.entry, d.lock
    return frontend.Delivered(
        number=d.number,
        topic=entry.topic.name,
        subscription=d.subscription.options.name,
        stored=stored,
        attempt=d.attempt,
        redelivered=d.redelivered,
        received=lock is not None and lock.received,
        lock_s=None if lock is None or lock.received else max(lock.ends_at - now, 0.0),
        expires_in_s=_time_left(entry, now),
        ends_in_s=max(entry.deadline - now, 0.0),
        acknowledge=lock is not None,
        size=entry.size,
        message_id=entry.id,
        pattern=d.subscription.pattern,
        late=d.subscription.joined_after(entry),
    )


def _time_left(entry: Entry, now: float) -> float | None:
    """Seconds of a stated timeout that are left; None where none was stated, or it has no end."""
    if not entry.flags & STATED or entry.deadline == math.inf:
        return None
    return max(entry.deadline - now, 0.0)
