"""A STOMP subscription: what its SUBSCRIBE asked for, and what it holds unacknowledged."""

import re
from bisect import bisect_left, bisect_right, insort
from typing import Final, Literal, get_args

from daemon.frontend import Accepts, Delivered, Limits, SubscribeOptions
from plugins.stomp.codec import Version, escape
from plugins.stomp.destinations import Destination
from plugins.stomp.headers import refuse_arguments
from plugins.stomp.settings import StompSettings
from routing.errors import HeaderRefusal, Refusal
from routing.headers import BOOLEANS, read_seconds

AckMode = Literal["auto", "client", "client-individual"]

Prefixes = dict[tuple[int, str, str | None], bytes]
"""By the number of the subscription, the topic, and the mode where that tells."""

_DURABLE_NAMES: Final = ("activemq.subscriptionName", "durable-subscription-name", "durable-subscriber-name")
_PREFETCH: Final = ("prefetch-count", "activemq.prefetchSize")
_REFUSED: Final = ("browser", "no-local", "activemq.noLocal", "activemq.exclusive")
"""Whoever asks for these of ActiveMQ would lose messages, or get some twice, if they were passed over."""
_ACCEPTS: Final[dict[str, Accepts]] = {"topic": "ALL", "queue": "ONE"}

ID_BYTES_MAX: Final = 1_024
"""Each is kept for as long as its subscription, and is in each MESSAGE of it."""

PREFIXES_BYTES_MAX: Final = 262_144
"""Of the beginnings of MESSAGEs that a connection keeps written; a pattern may take any number of topics."""

PREFIX_BYTES: Final = 250
"""What one of them takes besides its text."""

_is_name = re.compile(r"[^\x00-\x1f\x7f]{1,255}").fullmatch


class Subscription:
    """One subscription of a connection.

    Attributes:
        number: names it within the connection, from 1.
        id: as the client gave it; None in STOMP 1.0 without one.
        targets: topics, by each the destination that its messages name, or a pattern.
        name: tells it apart from the other subscriptions of the account and channel.
        receipt: of its SUBSCRIBE, until that is answered; None where it asked for none.
        durable: it outlives the connection.
        begun: what the session tells of it is its own. Before the SUBSCRIBE of a durable one is answered,
            that was on its way when this connection left the same one, which has given it back.
        held: numbers of the deliveries that are not acknowledged yet, oldest first.
        lost: numbers of those that were withdrawn, and that no ACK or NACK has covered since, in order.
        forgotten: the greatest number of a lost one that is not known any more.
        settled_to: the greatest number that an ACK or NACK was for, in the ack mode client.
    """

    __slots__ = (
        "ack",
        "begun",
        "destination",
        "durable",
        "forgotten",
        "held",
        "id",
        "lost",
        "name",
        "number",
        "receipt",
        "settled_to",
        "targets",
    )

    def __init__(
        self,
        id: str | None,
        destination: Destination,
        targets: dict[str, str],
        ack: AckMode,
        receipt: str | None = None,
    ) -> None:
        self.id = id
        self.destination = destination
        self.targets = targets
        self.ack = ack
        self.receipt = receipt
        self.name = ""
        self.number = 0
        self.durable = False
        self.begun = True
        self.held: dict[int, None] = {}
        self.lost: list[int] = []
        self.forgotten = 0
        self.settled_to = 0

    @property
    def key(self) -> tuple[str, str]:
        """What frames of this connection name it by."""
        return ("id", self.id) if self.id is not None else ("destination", self.destination.text)

    def prefix(self, event: Delivered, version: Version, prefixes: Prefixes) -> bytes:
        """The first lines of a MESSAGE, up to and with its destination; `prefixes` are the connection's."""
        delivery = event.stored.message.delivery if self.destination.kind == "plain" else None
        prefix = prefixes.get((self.number, event.topic, delivery))
        if prefix is None:
            destination = self.destination.of(event.topic) if event.pattern else self.targets[event.topic]
            if delivery is not None:
                # A plain subscription gets both kinds; the destination is then the one of the SEND.
                destination = f"/{'queue' if delivery == 'ONE' else 'topic'}/{event.topic}"
            lines = ["MESSAGE"]
            if self.id is not None:
                lines.append(f"subscription:{escape(self.id, version)}")
            lines.append(f"destination:{escape(destination, version)}\n")
            prefix = "\n".join(lines).encode()
            if len(prefixes) >= PREFIXES_BYTES_MAX // (PREFIX_BYTES + len(prefix)):
                prefixes.clear()
            prefixes[self.number, event.topic, delivery] = prefix
        return prefix

    def settled(self, number: int) -> list[int]:
        """What an ACK or NACK of this delivery ends: that one, or in the ack mode client all until it.

        These are held no more; none where it was not held. The newest is first: who says something of that
        has begun all before it, which is what counts if the connection is lost.
        """
        held = self.held
        if self.ack != "client":
            if number not in held:
                return []
            del held[number]
            return [number]
        del self.lost[: bisect_right(self.lost, number)]
        self.settled_to = max(self.settled_to, number)
        numbers = []
        for oldest in held:
            if oldest > number:
                break
            numbers.append(oldest)
        for oldest in numbers:
            del held[oldest]
        numbers.reverse()
        return numbers

    def lose(self, number: int) -> None:
        """Hold this one no more, as it was withdrawn."""
        del self.held[number]
        insort(self.lost, number)

    def covered_lost(self, number: int) -> int | None:
        """The first withdrawn one of what an ACK or NACK of this delivery covers in the ack mode client."""
        if self.ack == "client" and self.lost and self.lost[0] <= number:
            return self.lost[0]
        return None

    def forget(self, number: int) -> None:
        """Know no more that this one was lost."""
        index = bisect_left(self.lost, number)
        if self.lost[index : index + 1] == [number]:
            del self.lost[index]
        self.forgotten = max(self.forgotten, number)

    def covers_forgotten(self, number: int) -> bool:
        """Whether an ACK or NACK of this delivery may cover one that was lost, and is forgotten."""
        if self.ack == "client":
            return self.settled_to < min(number, self.forgotten)
        return number <= self.forgotten and number not in self.held


