"""The front end as the daemon runs it: one component, one service, until the site drains.

component.run      the stream to the XMPP server
repeating.run      urn:xmpp:qos, again until it is answered
finishing.run      what the server has read, finished
clients.close_idle sessions that nobody uses
looking.run        subscribers that are away
keep_watch         whether those are there who have items of a queue
each client        its session's events
"""

import ssl

import trio

from daemon.frontend import ConfigError, Site
from plugins.xmpp.service import Service
from plugins.xmpp.settings import TABLE, XmppSettings
from plugins.xmpp.wire.component import Component, Dial, tcp_connector
from plugins.xmpp.wire.parser import ParserLimits


def connector(settings: XmppSettings) -> Dial:
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
    connect: Dial,
    secret: str,
    task_status: trio.TaskStatus[Service] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve over streams that `connect` makes, until the site has drained or this is cancelled."""
    async with trio.open_nursery() as nursery:
        component = Component(
            settings.component,
            secret,
            connect,
            handle=lambda stanza: service.handle(stanza),
            too_much=lambda stanza: service.refuse(stanza),
            up=lambda: service.up(),
            down=lambda: service.down(),
            limits=ParserLimits(stanza_bytes_max=settings.receive_bytes_max),
            send_bytes_max=settings.send_bytes_max,
        )
        service = Service(site, settings, component, nursery)
        for what, task in (
            ("the stream to the XMPP server", component.run),
            ("the transfers to XMPP clients", service.repeating.run),
            ("what XMPP clients have finished", service.finishing.run),
            ("the idle sessions of XMPP clients", service.clients.close_idle),
            ("the looks for XMPP subscribers", service.looking.run),
            ("the watch on XMPP subscribers", service.keep_watch),
        ):
            nursery.start_soon(site.keep_going, what, task)
        task_status.started(service)
        await site.draining.wait()
        await service.drained()
        nursery.cancel_scope.cancel()
