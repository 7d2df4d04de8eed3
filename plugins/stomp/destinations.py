"""What a STOMP destination means: one topic or pattern, and how it is sent to and subscribed to.

    destination             topic             SEND delivers to      SUBSCRIBE takes
    /topic/T                T                 all                   what is for all
    /queue/T                T                 one                   what is for one
    T                       T                 as the header says    both
    /queue/T/CHANNEL        T.CHANNEL         one                   what is for one
    /queue/T/A,B            T.A and T.B       refused               both channels
    /exchange/amq.topic/T   as /topic/T
    /amq/queue/T            as /queue/T
    /temp-queue/NAME        a system topic of the connection's own, for replies
    /temp-topic/NAME        likewise, and another
    /reply-queue/ADDRESS    the system topic account:channel@server; only for SEND

A T that stands last may be a pattern in SUBSCRIBE: `*` is one level, a last `#` or `>` any rest, also none.
So `*` and `>` mean what they do in ActiveMQ (its PrefixDestinationFilter has A.> match A, too), `*` and `#`
what they do in RabbitMQ and Artemis, except that RabbitMQ knows a `#` before the end, which is refused here.

As the cloud queue has it, on request: T is /queue/T, T/CHANNEL is /queue/T/CHANNEL, and who subscribes to a
queue gets its channels, too. Source: routing contract 5; RabbitMQ's and ActiveMQ's names for the same things.
"""

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from routing.errors import Refusal
from routing.names import CHANNEL_PATTERN, TOPIC_BYTES_MAX, check_topic, is_system_topic
from routing.patterns import check_pattern, is_pattern

DestinationKind = Literal["topic", "queue", "plain", "temporary", "reply"]

CHANNELS_MAX: Final = 64
REMEMBERED_CHARACTERS_MAX: Final = 300
"""A destination is remembered that is no longer, and names one topic: anybody who logs in may name any."""

REPLY_PREFIX: Final = "/reply-queue/"
TEMPORARY_PREFIXES: Final = ("/temp-queue/", "/temp-topic/")
_PREFIXES: Final[dict[str, tuple[DestinationKind, str]]] = {
    "/topic/": ("topic", "/topic/"),
    "/queue/": ("queue", "/queue/"),
    # RabbitMQ's MESSAGE frames do not say these either.
    "/exchange/amq.topic/": ("topic", "/topic/"),
    "/amq/queue/": ("queue", "/queue/"),
}
"""By what a destination begins with: its kind, and what MESSAGE frames have in that place."""

_is_channel = re.compile(CHANNEL_PATTERN).fullmatch
_is_temporary = re.compile(r"[^\x00-\x1f\x7f]{1,128}").fullmatch
_has_wildcard = re.compile("[*#>]").search

EXPECTED: Final = (
    "/topic/T, /queue/T, /queue/T/CHANNEL, /exchange/amq.topic/T, /amq/queue/T, /temp-queue/NAME,"
    " /reply-queue/ADDRESS or T"
)


class Destination(msgspec.Struct, frozen=True):
    """A destination, understood.

    Attributes:
        text: as the client wrote it.
        targets: topics, by each how a message of it names its destination, or one pattern; empty for
            `temporary`.
        name: of a `temporary` destination.
        prefix, separator: what a message that comes by a pattern has before its topic and between its levels.
        queue: the one topic, where a subscription takes its channels, too; "" where it does not.
    """

    text: str
    kind: DestinationKind
    targets: dict[str, str]
    name: str = ""
    prefix: str = ""
    separator: str = "."
    queue: str = ""

    @property
    def target(self) -> str:
        """The one topic or pattern. Raises Refusal (bad-topic) where several are named."""
        if len(self.targets) != 1:
            raise Refusal(Refusal.BAD_TOPIC, f"{self.text[:300]!r} is not one destination")
        return next(iter(self.targets))

    @property
    def topic(self) -> str:
        """The one topic that is sent to. Raises Refusal (bad-topic) where several are named, or a pattern."""
        target = self.target
        if is_pattern(target):
            text = f"{self.text[:300]!r} is a pattern, which can be subscribed to; a SEND goes to one topic"
            raise Refusal(Refusal.BAD_TOPIC, text)
        return target

    @property
    def subscribed(self) -> dict[str, str]:
        """As `targets`, what a subscription is to."""
        if self.queue and len(self.queue.encode()) + len(".#") <= TOPIC_BYTES_MAX:
            return {f"{self.queue}.#": self.text}
        return self.targets

    def of(self, topic: str) -> str:
        """How a message of a topic names its destination, where it came by a pattern."""
        if not self.queue:
            return self.prefix + topic.replace(".", self.separator)
        channel = topic[len(self.queue) + 1 :]
        return f"{self.prefix}{self.queue}/{channel}" if channel else self.prefix + self.queue


