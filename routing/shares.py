"""What each account of this site has published that is held here, and how much of that it may have.

A copy counts on the account of whoever published it at this site, whatever the topic, for as long as it is
held; what the server itself sends to a system topic, on that of the account that it is to (as in
`routing.system_topics`). Copies from peers count for nobody here, whatever name they bear, nor do dead
letters of ordinary topics, which are never refused: a message that is buried no longer counts.
"""

import math
from collections.abc import Callable
from typing import Final

import msgspec

from routing.errors import Refusal
from routing.names import SERVER_ACCOUNT

HELD_MESSAGES: Final = "held_messages_max"
HELD_BYTES: Final = "held_bytes_max"
"""What there may be too much of, as the subject of a refusal."""

PUBLISHERS_MAX: Final = 16_384
"""Addresses whose shares are remembered, so that they need not be taken apart for each message."""

Bounds = tuple[float, float]
"""Messages, and bytes of their bodies, that one account may have held; `inf` for any number."""

UNBOUNDED: Final[Bounds] = (math.inf, math.inf)


class Share(msgspec.Struct, eq=False, gc=False):
    """What is held of one account, and what may be."""

    account: str
    messages: int = 0
    bytes: int = 0
    messages_max: float = math.inf
    bytes_max: float = math.inf
    is_bounded: bool = False

    def bound(self, bounds: Bounds) -> None:
        """Take on other bounds."""
        self.messages_max, self.bytes_max = bounds
        self.is_bounded = bounds != UNBOUNDED

    def check(self, messages: int, bytes: int) -> None:
        """Check that so much more may be held. Raises Refusal (queue-full)."""
        if self.messages + messages > self.messages_max:
            subject, held, most = HELD_MESSAGES, f"{self.messages} messages", self.messages_max
        elif self.bytes + bytes > self.bytes_max:
            subject, held, most = HELD_BYTES, f"{self.bytes} bytes", self.bytes_max
        else:
            return
        raise Refusal(
            Refusal.QUEUE_FULL,
            f"the site holds {held} that {self.account} has published, which may be {most:.0f}"
            f" ({subject}); try again once some have been taken",
            subject=subject,
        )


class Shares:
    """Owned by `routing.state`, which counts in them. One that was made stays: entries name it.

    Attributes:
        by_publisher: those of addresses that have been `charged`, for whoever asks for each message.
    """

    def __init__(self, server: str, bounds: Callable[[str], Bounds]) -> None:
        self._server = server
        self._bounds = bounds
        self._by_account: dict[str, Share] = {}
        self.by_publisher: dict[str, Share] = {}

    def of(self, account: str) -> Share:
        """The share of an account of this site."""
        share = self._by_account.get(account)
        if share is None:
            share = self._by_account[account] = Share(account)
            share.bound(self._bounds(account))
        return share

    def charged(self, publisher: str, recipient: str) -> Share | None:
        """The share on which a message of this site counts; None for nobody's.

        `publisher` is its Account header, `recipient` as of `Topic`.
        """
        if (share := self.by_publisher.get(publisher)) is not None:
            return share
        sender, _, rest = publisher.partition(":")
        if rest.rpartition("@")[2] != self._server:
            return None
        if sender == SERVER_ACCOUNT:
            account, _, server = recipient.rpartition("@")
            return self.of(account) if account and server == self._server else None
        if len(self.by_publisher) >= PUBLISHERS_MAX:
            self.by_publisher.clear()
        share = self.by_publisher[publisher] = self.of(sender)
        return share

    def reconfigure(self) -> None:
        """Ask for the bounds of all again."""
        for account, share in self._by_account.items():
            share.bound(self._bounds(account))
