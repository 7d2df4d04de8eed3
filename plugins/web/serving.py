"""HTTP on the connections of the page. Hypercorn speaks it; who is slow is sent away here.

    begun a request, and not said all of its head   `login_timeout_s`, from its first byte
    between two requests                             `KEEP_ALIVE_S`
    does not take what is sent                       `send_timeout_s`

How many connections there may be, TLS, and sockets of systemd are the daemon's affair. When the site drains,
requests that are under way are answered, and connections that rest are closed.
"""

import logging
import math
from typing import Any, Final

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from daemon.connections.shell import linger
from daemon.frontend import Site
from plugins.web.app import AsgiApp, make_app
from plugins.web.live import Live
from plugins.web.settings import WebSettings

_log = logging.getLogger(__name__)

KEEP_ALIVE_S: Final = 60.0
HEAD_BYTES_MAX: Final = 32_768
STREAMS_MAX: Final = 50
"""Requests at a time on one connection of HTTP/2."""

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
        self._config = Config()
        self._config.errorlog = None
        self._config.include_server_header = False
        self._config.keep_alive_timeout = KEEP_ALIVE_S
        self._config.h11_max_incomplete_size = HEAD_BYTES_MAX
        self._config.h2_max_header_list_size = HEAD_BYTES_MAX
        self._config.h2_max_concurrent_streams = STREAMS_MAX

    async def serve(self, stream: trio.abc.Stream, remote: str) -> None:
        """Carry one connection to its end. Errors of the client end here."""
        kind = TlsConnection if isinstance(stream, trio.SSLStream) else WebConnection
        connection = kind(self._site, self._app, stream, remote)
        try:
            await connection.run(self._config, self._worker)
            await linger(connection)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            _log.debug("%s: connection lost", remote)
        except* ValueError as group:  # what of a head hypercorn decodes without having looked at it
            _log.info("%s: not HTTP: %s", remote, group.exceptions[0])

    async def drain(self) -> None:
        """Wait until the site drains, close what rests, and let no connection have another request."""
        await self._site.draining.wait()
        await self._worker.terminated.set()


class WebConnection:
    """One connection, which is also the stream that hypercorn is given."""

    def __init__(self, site: Site, app: AsgiApp, stream: Any, remote: str) -> None:
        self._site = site
        self._app = app
        self._stream = stream
        self._remote = remote
        self._scope = trio.CancelScope(deadline=trio.current_time() + site.limits.login_timeout_s)
        self._requests = 0
        self._begun = True

    async def run(self, config: Config, worker: WorkerContext) -> None:
        """Serve it until it ends, or its time has come."""
        with self._scope:
            await TCPServer(self._answer, config, worker, {}, self)

    async def _answer(self, scope: Any, receive: Any, send: Any, spawn: Any, call_soon: Any) -> None:
        """One request: what hypercorn calls."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        scope["state"]["remote"] = self._remote
        self._requests += 1
        self._begun = False
        self._scope.deadline = math.inf
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests -= 1
            if not self._requests:
                self._scope.deadline = trio.current_time() + KEEP_ALIVE_S

    # -- as a stream ------------------------------------------------------------------------------

    @property
    def socket(self) -> Any:
        """For hypercorn to ask who is at its ends."""
        return self._stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Some bytes; with the first of a request its time begins."""
        data: bytes | bytearray = await self._stream.receive_some(max_bytes)
        if data and not self._requests and not self._begun:
            self._begun = True
            self._scope.deadline = trio.current_time() + self._site.limits.login_timeout_s
        return data

    async def send_all(self, data: bytes) -> None:
        """Send bytes. Raises BrokenResourceError, too, where the client does not take them in time."""
        with trio.move_on_after(self._site.limits.send_timeout_s):
            await self._stream.send_all(data)
            return
        _log.info("%s: does not read", self._remote)
        self._scope.cancel()
        raise trio.BrokenResourceError("the client does not read")

    async def send_eof(self) -> None:
        """See `trio.SocketStream`; TLS has no half of its own to close."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """End its tasks; its stream is closed by whoever accepted it, who says goodbye to TLS first."""
        self._scope.cancel()


class TlsConnection(WebConnection):
    """One over TLS."""

    @property
    def transport_stream(self) -> Any:
        """What TLS is spoken over."""
        return self._stream.transport_stream

    async def do_handshake(self) -> None:
        """Do nothing: it has been done."""

    def selected_alpn_protocol(self) -> str | None:
        """The version of HTTP that the client has chosen."""
        chosen: str | None = self._stream.selected_alpn_protocol()
        return chosen

    async def send_eof(self) -> None:
        """Do nothing."""
