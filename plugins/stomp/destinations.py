"""What a STOMP destination means: one topic, and how it is sent to and subscribed to.

    destination             topic             SEND delivers to      SUBSCRIBE takes
    /topic/T                T                 all                   what is for all
    /queue/T                T                 one                   what is for one
    T                       T                 as the header says    both
    /queue/T/CHANNEL        T.CHANNEL         one                   what is for one
    /queue/T/A,B            T.A and T.B       refused               both channels
    /temp-queue/NAME        a system topic of the connection's own, for replies
    /temp-topic/NAME        likewise, and another
    /reply-queue/ADDRESS    the system topic account:channel@server; only for SEND

Source: routing contract 5; RabbitMQ's and ActiveMQ's names for the same things.
"""

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from routing.errors import Refusal
from routing.names import check_topic, is_system_topic

DestinationKind = Literal["topic", "queue", "plain", "temporary", "reply"]

CHANNELS_MAX: Final = 64
REPLY_PREFIX: Final = "/reply-queue/"
TEMPORARY_PREFIXES: Final = ("/temp-queue/", "/temp-topic/")

_is_channel = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_is_temporary = re.compile(r"[^\x00-\x1f\x7f]{1,128}").fullmatch
_has_wildcard = re.compile(r"(?:^|[./,])[*>#](?:$|[.,])").search

EXPECTED: Final = "/topic/T, /queue/T, /queue/T/CHANNEL, /temp-queue/NAME, /reply-queue/ADDRESS or T"


class Destination(msgspec.Struct, frozen=True):
    """A destination, understood.

    Attributes:
        text: as the client wrote it.
        topics: by topic name, how a message of that topic names its destination; empty for `temporary`.
        name: of a `temporary` destination.
    """

    text: str
    kind: DestinationKind
    topics: dict[str, str]
    name: str = ""

    @property
    def topic(self) -> str:
        """The one topic. Raises Refusal (bad-topic) where several are named."""
        if len(self.topics) != 1:
            raise Refusal(Refusal.BAD_TOPIC, f"{self.text[:300]!r} is not one destination")
        return next(iter(self.topics))


@lru_cache(maxsize=4096)
def parse_destination(text: str, slashes: bool = False) -> Destination:
    """Understand a destination; `slashes` separate levels of a topic, too. Raises Refusal (bad-topic)."""
    if "?consumer." in text:
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: options in a destination are not supported")
    if not text.startswith("/"):
        return Destination(text, "plain", {_topic(text, text): text})
    prefix, _, rest = text[1:].partition("/")
    if not rest and prefix:
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r} has no name; expected is {EXPECTED}")
    if slashes and prefix in ("topic", "queue"):
        rest = rest.replace("/", ".")
    if prefix == "topic":
        return Destination(text, "topic", {_topic(rest, text): text})
    if prefix == "queue":
        topic, slash, channels = rest.partition("/")
        if not slash:
            return Destination(text, "queue", {_topic(topic, text): text})
        return Destination(text, "queue", _channels(topic, channels, text))
    if prefix == "reply-queue":
        address = _topic(rest, text)
        if not is_system_topic(address):
            raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: a reply goes to account:channel@server")
        return Destination(text, "reply", {address: text})
    if text.startswith(TEMPORARY_PREFIXES):
        if not _is_temporary(rest):
            raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: a temporary name has 1 to 128 characters")
        return Destination(text, "temporary", {}, text)
    raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r} is not a destination; expected is {EXPECTED}")


def _topic(name: str, text: str) -> str:
    if _has_wildcard(name):
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r}: wildcards in destinations are not supported")
    return check_topic(name)


def _channels(topic: str, channels: str, text: str) -> dict[str, str]:
    _topic(topic, text)
    topics = {}
    for channel in channels.split(","):
        name = _topic(f"{topic}.{channel}", text)
        if not _is_channel(channel):
            raise Refusal(
                Refusal.BAD_TOPIC, f"{text[:300]!r}: a channel is 1 to 64 of A-Z, a-z, 0-9, '.', '_', '-'"
            )
        topics[name] = f"/queue/{topic}/{channel}"
    if len(topics) > CHANNELS_MAX:
        raise Refusal(Refusal.BAD_TOPIC, f"{text[:300]!r} names more than {CHANNELS_MAX} channels")
    return topics
