"""What topics hold, dead letters among it."""

from typing import Final

import msgspec

BROWSED_MAX: Final = 1_000

BODY_BYTES_MAX: Final = 4_096
"""Of one message that is browsed, shown of its bodies."""

BODIES_BYTES_MAX: Final = 2**20
"""Of all messages that are browsed at once, shown of their bodies."""

HEADERS_BYTES_MAX: Final = 4 * 2**20
"""Of all messages that are browsed at once: with so many no further one is."""


class Browsed(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a message: the first bytes of its body, of `size` in all."""

    content_type: str
    headers: tuple[tuple[str, str], ...]
    size: int
    body: bytes


class BrowsedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a topic holds.

    Attributes:
        id: its number at this site, which rises in the order of arrival.
        account: its publisher.
        age_s: since it was published, by the clock of the site where that was.
        expires_in_s: of the time that the site holds it for; None where that has no end.
        locked: of mode ONE, and with a subscriber.
        headers: all of them, in order, as SMQP writes them.
    """

    id: int
    smuid: str
    account: str
    age_s: float
    expires_in_s: float | None
    locked: bool
    size: int
    headers: tuple[tuple[str, str], ...]
    sections: tuple[Browsed, ...]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message on a dead-letter topic; what is not known of it is "".

    Attributes:
        topic: where it was published.
        smuid: that it had there; its own is the message's.
        account: who published it.
        subscription: that could not take it, as the hop log writes it.
        deliveries: how often it was tried.
    """

    topic: str
    smuid: str
    account: str
    subscription: str
    deliveries: str
    reason: str
    message: BrowsedMessage


REPLAYED_MAX: Final = 1_000
"""Dead letters at once; what asks for all of a topic goes on from `last_id`."""

REFUSED_MAX: Final = 100
"""Dead letters of which each is named that did not go back: where one does not, mostly none does."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of dead letters that were to go back.

    Attributes:
        done: that went back.
        stayed: that did not.
        refused: by Smuid, why one stays; of the first `REFUSED_MAX`.
        last_id: of the last one that was looked at, for the next call; None where there are no more.
    """

    done: int
    stayed: int
    refused: dict[str, str]
    last_id: int | None
