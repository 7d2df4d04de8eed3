"""One login, as the broker keeps it: who it is, and what it asks of the router.

What it may see and do is in `SessionView`; what comes true of its requests, and what is delivered to it, in
its `Outbox`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from daemon.broker.account_use import AccountUse
from daemon.broker.outbox import Outbox
from daemon.broker.pace import SessionPace
from daemon.broker.reading import Reading
from daemon.broker.session_view import SessionView, ViewOwner
from daemon.broker.store_room import StoreRoom
from daemon.broker.transaction import Transaction
from daemon.connections.unfinished import FREE_BYTES, Unfinished
from daemon.frontend import (
    ANNOTATION_BYTES_MAX,
    Ending,
    Limits,
    SessionEvent,
    SubscribeOptions,
    SubscriptionInfo,
)
from daemon.metrics import Metrics
from daemon.system.clock import Clock
from daemon.system.limited_log import LimitedLog
from routing.errors import SUBSCRIPTIONS, HeaderRefusal, Refusal
from routing.frames import check_message, encode_head
from routing.headers import write_created
from routing.message import DeliveryMode, Message
from routing.names import check_topic, make_address
from routing.options import ReturnOutcome
from routing.patterns import check_wanted, is_pattern
from routing.subscription import Consumer


class SessionOwner(ViewOwner, Protocol):
    """What a session needs of its broker."""

    account_use: AccountUse
    clock: Clock
    metrics: Metrics
    reading: Reading
    room: StoreRoom
    unfinished: Unfinished
    changes: LimitedLog

    @property
    def limits(self) -> Limits:
        """The bounds of now, which a reload may change."""

    def close_session(self, session: "BrokerSession", *, lost: bool, why: str = "") -> None:
        """End a session that its front end is done with; its client was `lost` or not. Twice changes nothing.

        `why` is for the log.
        """


class BrokerSession(SessionView):
    """See `daemon.frontend.Session`.

    Attributes:
        consumer: the session, as the router knows it.
        published: messages that were taken.
    """

    def __init__(
        self, broker: SessionOwner, id: int, account: str, channel: str, protocol: str, remote: str
    ) -> None:
        """`id` is never that of another session of this run of the site."""
        outbox = Outbox(id, account, channel, broker.door, broker.reading, broker.clock)
        super().__init__(broker, account, protocol, outbox)
        self.channel = channel
        self.remote = remote
        self.system_topic = make_address(account, channel, broker.server_name)
        self._broker = broker
        self.consumer = self.outbox.consumer
        self._transaction: Transaction | None = None
        self._unfinished = broker.unfinished.holder(account, remote)
        self._pace = SessionPace(account, broker.account_use.pace(account), broker.clock.now())
        self.limit_pace()
        self.id = id
        self.opened_at = broker.clock.wall_ms() / 1000

    # -- requests ---------------------------------------------------------------------------------

    @property
    def lasted_s(self) -> float:
        """For how long it has been there."""
        return max(self._broker.clock.wall_ms() / 1000 - self.opened_at, 0.0)

    @property
    def published(self) -> int:
        """Messages that it has published, without those that could not be stored."""
        return self.outbox.published

    def publish(self, topic: str, message: Message, request: Any = None, *, delay_s: float = 0.0) -> None:
        """See `daemon.frontend.Session`."""
        try:
            self._publish(topic, message, request, delay_s)
        except Refusal as refusal:
            self._note_refused(refusal)
            raise

    def _note_refused(self, refusal: Refusal) -> None:
        metrics = self._broker.metrics
        metrics.refuse(refusal)
        if refusal.subject:
            metrics.over_quota[refusal.subject] += 1

    def _publish(self, topic: str, message: Message, request: Any, delay_s: float) -> None:
        broker = self._broker
        check_topic(topic)
        self._check("publish", topic)
        if message.smuid or message.hops or message.account:
            name, value = next(
                (name, value)
                for name, value in (
                    ("Smuid", message.smuid),
                    ("Hops", ",".join(message.hops)),
                    ("Account", message.account),
                )
                if value
            )
            raise HeaderRefusal(name, value, "one of the headers that clients write (only servers write it)")
        if message.size_bytes > broker.limits.message_bytes_max:
            raise Refusal(
                Refusal.TOO_LARGE, f"the bodies are more than {broker.limits.message_bytes_max} bytes"
            )
        if not message.created:
            message = msgspec.structs.replace(message, created=write_created(broker.clock.wall_ms()))
        head = b""
        if message.guarantee:
            head = encode_head(message)
        else:  # nobody may ever want it encoded
            check_message(message)
        if self._pace.is_limited:
            is_first = self._transaction is None or not self._transaction.published
            self._pace.keep(broker.clock.now(), may_wait=is_first)
        if message.guarantee:
            broker.room.check()
        if self._transaction is not None:
            self._transaction.publish(topic, message, head, delay_s)
            return
        self._door.publish(
            self.consumer, topic, message, self.system_topic, request, head=head, delay_s=delay_s
        )
        self.outbox.published += 1
        if message.guarantee:
            broker.unfinished.store(self._unfinished, message.memory_bytes)

    def check_publish(self, topic: str) -> None:
        """See `daemon.frontend.Session`."""
        check_topic(topic)
        self._check("publish", topic)

    async def hold(self, bytes: int) -> None:
        """See `daemon.frontend.Session`."""
        with self._noting_refusals():
            await self._broker.unfinished.hold_beside_stored(self._unfinished, bytes)

    def hold_now(self, bytes: int) -> None:
        """See `daemon.frontend.Session`."""
        with self._noting_refusals():
            self._broker.unfinished.hold_now(self._unfinished, bytes)

    def check_room(self, bytes: int) -> None:
        """See `daemon.frontend.Session`."""
        try:  # asked for each message: no context manager
            self._broker.unfinished.check(self._unfinished, bytes)
        except Refusal as refusal:
            self._note_refused(refusal)
            raise

    @contextmanager
    def _noting_refusals(self) -> Iterator[None]:
        try:
            yield
        except Refusal as refusal:
            self._note_refused(refusal)
            raise

    @property
    def is_storing_much(self) -> bool:
        """See `daemon.frontend.Session`."""
        return self._unfinished.storing >= FREE_BYTES

    @property
    def publish_wait_s(self) -> float:
        """See `daemon.frontend.Session`."""
        return self._pace.wait_s(self._broker.clock.now()) if self._pace.is_limited else 0.0

    def limit_pace(self) -> None:
        """Take on the limit of each connection; that of the account is the broker's to take on."""
        self._pace.own.limit(self._broker.limits.publish_rate_per_s_max, 0, self._broker.clock.now())

    def subscribe(self, topic: str, options: SubscribeOptions, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        check_wanted(topic)
        if is_pattern(topic):
            self._check_open()
            if not self.may_follow(topic):
                text = f"{self.account} may not subscribe to any topic of {topic}"
                raise Refusal(Refusal.FORBIDDEN, text)
        else:
            self._check("subscribe", topic)
        limits = self._broker.limits
        if options.credit > limits.credit_max:
            text = f"a number of messages from 0 to {limits.credit_max}"
            raise HeaderRefusal("Credit", str(options.credit), text)
        held = self.consumer.subscriptions
        if len(held) >= limits.subscriptions_per_session_max and (topic, options.name) not in held:
            text = f"more than {limits.subscriptions_per_session_max} subscriptions of one session"
            raise Refusal(Refusal.TOO_MANY, text, subject=SUBSCRIPTIONS)
        self._door.subscribe(self.consumer, topic, options, request)

    def unsubscribe(self, topic: str, name: str = "", request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        self._door.unsubscribe(self.consumer, topic, name, request)

    def detach(self, topic: str, name: str = "", request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        self._door.detach(self.consumer, topic, name, request)

    def received(self, numbers: Iterable[int], request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        self._door.received(self.consumer, numbers, request)

    def commit(self, numbers: Iterable[int], request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        if self._transaction is not None:
            self._transaction.commit(numbers)
            return
        self._door.commit(self.consumer, numbers, request)

    def reached_nobody(self, numbers: Iterable[int]) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        self._door.reached_nobody(self.consumer, numbers)

    def give_back(
        self,
        numbers: Iterable[int],
        reason: str = "",
        delay_s: float = 0.0,
        request: Any = None,
        *,
        outcome: ReturnOutcome = "failed",
    ) -> None:
        """See `daemon.frontend.Session`."""
        self._check_open()
        if self._transaction is not None:
            self._transaction.give_back(numbers, reason, delay_s, outcome)
            return
        self._door.give_back(self.consumer, numbers, reason, delay_s, request, outcome)

    @contextmanager
    def transaction(self, request: Any = None) -> Iterator[None]:
        """See `daemon.frontend.Session`."""
        self._check_open()
        assert self._transaction is None, "a transaction inside a transaction"
        transaction = self._transaction = Transaction(self._door, self.consumer, self.system_topic)
        try:
            yield
        finally:
            self._transaction = None
        with self._noting_refusals():
            transaction.carry_out(request)
        self.outbox.published += transaction.published
        if transaction.memory_bytes:
            self._broker.unfinished.store(self._unfinished, transaction.memory_bytes)

    def remove(self, topic: str, smuid: str, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check("remove", topic)
        if self._transaction is not None:
            self._transaction.remove(topic, smuid)
            return
        self._door.remove(self.consumer, topic, smuid, request)

    def set_delivery(self, topic: str, mode: DeliveryMode | None, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        check_topic(topic)
        self._check("administer", topic)

        def set_it(request: Any) -> None:
            self._door.set_delivery(self.consumer, topic, mode, request)
            self._note(f"set the delivery of {topic} to {mode or 'none of its own'}")

        self._change(set_it, request)

    def set_timeout(self, topic: str, timeout_s: float | None, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        check_topic(topic)
        self._check("administer", topic)

        def set_it(request: Any) -> None:
            self._door.set_timeout(self.consumer, topic, timeout_s, request)
            self._note(
                f"set the timeout of {topic} to {timeout_s if timeout_s is not None else 'none of its own'}"
            )

        self._change(set_it, request)

    def annotate(self, topic: str, text: str | None, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        check_topic(topic)
        self._check_open()
        if text is not None and len(text.encode()) > ANNOTATION_BYTES_MAX:
            reason = f"what is kept with {topic} is more than {ANNOTATION_BYTES_MAX} bytes"
            raise Refusal(Refusal.TOO_LARGE, reason)
        self._change(
            lambda request: self._door.annotate(self.consumer, topic, self.protocol, text, request), request
        )

    def _change(self, change: Callable[[Any], None], request: Any) -> None:
        """Change what is kept with a topic, as part of the transaction where there is one."""
        if self._transaction is not None:
            self._transaction.change(lambda: change(None))
            return
        change(request)

    def end_subscription(self, subscription: SubscriptionInfo, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        topic, account, channel = subscription.topic, subscription.account, subscription.channel
        check_topic(topic)
        self._check("administer", topic)
        # as its own login would, but for who is answered
        subscriber = Consumer(self.consumer.handle, account, channel)
        self._door.unsubscribe(subscriber, topic, subscription.name, request)
        self._note(f"ended the subscription of {account}:{channel} to {topic}")

    def purge(self, topic: str, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check("administer", topic)
        self._door.purge(self.consumer, topic, request)
        self._note(f"purged {topic}")

    def delete_topic(self, topic: str, request: Any = None) -> None:
        """See `daemon.frontend.Session`."""
        self._check("administer", topic)
        self._door.delete_topic(self.consumer, topic, request)
        self._note(f"deleted {topic}")

    def _note(self, done: str) -> None:
        """Have the log say who changed what."""
        who = f"{self.account}/{self.channel} ({self.protocol}, {self.remote})"
        fields = {"event": "change", **self.fields}
        self._broker.changes.log(logging.INFO, "%s: by %s", done, who, fields=fields)

    # -- what comes true --------------------------------------------------------------------------

    async def events(self) -> list[SessionEvent]:
        """See `daemon.frontend.Session`."""
        return await self.outbox.take()

    def offer_events_to(self, take: Callable[[list[SessionEvent]], bool]) -> None:
        """See `daemon.frontend.Session`."""
        self.outbox.offer_to(take)

    def end(self, event: Ending) -> None:
        """Tell the front end to say goodbye; nothing comes after this."""
        self.outbox.end(event)

    @property
    def delivered(self) -> int:
        """Deliveries that it was handed, each time that a message was."""
        return self.consumer.next_number - 1

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the log that say who it is."""
        return {
            "account": self.account,
            "channel": self.channel,
            "protocol": self.protocol,
            "address": self.remote,
            "session": self.id,
        }

    def close(self, *, lost: bool = False, why: str = "") -> None:
        """See `daemon.frontend.Session`."""
        self.outbox.close()
        self._broker.unfinished.close(self._unfinished)
        self._broker.close_session(self, lost=lost, why=why or self.outbox.ended_by)
