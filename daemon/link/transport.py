"""How connections to peers are opened: the running site has TLS (`daemon.link.tls`), a simulation its own."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import trio

from daemon.link.peers_file import PeerEntry


class DialError(Exception):
    """No connection could be made, and why."""


class Secured(msgspec.Struct, frozen=True):
    """A connection whose other end has proved a name.

    Attributes:
        name: the server name in its certificate.
        remote: its address, for people.
        proof: of the transport; see `LinkTransport.refusal`.
    """

    stream: trio.abc.Stream
    name: str
    remote: str
    proof: Any = None


SecuredHandler = Callable[[Secured], Awaitable[None]]


class LinkTransport(Protocol):
    """Opens connections. Streams it gives out are closed by whom it gave them to."""

    async def dial(self, peer: PeerEntry) -> Secured:
        """A connection to the peer's address, whoever answers there. Raises DialError."""

    async def serve(
        self, handler: SecuredHandler, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run `handler` for each connection that is accepted; what proves no name is refused and logged."""

    def refusal(self, secured: Secured) -> str | None:
        """Why a connection made earlier would be refused now; None if it would not."""

    def explain(self, error: trio.BrokenResourceError) -> str:
        """The reason why a stream broke, in words."""
