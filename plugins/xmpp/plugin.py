"""The front end as the daemon runs it: one component, one service, until the site drains.

component.run      the stream to the XMPP server
keep_transfers     urn:xmpp:qos, again until it is answered
keep_house         sessions that nobody uses
each client        its session's events
"""

import ssl
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daemon.config import ConfigError
from daemon.frontend import Site
from plugins.xmpp.component import Component, Connect, tcp_connector
from plugins.xmpp.parser import ParserLimits
from plugins.xmpp.service import Service
from plugins.xmpp.settings import XmppSettings

SECRET_BYTES_MAX: Final = 1_024
TABLE: Final = Path("[plugins.xmpp]")
"""Named where a problem is in the configuration itself, whose file a front end does not know."""


def read_secret(path: Path) -> str:
    """The secret: the file's only line. Raises ConfigError."""
    try:
        data = path.read_bytes()
        mode = path.stat().st_mode
        secret = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(path, "", f"the component's secret cannot be read: {error}") from None
    if mode & 0o077:
        raise ConfigError(path, "", "others can read the component's secret; chmod 600 it")
    if not secret or len(data) > SECRET_BYTES_MAX or "\n" in secret:
        raise ConfigError(path, "", "expected the component's secret, one line of text")
    return secret


def connector(settings: XmppSettings) -> Connect:
    """How the server is reached. Raises ConfigError."""
    host, _, port = settings.server.rpartition(":")
    context = None
    if settings.tls:
        try:
            context = ssl.create_default_context(cafile=settings.tls_authorities)
        except (OSError, ssl.SSLError) as error:
            problem = f"the authorities cannot be used: {error}"
            raise ConfigError(settings.tls_authorities or TABLE, "", problem) from None
    return tcp_connector(host, int(port), context)


async def serve(
    site: Site,
    settings: XmppSettings,
    connect: Connect,
    secret: str,
    task_status: trio.TaskStatus[Service] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve over streams that `connect` makes, until the site has drained or this is cancelled."""
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
        await service.drained()
        nursery.cancel_scope.cancel()


class XmppPlugin:
    """See `daemon.frontend.Plugin`."""

    name = "xmpp"
    settings: type[msgspec.Struct] = XmppSettings
    enabled_by_default = False

    async def serve(
        self, site: Site, settings: Any, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """See `daemon.frontend.Plugin`. Raises ConfigError before it has started.

        Started without waiting for the XMPP server: that one may come later, or be gone for a while.
        """
        if not settings.component:
            raise ConfigError(TABLE, "component", "is required")
        connect, secret = connector(settings), read_secret(settings.secret_file)
        task_status.started()
        await serve(site, settings, connect, secret)


plugin = XmppPlugin()
