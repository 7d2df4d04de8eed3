"""HTTP on the connections of the page: where it listens, and that each is served.

How many connections there may be, TLS, and sockets of systemd are the daemon's affair. When the site drains,
requests that are under way are answered, and connections that rest are closed.
"""

import logging
import sys
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from daemon.connections.shell import linger
from daemon.frontend import Site
from plugins.web.app import make_app
from plugins.web.connection import REQUESTS_MAX, AsgiApp, WebConnection
from plugins.web.live import Live
from plugins.web.settings import WebSettings

_log = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 32_768

FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""For a connection beyond the limits."""


async def serve(
    site: Site, settings: WebSettings, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until the site has drained; started once all addresses accept."""
    live = Live(site)
    server = WebServer(site, make_app(site, settings, live))
    async with trio.open_nursery() as beside:
        beside.start_soon(site.keep_going, "the charts of the page", live.keep)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.keep_going, "the goodbye to browsers", server.drain)
            await nursery.start(_listen, site, server, settings.listen, "http", False)
            await nursery.start(_listen, site, server, settings.listen_tls, "https", True)
            task_status.started()
        beside.cancel_scope.cancel()


async def _listen(
    site: Site,
    server: "WebServer",
    addresses: tuple[str, ...],
    socket_name: str,
    tls: bool,
    task_status: trio.TaskStatus[list[str]],
) -> None:
    await site.serve_streams(
        addresses,
        server.serve,
        socket_name=socket_name,
        tls=tls,
        http=True,
        refusal=FULL,
        task_status=task_status,
    )


class WebServer:
    """The connections of the page."""

    def __init__(self, site: Site, app: AsgiApp) -> None:
        self._site = site
        self._app = app
        self._worker = WorkerContext(None)
        self._turn = trio.Lock()
        self._config = Config()
        self._config.errorlog = None
        self._config.include_server_header = False
        self._config.h11_max_incomplete_size = HEAD_BYTES_MAX
        self._config.h2_max_header_list_size = HEAD_BYTES_MAX
        self._config.keep_alive_max_requests = sys.maxsize  # over HTTP/2 the last would not be answered
        self._config.h2_max_concurrent_streams = REQUESTS_MAX
        self._open: set[WebConnection] = set()

    async def serve(self, stream: trio.abc.Stream, remote: str, login_by: float) -> None:
        """Carry one connection to its end. Errors of the client end here."""
        connection = WebConnection(
            self._site, self._app, self._config, self._worker, self._turn, stream, remote, login_by
        )
        self._open.add(connection)
        try:
            if self._worker.terminated.is_set():
                connection.rest()
            await connection.run()
            await linger(connection)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("%s: connection lost", remote)
        finally:
            self._open.discard(connection)

    async def drain(self) -> None:
        """Wait until the site drains, close what rests, and let no connection have another request."""
        await self._site.draining.wait()
        await self._worker.terminated.set()
        for connection in self._open:
            connection.rest()
