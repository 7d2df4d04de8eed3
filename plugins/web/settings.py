"""The table [plugins.web] of the configuration."""

from typing import Annotated

import msgspec

from daemon.frontend import ListenAddress, note


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The page for operators, its API, metrics and health checks, over HTTP/1.1 and HTTP/2."""

    listen: Annotated[
        tuple[ListenAddress, ...],
        note("Addresses for connections without TLS, `host:port` or `[v6]:port`; passwords cross in clear."),
    ] = ("127.0.0.1:7780",)
    listen_tls: Annotated[
        tuple[ListenAddress, ...],
        note("Addresses for connections with TLS; needs [tls]. Sockets from systemd are named `https`."),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        note(
            "Names by which browsers may call this page, such as that of a proxy before it; the site's own,"
            " localhost and addresses always may."
        ),
    ] = ()
