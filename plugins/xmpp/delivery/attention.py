"""Whether a worker is there: a server keeps an item by message for who is away, so it is asked first."""

import math
from collections.abc import Awaitable, Callable
from typing import Final, Literal, Protocol

import msgspec
import trio

from daemon.frontend import Delivered
from plugins.xmpp.known.registry import NodeSubscription

Availability = Literal["there", "gone", "silent"]
"""Of a JID that was asked: silent is one from which no answer came in time."""

QUIET_S: Final = 10.0
"""A worker that was not heard of for so long is asked whether it is there before it gets an item."""

SEEN_S: Final = 1.0
"""One that was not heard of for so long is asked behind the item."""


class HeldItem(msgspec.Struct):
    """A delivery that is with the client.

    Attributes:
        msg_id: its Smuid, by which an assured message is known.
        sent_at: when it was handed to the stream; inf until then, and once it has come back.
    """

    number: int
    item: str
    msg_id: str
    subscription: NodeSubscription
    sent_at: float = math.inf


class Watched(Protocol):
    """The client; see `client.Client`."""

    jid: str
    seen_at: float
    mute: bool
    held: dict[int, HeldItem]

    async def send(self, held: HeldItem, delivered: Delivered) -> None: ...

    def there(self) -> None: ...

    def gone(self) -> None: ...

    def away(self) -> None: ...


class AttentionPort(Protocol):
    """Who asks, in a task of its own; see `service.Service`."""

    async def is_there(self, jid: str) -> Availability: ...

    def start(self, task: Callable[[], Awaitable[object]]) -> None: ...


class Attention:
    """That of one client, and the items that wait for it to show that it is there."""

    def __init__(self, client: Watched, service: AttentionPort) -> None:
        self._client = client
        self._service = service
        self._asking = False
        self._held_back: list[tuple[HeldItem, Delivered]] | None = None

    async def send(self, held: HeldItem, delivered: Delivered) -> None:
        """Send an item by message; whoever was quiet is asked first."""
        if self._held_back is not None:
            self._held_back.append((held, delivered))
            return
        quiet_s = trio.current_time() - self._client.seen_at
        if quiet_s > QUIET_S and not self._client.mute:
            self._held_back = [(held, delivered)]
            self._service.start(self._ask_first)
            return
        await self._client.send(held, delivered)
        if quiet_s > SEEN_S:
            # behind the item, on the same stream: the answer tells whether the item reached anybody
            self.look()

    async def _ask_first(self) -> None:
        await self._ask()
        while self._held_back:
            held, delivered = self._held_back.pop(0)
            if self._client.held.get(held.number) is held:
                await self._client.send(held, delivered)
        self._held_back = None

    def look(self) -> None:
        """Ask whether the client is there, and act upon the answer; unless that is going on."""
        if not self._asking and not self._client.mute:
            self._service.start(self._ask)

    async def _ask(self) -> None:
        self._asking = True
        verdict = await self._service.is_there(self._client.jid)
        self._asking = False
        if verdict == "there":
            self._client.there()
        elif verdict == "gone":
            self._client.gone()
        elif self._held_back:
            # nothing is sent to who may be away; it is asked again
            self._client.away()

    def watch(self) -> None:
        """Look whether the JID is there, if it has items of a queue and has said nothing for long."""
        if trio.current_time() - self._client.seen_at > QUIET_S and any(
            held.subscription.is_queue and held.subscription.level == "plain"
            for held in self._client.held.values()
        ):
            self.look()
