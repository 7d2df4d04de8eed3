"""The front end `smqp`: its settings, and its listeners."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import trio

from daemon.connections.shell import Connections, Endpoint
from daemon.frontend import ListenAddress, Site, note
from plugins.smqp.conversation import SmqpConversation
from plugins.smqp.replies import not_available


class SmqpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Native SMQP (plugins/smqp/README.md). IANA has registered port 720/tcp for it."""

    listen: Annotated[
        tuple[ListenAddress, ...],
        note("Addresses for connections without TLS, `host:port` or `[v6]:port`; passwords cross in clear."),
    ] = ("127.0.0.1:720",)
    listen_tls: Annotated[
        tuple[ListenAddress, ...],
        note("Addresses for connections with TLS; needs [tls]. Sockets from systemd are named `smqps`."),
    ] = ()


class SmqpPlugin:
    """See `daemon.frontend.Plugin`."""

    name: Final = "smqp"
    settings: Final = SmqpSettings
    enabled_by_default: Final = True

    def check(self, settings: SmqpSettings, accounts: Collection[str]) -> Iterable[str]:
        """See `daemon.frontend.Plugin`."""
        return ()

    async def serve(
        self,
        site: Site,
        settings: SmqpSettings,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run until cancelled or drained; started once it accepts connections."""

        full = not_available(
            site.server_ident, None, "as many connections as the site takes; try again later"
        )
        await connections(site).listen(
            Endpoint(addresses=settings.listen, socket_name="smqp", refusal=full),
            Endpoint(addresses=settings.listen_tls, socket_name="smqps", tls=True),
            task_status=task_status,
        )


def connections(site: Site) -> Connections:
    """The SMQP connections of a site."""

    def begin(remote: str) -> SmqpConversation:
        return SmqpConversation(
            server_name=site.server_name,
            server_ident=site.server_ident,
            suid=site.suid,
            default_timeout_s=site.default_timeout_s,
            limits=site.limits,
            remote=remote,
            utc_now=lambda: datetime.now(UTC),
            note_refused=site.metrics.tell_refused,
        )

    return Connections(site, "smqp", begin)


plugin: Final = SmqpPlugin()