def read_id(headers: dict[str, str]) -> str | None:
    """The `id` of a SUBSCRIBE, if it has one. Raises HeaderRefusal."""
    id = headers.get("id")
    if id is not None and len(id.encode()) > ID_BYTES_MAX:
        raise HeaderRefusal("id", id, f"at most {ID_BYTES_MAX} bytes")
    return id


def read_ack_mode(headers: dict[str, str]) -> AckMode:
    """The `ack` of a SUBSCRIBE. Raises HeaderRefusal."""
    stated = headers.get("ack", "auto")
    for mode in get_args(AckMode):
        if stated == mode:
            return mode  # type: ignore[no-any-return]  # get_args gives the words of the Literal
    raise HeaderRefusal("ack", stated, "auto, client or client-individual")


def read_options(
    headers: dict[str, str], ack: AckMode, destination: Destination, settings: StompSettings, limits: Limits
) -> SubscribeOptions:
    """What a SUBSCRIBE asks of the broker; `name` is empty where the subscription ends with the connection.

    Raises HeaderRefusal.
    """
    if "selector" in headers:
        raise HeaderRefusal("selector", headers["selector"], "supported: all of a destination comes")
    refuse_arguments(headers)
    for header in _REFUSED:
        if read_boolean(headers, header):
            raise HeaderRefusal(header, headers[header], "supported, only false")
    name = durable_name(headers, destination) or ""
    shared = read_boolean(headers, "shared", "true" if name and settings.shared else "false")
    if shared and not name and destination.kind in ("topic", "plain"):
        raise HeaderRefusal("shared", headers["shared"], "true only of a durable subscription")
    return SubscribeOptions(
        credit=_credit(headers, settings.prefetch_auto if ack == "auto" else settings.prefetch, limits),
        accepts=_ACCEPTS.get(destination.kind, "BOTH"),
        durable=bool(name),
        ordered=read_boolean(headers, "ordered"),
        lock_s=_visibility(headers, settings.lock_s),
        acknowledges_all=ack != "auto",
        shared=shared and bool(name),
        name=name,
    )


def durable_name(headers: dict[str, str], destination: Destination) -> str | None:
    """The name under which a subscription outlives its connection; None where it does not.

    RabbitMQ's users say `durable:true` (or, in its older releases, `persistent:true`) and the id is the
    name; ActiveMQ's and Artemis' give a name in a header. On /queue/ the word is about the queue, which is
    durable here in any case. Raises HeaderRefusal.
    """
    if destination.kind not in ("topic", "plain"):
        return None
    header = next((header for header in _DURABLE_NAMES if header in headers), "id")
    stated = read_boolean(headers, "durable"), read_boolean(headers, "persistent")
    if header == "id" and not any(stated):
        return None
    name = headers.get(header)
    if name is None:
        raise Refusal(Refusal.BAD_FRAME, "a durable subscription needs an id, which is its name")
    if not _is_name(name):
        raise HeaderRefusal(header, name, "a name of 1 to 255 characters for a durable subscription")
    return name


def read_boolean(headers: dict[str, str], name: str, absent: str = "false") -> bool:
    """A header that is true or false. Raises HeaderRefusal."""
    value = headers.get(name, absent)
    lowered = value.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if value.upper() in BOOLEANS:
        return BOOLEANS[value.upper()]
    raise HeaderRefusal(name, value, "true or false")


def _visibility(headers: dict[str, str], default: float) -> float:
    value = headers.get("visibility")
    if value is None:
        return default
    seconds = read_seconds(value, "visibility")
    if not seconds:
        # It would go from subscriber to subscriber until it is dead, before anyone could acknowledge it.
        raise HeaderRefusal("visibility", value, "more than 0 seconds")
    return seconds


def _credit(headers: dict[str, str], default: int, limits: Limits) -> int:
    stated = [(name, headers[name]) for name in _PREFETCH if name in headers]
    for name, value in stated:
        if not (value.isascii() and value.isdigit() and len(value) <= 10):
            raise HeaderRefusal(name, value, "a number of messages")
    if not stated:
        return min(default, limits.credit_max)
    # 0 is "no limit" to those who know these headers.
    return min(int(stated[0][1]) or limits.credit_max, limits.credit_max)
