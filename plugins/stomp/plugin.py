"""The STOMP front end: where it listens, and what answers there."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final

import trio

from daemon.frontend import Site
from plugins.stomp.codec import encode
from plugins.stomp.server import StompServer
from plugins.stomp.settings import StompSettings
from routing.errors import Refusal

_FULL: Final = b"there are as many connections as may be, in all or from this address; try again later\n"
_OF_THE_BODY: Final = {"content-type": "text/plain;charset=utf-8", "content-length": str(len(_FULL))}
FULL: Final = encode("ERROR", {"message": Refusal.TOO_MANY, **_OF_THE_BODY}, _FULL, version="1.0")
"""For a connection beyond the limits, before it has said which version it speaks."""
FULL_HTTP: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_FULL), _FULL)
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
        server = StompServer(site, settings)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.drain)
            for listen, handler, socket_name, tls, refusal in (
                (settings.listen, server.serve_stream, "stomp", False, FULL),
                (settings.listen_tls, server.serve_stream, "stomp-tls", True, b""),
                (settings.listen_websocket, server.serve_websocket, "stomp-ws", False, FULL_HTTP),
                (settings.listen_websocket_tls, server.serve_websocket, "stomp-wss", True, b""),
            ):
                serve = partial(
                    site.serve_streams, listen, handler, socket_name=socket_name, tls=tls, refusal=refusal
                )
                await nursery.start(serve)
            task_status.started()


plugin: Final = StompPlugin()
