"""The STOMP front end: where it listens, and what answers there."""

import secrets
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

import trio

from daemon.connections.shell import Connections, Endpoint
from daemon.frontend import Site
from plugins.stomp.answers import write_error
from plugins.stomp.conversation import StompConversation
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal

if TYPE_CHECKING:
    from plugins.stomp.websocket import WebSocketTransport

_FULL: Final = "there are as many connections as may be, in all or from this address; try again later"
FULL: Final = write_error(Refusal(Refusal.TOO_MANY, _FULL), "1.0")
"""For a connection beyond the limits, before it has said which version it speaks."""
FULL_HTTP: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b\n" % (len(_FULL) + 1, _FULL.encode())
)
"""The same for a WebSocket, before its handshake."""


class StompPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "stomp"
    settings = StompSettings
    enabled_by_default = False

    def check(self, settings: Any, accounts: Collection[str]) -> Iterable[str]:
        """See `daemon.frontend.Plugin`."""
        return ()

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve TCP, TLS and WebSocket until the site has drained."""
        assert isinstance(settings, StompSettings)
        if settings.listen_websocket or settings.listen_websocket_tls:
            import plugins.stomp.websocket  # noqa: F401 # now, and not while the first client waits for it
        await connections(site, settings).listen(
            Endpoint(addresses=settings.listen, socket_name="stomp", refusal=FULL),
            Endpoint(addresses=settings.listen_tls, socket_name="stomp-tls", tls=True),
            Endpoint(
                addresses=settings.listen_websocket,
                socket_name="stomp-ws",
                refusal=FULL_HTTP,
                transport=_over_websocket,
            ),
            Endpoint(
                addresses=settings.listen_websocket_tls,
                socket_name="stomp-wss",
                tls=True,
                transport=_over_websocket,
            ),
            task_status=task_status,
        )


def _over_websocket(stream: trio.abc.Stream) -> "WebSocketTransport":
    """What only those load who use it: wsproto is a fifth of the time in which a site starts."""
    from plugins.stomp.websocket import WebSocketTransport

    return WebSocketTransport(stream)


def connections(site: Site, settings: StompSettings) -> Connections:
    """The STOMP connections of a site."""

    def begin(remote: str) -> StompConversation:
        return StompConversation(
            server_name=site.server_name,
            server_ident=site.server_ident,
            limits=site.limits,
            settings=settings,
            token=secrets.token_hex(8),
            wall_ms=lambda: time.time_ns() // 1_000_000,
            note_refused=site.metrics.tell_refused,
        )

    return Connections(site, "stomp", begin)


plugin: Final = StompPlugin()
