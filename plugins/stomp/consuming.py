"""The receiving half of a connection: subscriptions, MESSAGE frames, ACK and NACK. No I/O.

How a delivery is named to the client, so that its ACK finds it:

    1.2         ack:SUBSCRIPTION-NUMBER                 ACK has it as id
    1.0, 1.1    message-id:SMUID@SUBSCRIPTION-NUMBER    ACK has it as message-id

Both count from 1, for the connection: its subscriptions and its deliveries. An ACK of a delivery that is
no longer held (it was acknowledged before, its subscription has ended, or it needs none) does nothing; one
whose lock was lost does nothing either, and is an error where it asked for a receipt or belongs to a
transaction. So is one of a later delivery that covers it, in the ack mode client, and one in a transaction
whose delivery was still held when its subscription ended, before COMMIT. Of more than `credit_max` that were
lost it is not known which: an ACK that may cover one of them is an error likewise.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from daemon.frontend import Delivered, Detached, Limits, Session, SubscribeOptions, Withdrawn
from plugins.stomp.codec import Frame, Version
from plugins.stomp.destinations import TEMPORARY_PREFIXES, Destination, parse_destination
from plugins.stomp.headers import write_timeout
from plugins.stomp.messages import shared_part
from plugins.stomp.settings import StompSettings
from plugins.stomp.subscription import (
    Prefixes,
    Subscription,
    durable_name,
    read_ack_mode,
    read_id,
    read_options,
)
from routing.errors import Refusal
from routing.message import INFINITE
from routing.names import make_address

_delivery_name = re.compile(r"(?:.*@)?([0-9]{1,18})-([0-9]{1,18})", re.DOTALL | re.ASCII).fullmatch
_WITHDRAWN: Final = {
    "lock-timeout": "the message was not acknowledged in time, and has gone back to its queue",
    "expired": "the message has expired meanwhile",
    "removed": "the message has been removed meanwhile",
    "dropped": "the site has given the message up meanwhile, as its hop log tells",
}
_GIVEN_BACK: Final = "its subscription has ended meanwhile, and gave it back"
_FORGOTTEN: Final = "it, or one before it, may be held no more: of so many that is forgotten"
NEVER_MS: Final = 253_402_300_799_000
"""`expire-after` of what has no end: the last second of the year 9999, which every date type can hold."""

_FIRST: Final = "redelivered:false\ndelivery-count:1\n"


class Consuming:
    """The subscriptions of one connection, and what they have been sent.

    Attributes:
        limits: may be set, and hold from then on.
    """

    def __init__(
        self,
        session: Session,
        version: Version,
        out: list[bytes],
        finished: list[int],
        *,
        server_name: str,
        limits: Limits,
        settings: StompSettings,
        token: str,
        wall_ms: Callable[[], int],
    ) -> None:
        """`finished` gets the deliveries that end with the sending of what is in `out`: STOMP 1.2 "ack"."""
        self._session = session
        self._version = version
        self._out = out
        self._finished = finished
        self._server_name = server_name
        self.limits = limits
        self._settings = settings
        self._token = token
        self._wall_ms = wall_ms
        self._made = 0
        # By ("id", its id), or in 1.0 also by ("destination", what it subscribed to).
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._delivering: dict[tuple[str, str], Subscription] = {}  # by target and name
        self._temporary: dict[str, str] = {}  # system topics by name
        self._numbered: dict[int, Subscription] = {}
        self._prefixes: Prefixes = {}
        # Deliveries that were withdrawn, or given back (None), and why.
        self._lost: dict[int, tuple[int, str]] = {}
        self._forgotten = 0  # the greatest number of those of which that is not known any more
        self._last_number = 0

    # -- SUBSCRIBE and UNSUBSCRIBE ----------------------------------------------------------------

    def subscribe(self, frame: Frame) -> None:
        """SUBSCRIBE. Raises Refusal; the last request that it makes of the session is the `Subscription`."""
        headers = frame.headers
        destination = self.destination(required(frame, "destination"))
        key = self._key(frame)
        self._check_is_free(key)
        if destination.kind == "reply":
            raise Refusal(Refusal.BAD_TOPIC, f"{destination.text[:300]!r} can only be sent to")
        targets = destination.subscribed
        if destination.kind == "temporary":
            targets = {self.temporary_topic(destination.name): destination.text}
            replies = self._subscriptions.get(("id", destination.text))
            if replies is not None and replies.targets == targets:
                self._end(replies.key, None)
        ack = read_ack_mode(headers)
        options = read_options(headers, ack, destination, self._settings, self.limits)
        subscription = Subscription(read_id(headers), destination, targets, ack, headers.get("receipt"))
        self._begin(subscription, options, subscription)

    def _begin(
        self, subscription: Subscription, options: SubscribeOptions, request: Subscription | None
    ) -> None:
        if len(self._subscriptions) >= self.limits.subscriptions_per_session_max:
            text = f"a connection has at most {self.limits.subscriptions_per_session_max} subscriptions"
            raise Refusal(Refusal.TOO_MANY, text)
        subscription.durable = options.durable
        subscription.begun = not options.durable  # others have a name that none before them had
        self._made += 1
        subscription.number = self._made
        subscription.name = options.name or f"{self._token}-{self._made}"
        for target in subscription.targets:
            if (target, subscription.name) in self._delivering:
                shown = subscription.name[:80]
                raise Refusal(Refusal.BAD_FRAME, f"durable subscription {shown!r} to {target} is in use here")
        self._subscriptions[subscription.key] = self._numbered[self._made] = subscription
        *others, last = subscription.targets
        for target in (*others, last):
            self._delivering[target, subscription.name] = subscription
            self._session.subscribe(
                target,
                SubscribeOptions(
                    credit=options.credit,
                    accepts=options.accepts,
                    durable=options.durable,
                    ordered=options.ordered,
                    lock_s=options.lock_s,
                    acknowledges_all=options.acknowledges_all,
                    shared=options.shared,
                    name=subscription.name,
                ),
                request if target == last else None,
            )

    def _check_is_free(self, key: tuple[str, str]) -> None:
        if key in self._subscriptions:
            raise Refusal(Refusal.BAD_FRAME, f"there is a subscription with {key[0]} {key[1][:80]!r} already")

    def destination(self, text: str) -> Destination:
        """Understand a destination. Raises Refusal (bad-topic)."""
        return parse_destination(text, self._settings.slashes, self._settings.cloud_headers)

    def temporary_topic(self, name: str) -> str:
        """The system topic of this connection behind a temporary destination, from now on."""
        topic = self._temporary.get(name)
        if topic is None:
            if len(self._temporary) >= self.limits.subscriptions_per_session_max:
                text = f"a connection has at most {len(self._temporary)} temporary queues"
                raise Refusal(Refusal.TOO_MANY, text)
            channel = f"{self._token}-t{len(self._temporary) + 1}"
            topic = self._temporary[name] = make_address(self._session.account, channel, self._server_name)
        return topic

    def reply_address(self, reply_to: str) -> str | None:
        """The system topic for a `reply-to` that is a temporary queue, which is then subscribed to.

        The subscription's id is the destination, as in RabbitMQ, unless the client has one of its own.
        """
        if not reply_to.startswith(TEMPORARY_PREFIXES):
            return None
        destination = parse_destination(reply_to)
        topic = self.temporary_topic(destination.name)
        if not any(topic in subscription.targets for subscription in self._delivering.values()):
            self._check_is_free(("id", reply_to))
            subscription = Subscription(reply_to, destination, {topic: reply_to}, "auto")
            options = read_options({}, "auto", destination, self._settings, self.limits)
            self._begin(subscription, options, None)
        return topic

    def unsubscribe(self, frame: Frame, request: Any) -> None:
        """UNSUBSCRIBE. A durable subscription only stops delivering unless the frame calls it durable too."""
        headers = frame.headers
        key = ("id", headers["id"]) if "id" in headers else ("destination", headers.get("destination", ""))
        subscription = self._subscriptions.get(key)
        if subscription is not None:
            ends = not subscription.durable or durable_name(headers, subscription.destination) is not None
            self._end(key, request, detach=not ends)
            return
        if "destination" in headers:
            destination = self.destination(headers["destination"])
            name = durable_name(headers, destination)
            if name is not None:
                here = self._delivering.get((destination.target, name))
                if here is not None:
                    self._end(here.key, request)
                else:
                    self._session.unsubscribe(destination.target, name, request)
                return
        kind, value = self._key(frame)
        raise Refusal(Refusal.NOT_SUBSCRIBED, f"there is no subscription with {kind} {value[:80]!r}")

    def _end(self, key: tuple[str, str], request: Any, *, detach: bool = False) -> None:
        subscription = self._subscriptions.pop(key, None)
        if subscription is None:
            return
        del self._numbered[subscription.number]
        for number in subscription.held:
            self._lose(number, 0, _GIVEN_BACK)
        subscription.held.clear()
        end = self._session.detach if detach else self._session.unsubscribe
        *others, last = subscription.targets
        for target in (*others, last):
            del self._delivering[target, subscription.name]
            end(target, subscription.name, request if target == last else None)

    def _key(self, frame: Frame) -> tuple[str, str]:
        """What names the subscription of a frame: its id, or in 1.0 without one the destination."""
        if self._version == "1.0" and "id" not in frame.headers:
            return "destination", required(frame, "destination")
        return "id", required(frame, "id")

    # -- MESSAGE ----------------------------------------------------------------------------------

    def deliver(self, event: Delivered) -> None:
        """Write a MESSAGE."""
        subscription = self._delivering.get((event.pattern or event.topic, event.subscription))
        if subscription is None or not subscription.begun:
            return  # it was on its way when a subscription ended, and is the next subscriber's by now
        number = self._last_number = event.number
        shared = shared_part(event.stored, self._version)
        attempt = event.attempt
        between = f"redelivered:true\ndelivery-count:{attempt}\n" if event.redelivered else _FIRST
        automatic = subscription.ack == "auto"
        if self._version != "1.2":
            between += f"message-id:{shared.smuid}@{subscription.number}-{number}\n"
        elif not automatic:
            between += f"ack:{subscription.number}-{number}\n"
        if event.expires_in_s is not None:
            between += self._expiry(event.expires_in_s)
        if self._settings.cloud_headers:
            between += self._cloud(event, shared.smuid)
        prefix = subscription.prefix(event, self._version, self._prefixes)
        self._out += (prefix, between.encode(), shared.bytes)
        if event.acknowledge:
            if automatic:
                self._finished.append(number)
            else:
                subscription.held[number] = None

    def _expiry(self, seconds: float) -> str:
        lines = f"timeout:{write_timeout(seconds)}\n"
        return lines if seconds == INFINITE else lines + f"expires:{self._wall_ms() + int(seconds * 1000)}\n"

    def _cloud(self, event: Delivered, smuid: str) -> str:
        lines = f"oci-message-id:{smuid}\n"
        ends_ms = NEVER_MS
        if event.ends_in_s != INFINITE:
            ends_ms = min(self._wall_ms() + int(event.ends_in_s * 1000), NEVER_MS)
        lines += f"expire-after:{ends_ms}\n"
        if event.lock_s is not None:
            lines += f"visible-after:{self._wall_ms() + int(event.lock_s * 1000)}\n"
        return lines

    def withdrawn(self, event: Withdrawn) -> None:
        """Let go of a delivery that is the client's no longer, which only hears of that by its ACK."""
        subscription = self._delivering.get((event.pattern or event.topic, event.subscription))
        if subscription is not None and event.number in subscription.held:
            subscription.lose(event.number)
            self._lose(event.number, subscription.number, _WITHDRAWN[event.reason])

    def _lose(self, number: int, holder_number: int, why: str) -> None:
        """Remember, of so many, what became of a delivery that has ended without its ACK.

        `holder_number`: of its subscription, which may end before that is forgotten; 0 where it has.
        """
        self._lost[number] = holder_number, why
        if len(self._lost) > self.limits.credit_max:
            oldest = next(iter(self._lost))
            self._forgotten = max(self._forgotten, oldest)
            had_it, _ = self._lost.pop(oldest)
            if (subscription := self._numbered.get(had_it)) is not None:
                subscription.forget(oldest)

    def detached(self, event: Detached) -> Refusal | None:
        """Why the connection has to end, where it had the subscription."""
        subscription = self._delivering.get((event.topic, event.name))
        if subscription is None or not subscription.begun:
            return None
        text = {
            "replaced": "another connection has taken over",
            "removed": "another connection or the server has ended",
            "forbidden": "the account may no longer read from",
        }[event.reason]
        return Refusal(Refusal.NOT_SUBSCRIBED, f"{text} the subscription to {event.topic}")

    # -- ACK and NACK -----------------------------------------------------------------------------

    def find(self, frame: Frame) -> tuple[int, int]:
        """The delivery that an ACK or NACK names: the number of its subscription, and its own.

        Raises Refusal where the connection never had it.
        """
        header = "id" if self._version == "1.2" else "message-id"
        value = required(frame, header)
        match = _delivery_name(value)
        holder_number, number = (int(match[1]), int(match[2])) if match else (0, 0)
        if not (0 < holder_number <= self._made and 0 < number <= self._last_number):
            text = f"{header} {value[:80]!r} is of no message that this connection was sent"
            raise Refusal(Refusal.NOT_FOUND, text)
        subscription = self._numbered.get(holder_number)
        if self._version != "1.2":
            # STOMP 1.1 wants the subscription too, which the message-id names already: it may be left out.
            stated = frame.headers.get("subscription")
            if stated is not None and subscription is not None and subscription.id != stated:
                text = f"message {value[:80]!r} was not sent to subscription {stated[:80]!r}"
                raise Refusal(Refusal.NOT_FOUND, text)
        return holder_number, number

    def take(self, delivery: tuple[int, int], *, strict: bool, in_transaction: bool = False) -> list[int]:
        """What an ACK or NACK of what `find` has found ends: these deliveries are held no more.

        None where it was not held any more. With `strict` a lost lock raises Refusal, of any that it covers;
        `in_transaction`, too, that it was given back as its subscription ended.
        """
        holder_number, number = delivery
        if strict and number in self._lost:
            had_it, why = self._lost[number]
            if in_transaction or had_it:
                raise Refusal(Refusal.LOCK_LOST, why)
        subscription = self._numbered.get(holder_number)
        if subscription is None:
            if in_transaction and number <= self._forgotten:
                raise Refusal(Refusal.LOCK_LOST, _FORGOTTEN)
            return []
        if strict and (lost := subscription.covered_lost(number)) is not None:
            raise Refusal(Refusal.LOCK_LOST, f"of one before it: {self._lost[lost][1]}")
        if strict and subscription.covers_forgotten(number):
            raise Refusal(Refusal.LOCK_LOST, _FORGOTTEN)
        return subscription.settled(number)


def required(frame: Frame, name: str) -> str:
    """A header's value. Raises Refusal where it is missing."""
    value = frame.headers.get(name)
    if value is None:
        raise Refusal(Refusal.BAD_FRAME, f"{frame.command} needs a header {name}")
    return value
