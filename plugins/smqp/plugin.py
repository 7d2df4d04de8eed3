"""The front end `smqp`: its settings, and its listeners."""

from collections.abc import Collection, Iterable
from typing import Annotated, Final

import msgspec
import trio

from daemon.frontend import ListenAddress, Site, note
from plugins.smqp.replies import not_available
from plugins.smqp.server import serve_connection


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

        async def handle(stream: trio.abc.Stream, remote: str) -> None:
            await serve_connection(site, stream, remote)

        full = not_available(
            site.server_ident, None, "as many connections as the site takes; try again later"
        )

        async def listen(
            addresses: tuple[str, ...],
            socket_name: str,
            tls: bool,
            task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
        ) -> None:
            await site.serve_streams(
                addresses, handle, socket_name=socket_name, tls=tls, refusal=full, task_status=task_status
            )

        async with trio.open_nursery() as nursery:
            await nursery.start(listen, settings.listen, "smqp", False)
            await nursery.start(listen, settings.listen_tls, "smqps", True)
            task_status.started()


plugin: Final = SmqpPlugin()
