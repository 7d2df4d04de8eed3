"""Opens listening sockets, accepts the connections of all front ends, and keeps the limits on them.

`Listeners.serve` runs, for each front end and kind of socket, an accept loop and a task for each
connection. When the site drains the accept loops end and their sockets close, connections get the
drain time, and what is left then is cancelled. An error of one connection is logged and ends it alone;
an accept that fails is tried again after a while (`daemon.connections.accepting`).
"""

import errno
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from daemon.connections.accepting import accept_all
from daemon.connections.addresses import counted_as
from daemon.frontend import Limits

_log = logging.getLogger(__name__)

StreamHandler = Callable[[trio.abc.Stream, str, float], Awaitable[object]]

BACKLOG: Final = 1024
LOGGED_EVERY_S: Final = 10.0
REFUSAL_S: Final = 1.0
GOODBYE_S: Final = 1.0
"""For a connection beyond the limits to take the words that say so: they fit into any socket's buffer."""


class _Sparing(logging.Filter):
    """Lets one complaint in a while through, without its traceback: trio makes ten a second."""

    def __init__(self) -> None:
        super().__init__()
        self._last_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        if record.created - self._last_at < LOGGED_EVERY_S:
            return False
        self._last_at = record.created
        return True


logging.getLogger("trio.serve_listeners").addFilter(_Sparing())


class ListenError(Exception):
    """An address that cannot be listened on, in one line."""


