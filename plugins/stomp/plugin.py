"""The STOMP front end: where it listens, and what answers there."""

from functools import partial
from typing import Any, Final

import trio

from daemon.frontend import Site
from plugins.stomp.server import StompServer
from plugins.stomp.settings import StompSettings


class StompPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "stomp"
    settings = StompSettings
    enabled_by_default = False

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve TCP, TLS and WebSocket until the site has drained."""
        assert isinstance(settings, StompSettings)
        server = StompServer(site, settings)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.drain)
            for listen, handler, socket_name, tls in (
                (settings.listen, server.serve_stream, "stomp", False),
                (settings.listen_tls, server.serve_stream, "stomp-tls", True),
                (settings.listen_websocket, server.serve_websocket, "stomp-ws", False),
                (settings.listen_websocket_tls, server.serve_websocket, "stomp-wss", True),
            ):
                serve = partial(site.serve_streams, listen, handler, socket_name=socket_name, tls=tls)
                await nursery.start(serve)
            task_status.started()


plugin: Final = StompPlugin()
