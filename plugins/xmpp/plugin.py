"""The front end as the daemon runs it: one component, one service, until the site drains.

component.run      the stream to the XMPP server
keep_transfers     urn:xmpp:qos, again until it is answered
keep_house         sessions that nobody uses
each client        its session's events
"""

import logging
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.frontend import Site
from plugins.xmpp.component import Component, Connect, tcp_connector
from plugins.xmpp.parser import ParserLimits
from plugins.xmpp.service import Service
from plugins.xmpp.settings import XmppSettings

_log = logging.getLogger(__name__)

SECRET_BYTES_MAX: Final = 1_024


class XmppConfigError(Exception):
    """What keeps the front end from starting, in one line."""


def read_secret(path: Path) -> str:
    """The secret: the file's only line. Raises XmppConfigError."""
    try:
        data = path.read_bytes()
        secret = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise XmppConfigError(f"plugins.xmpp.secret_file: {path}: {error}") from None
    if path.stat().st_mode & 0o077:
        raise XmppConfigError(f"plugins.xmpp.secret_file: {path} can be read by others; chmod 600 it")
    if not secret or len(data) > SECRET_BYTES_MAX or "\n" in secret:
        raise XmppConfigError(f"plugins.xmpp.secret_file: {path} holds no single line of text")
    return secret


def connector(settings: XmppSettings) -> Connect:
    """How the server is reached. Raises XmppConfigError."""
    host, colon, port = settings.server.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise XmppConfigError(f"plugins.xmpp.server: {settings.server!r} is not host:port")
    context = None
    if settings.tls:
        try:
            context = ssl.create_default_context(cafile=settings.tls_authorities)
        except (OSError, ssl.SSLError) as error:
            raise XmppConfigError(f"plugins.xmpp.tls_authorities: {error}") from None
    return tcp_connector(host.strip("[]"), int(port), context)


async def serve(
    site: Site,
    settings: XmppSettings,
    connect: Connect,
    secret: str,
    task_status: trio.TaskStatus[Service] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve over streams that `connect` makes, until the site drains or this is cancelled."""
    async with trio.open_nursery() as nursery:
        service = Service(site, settings, nursery)
        service.component = Component(
            settings.component,
            secret,
            connect,
            handle=service.handle,
            up=service.up,
            limits=ParserLimits(stanza_bytes_max=settings.receive_bytes_max),
            send_bytes_max=settings.send_bytes_max,
        )
        for task in (service.component.run, service.keep_transfers, service.keep_house):
            nursery.start_soon(task)
        task_status.started(service)
        await site.draining.wait()
        nursery.cancel_scope.cancel()


class XmppPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "xmpp"
    settings: type[msgspec.Struct] = XmppSettings
    enabled_by_default = False

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See `daemon.frontend.Plugin`. Raises XmppConfigError before it has started.

        Started without waiting for the XMPP server: that one may come later, or be gone for a while.
        """
        if not settings.component:
            raise XmppConfigError("plugins.xmpp.component: the component's name is missing")
        connect, secret = connector(settings), read_secret(settings.secret_file)
        task_status.started()
        await serve(site, settings, connect, secret)


plugin = XmppPlugin()