class Listeners:
    """All listening sockets of a site, and the number of their connections."""

    def __init__(
        self,
        *,
        limits: Callable[[], Limits],
        tls_context: Callable[[], ssl.SSLContext | None],
        draining: trio.Event,
        drain_s: float,
        passed: dict[str, list[socket.socket]],
        mishap: Callable[[str, Exception], None],
        http_context: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        """Limits and TLS contexts are asked for at each connection, since they change while it runs.

        `http_context` is for HTTP, of which clients choose a version (ALPN). `passed` holds the sockets that
        the service manager opened, by name; `mishap` is told of an error of ours that ended a connection.
        """
        self._mishap = mishap
        self._limits = limits
        self._tls_context = tls_context
        self._http_context = http_context
        self._draining = draining
        self._drain_s = drain_s
        self._passed = passed
        self.connections = 0
        """That are open now."""
        self.addresses: list[str] = []
        """That are listened on, each after the name of its sockets."""
        self.need_tls = False
        """Whether a front end takes connections with TLS."""
        self._by_host: Counter[str] = Counter()
        self._refused = 0
        self._refused_logged_at = -LOGGED_EVERY_S

    async def serve(
        self,
        listen: tuple[str, ...],
        handler: StreamHandler,
        *,
        socket_name: str,
        tls: bool,
        http: bool = False,
        refusal: bytes = b"",
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """See `daemon.frontend.Site.serve_streams`. Raises ListenError before it has started."""
        context = self._http_context if http else self._tls_context
        if tls and context() is None and (listen or self._passed.get(socket_name)):
            raise ListenError(f"cannot listen for {socket_name}: TLS needs [tls] certificate and key")

        async def connected(stream: trio.SocketStream) -> None:
            await self._connection(stream, handler, context if tls else None, b"" if tls else refusal)

        listeners = await open_listeners(listen, self._passed.pop(socket_name, []), socket_name)
        self.need_tls |= tls and bool(listeners)
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                if listeners:
                    accepting.start_soon(
                        lambda: accept_all(connected, listeners, self._mishap, handler_nursery=connections)
                    )
                bound = [shown(listener.socket.getsockname()) for listener in listeners]
                self.addresses += [f"{socket_name} {address}" for address in bound]
                task_status.started(bound)
                await self._draining.wait()
                self.addresses = []
                accepting.cancel_scope.cancel()
            connections.cancel_scope.deadline = trio.current_time() + self._drain_s

    async def _connection(
        self,
        stream: trio.SocketStream,
        handler: StreamHandler,
        tls: Callable[[], ssl.SSLContext | None] | None,
        refusal: bytes,
    ) -> None:
        async with stream:
            try:
                peer = stream.socket.getpeername()
            except OSError:  # it has gone already
                return
            remote = shown(peer)
            host = counted_as(_host(peer))
            if not self._admit(host, remote):
                with trio.move_on_after(REFUSAL_S), suppress(trio.BrokenResourceError):
                    await stream.send_all(refusal)
                return
            try:
                await self._handle(stream, handler, tls, remote)
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                _log.debug("%s: connection lost", remote)
            except* Exception as group:
                self._mishap(f"the connection of {remote}", _only(group))
            finally:
                self._leave(host)

    async def _handle(
        self,
        stream: trio.SocketStream,
        handler: StreamHandler,
        tls: Callable[[], ssl.SSLContext | None] | None,
        remote: str,
    ) -> None:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        login_by = trio.current_time() + self._limits().login_timeout_s
        if tls is None:
            await handler(stream, remote, login_by)
            return
        context = tls()
        assert context is not None  # without it nothing was listened for, and a reload takes none away
        # What is lost when a peer closes without TLS's goodbye would be noticed by the frames.
        tls_stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        with trio.move_on_at(login_by) as handshake:
            try:
                await tls_stream.do_handshake()
            except trio.BrokenResourceError as error:
                _log.info("%s: TLS handshake failed: %s", remote, error.__cause__ or "connection lost")
                return
        if handshake.cancelled_caught:
            _log.info("%s: TLS handshake took too long", remote)
            return
        await handler(tls_stream, remote, login_by)
        # Without our goodbye some clients report an error at the end of each connection.
        with trio.move_on_after(GOODBYE_S), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await tls_stream.unwrap()

    def _admit(self, host: str, remote: str) -> bool:
        """Count the connection, unless a limit refuses it."""
        limits = self._limits()
        if self.connections >= limits.connections_max:
            limit = f"connections_max = {limits.connections_max}"
        elif host and self._by_host[host] >= limits.connections_per_address_max:
            limit = f"connections_per_address_max = {limits.connections_per_address_max}"
        else:
            self.connections += 1
            self._by_host[host] += 1
            return True
        self._refused += 1
        if trio.current_time() - self._refused_logged_at >= LOGGED_EVERY_S:
            _log.warning("%s: connection refused by %s; %d refused so far", remote, limit, self._refused)
            self._refused_logged_at = trio.current_time()
        return False

    def _leave(self, host: str) -> None:
        self.connections -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def _only(error: Exception) -> Exception:
    """What a group of one, of one, holds: errors of one kind are counted by where they were raised."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def open_listeners(
    listen: tuple[str, ...], passed: Sequence[socket.socket], purpose: str
) -> list[trio.SocketListener]:
    """Listen on every address, or on none; sockets that are `passed` listen already, and take their place.

    Raises ListenError, which says for what `purpose`, such as a front end.
    """
    if passed:
        try:
            return [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in passed]
        except ValueError as error:
            raise ListenError(f"the socket passed for {purpose} cannot be used: {error}") from None
    listeners: list[trio.SocketListener] = []
    try:
        for address in listen:
            host, port = split_address(address)
            listeners += await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except (OSError, ValueError) as error:
        for listener in listeners:
            listener.socket.close()
        raise ListenError(f"cannot listen for {purpose} on {address}: {reason_of(error)}") from None
    return listeners


def reason_of(error: Exception) -> str:
    """Why an address cannot be listened on."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{reason}; `ss -ltnp` shows by what"
    return reason


def split_address(address: str) -> tuple[str | None, int]:
    """`host:port`, `[v6]:port`, or `*:port` for all addresses (None). Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535) or not host:
        raise ValueError("expected host:port, [v6]:port or *:port")
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port)
    if ":" in host:
        raise ValueError("an IPv6 address stands in [ ]")
    return (None if host == "*" else host), int(port)


def clash(one: tuple[str | None, int], other: tuple[str | None, int]) -> bool:
    """Whether only one of two addresses, as `split_address` gives them, can be listened on."""
    hosts, ports = {one[0], other[0]}, {one[1], other[1]}
    if len(ports) > 1 or ports == {0}:
        return False
    if len(hosts) == 1 or None in hosts:
        return True
    of_v6 = {":" in host for host in hosts if host is not None}
    return len(of_v6) == 1 and bool(hosts & {"0.0.0.0", "::"})


def try_to_listen(host: str | None, port: int) -> None:
    """Raise OSError where this user could not listen there now. Blocks; nothing can connect meanwhile."""
    for family, kind, protocol, _, where in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            tried = socket.socket(family, kind, protocol)
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise
            continue
        with tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tried.bind(where)


def shown(address: object) -> str:
    """A socket's address as people write it."""
    if not isinstance(address, tuple):
        return "unix"
    host = _host(address)
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def _host(address: object) -> str:
    """Without the port; an IPv4 address that came by an IPv6 socket is an IPv4 address. "" for no address."""
    if not isinstance(address, tuple):
        return ""
    return str(address[0]).removeprefix("::ffff:")