def parse_destination(text: str, slashes: bool = False, cloud: bool = False) -> Destination:
    """Understand a destination. Raises Refusal (bad-topic).

    Args:
        slashes: they separate levels of a topic, too.
        cloud: the destinations of the cloud queue, see the module.
    """
    if len(text) > REMEMBERED_CHARACTERS_MAX or "," in text:
        return _parse(text, slashes, cloud)
    return _parse_remembered(text, slashes, cloud)


@lru_cache(maxsize=4096)
def _parse_remembered(text: str, slashes: bool, cloud: bool) -> Destination:
    return _parse(text, slashes, cloud)


def _parse(text: str, slashes: bool, cloud: bool) -> Destination:
    if "?consumer." in text:
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: options in a destination are not supported")
    if not text.startswith("/"):
        if cloud and not is_system_topic(text):
            return _queue(text, "", text, cloud)
        return Destination(text, "plain", {_target(text, text): text})
    for begins, (kind, prefix) in _PREFIXES.items():
        if text.startswith(begins) and text != begins:
            rest = text[len(begins) :]
            if begins == "/queue/" and not slashes:
                return _queue(rest, prefix, text, cloud)
            separator = "/" if slashes and "." not in rest else "."
            target = _target(rest.replace("/", ".") if slashes else rest, text)
            return Destination(text, kind, {target: prefix + rest}, prefix=prefix, separator=separator)
    if text.startswith(REPLY_PREFIX):
        address = check_topic(text.removeprefix(REPLY_PREFIX))
        if not is_system_topic(address):
            raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: a reply goes to account:channel@server")
        return Destination(text, "reply", {address: text})
    if text.startswith(TEMPORARY_PREFIXES):
        if not _is_temporary(text[len(TEMPORARY_PREFIXES[0]) :]):
            raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: a temporary name has 1 to 128 characters")
        return Destination(text, "temporary", {}, text)
    raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r} is not a destination; expected is {EXPECTED}")


def _queue(rest: str, prefix: str, text: str, cloud: bool) -> Destination:
    """A queue or a pattern of queues, or some channels of a queue."""
    name, slash, channels = rest.partition("/")
    if slash:
        return Destination(text, "queue", _channels(name, channels, prefix, text))
    target = _target(name, text)
    has_channels = cloud and not is_pattern(target) and not is_system_topic(target)
    return Destination(text, "queue", {target: text}, prefix=prefix, queue=target if has_channels else "")


def _target(name: str, text: str) -> str:
    """The topic, or pattern, checked."""
    if not _has_wildcard(name):
        return check_topic(name)
    pattern = f"{name[:-1]}#" if name == ">" or name.endswith(".>") else name
    try:
        return check_pattern(pattern)
    except Refusal:
        raise Refusal(
            Refusal.BAD_TOPIC,
            f"{text[:300]!r} is not a pattern (a topic in which a level may be * for one level, "
            "and the last # or > for any rest)",
        ) from None


def _channels(queue: str, channels: str, prefix: str, text: str) -> dict[str, str]:
    check_topic(queue)
    topics, named = {}, channels.split(",")
    if len(named) > CHANNELS_MAX:
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r} names more than {CHANNELS_MAX} channels")
    for channel in named:
        if not _is_channel(channel):
            raise Refusal(
                Refusal.BAD_TOPIC, f"{text[:300]!r}: a channel is 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'"
            )
        topics[check_topic(f"{queue}.{channel}")] = f"{prefix}{queue}/{channel}"
    return topics
