"""The connections of a front end, whatever is spoken on them: where it listens, and that each is served.

The life of one is in `daemon.connections.client_connection`.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from daemon.connections.client_connection import ClientConnection
from daemon.connections.conversation import Conversation
from daemon.connections.silence import SilentError
from daemon.connections.transport import StreamTransport, Transport
from daemon.connections.transport import linger as linger
from daemon.connections.transport import send_in_parts as send_in_parts
from daemon.frontend import Site

_log = logging.getLogger(__name__)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a front end listens.

    Attributes:
        refusal: see `daemon.frontend.Site.serve_streams`.
        transport: what is spoken over its streams.
    """

    addresses: tuple[str, ...]
    socket_name: str
    tls: bool = False
    refusal: bytes = b""
    transport: Callable[[trio.abc.Stream], Transport] = StreamTransport


class Connections:
    """The connections of one front end."""

    def __init__(self, site: Site, protocol: str, begin: Callable[[str], Conversation]) -> None:
        """`protocol` names the front end; `begin` makes the conversation with a client at an address."""
        self._site = site
        self._protocol = protocol
        self._begin = begin
        self._open: set[ClientConnection] = set()

    async def listen(
        self, *endpoints: Endpoint, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve all endpoints until the site has drained; started once all of them accept."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._site.keep_going, "the goodbye to clients", self.drain)
            for endpoint in endpoints:
                await nursery.start(self._listen, endpoint)
            task_status.started()

    async def _listen(self, endpoint: Endpoint, task_status: trio.TaskStatus[list[str]]) -> None:
        async def handle(stream: trio.abc.Stream, remote: str, login_by: float) -> None:
            await self.serve(endpoint.transport(stream), remote, login_by)

        await self._site.serve_streams(
            endpoint.addresses,
            handle,
            socket_name=endpoint.socket_name,
            tls=endpoint.tls,
            refusal=endpoint.refusal,
            task_status=task_status,
        )

    async def serve(self, transport: Transport, remote: str, login_by: float) -> None:
        """Carry one connection to its end; the caller closes its stream.

        Its client has to log in by `login_by`; what it takes to verify a password comes on top of that.
        Errors of the stream and of the client end here. Cancellation and faults of ours pass through, after
        the session has been closed.
        """
        conversation = self._begin(remote)
        connection = ClientConnection(self._site, self._protocol, conversation, transport, remote, login_by)
        self._open.add(connection)
        try:
            await connection.run()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("%s: connection lost", remote)
        except* SilentError:
            _log.info("%s: no heart-beat", remote)
        except* trio.TooSlowError:
            _log.info("%s: does not read", remote)
        finally:
            self._open.discard(connection)

    async def drain(self) -> None:
        """Wait until the site drains, and tell every client, after what it is owed, to go elsewhere."""
        await self._site.draining.wait()
        for connection in list(self._open):
            try:
                connection.end("draining", "the site is stopping")
            except Exception as error:  # the drain time ends it
                self._site.mishap("the goodbye to a client", error)
