"""The table [plugins.web] of the configuration."""

from typing import Annotated

import msgspec

from daemon.frontend import ListenAddress, count, note, seconds


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
    session_s: Annotated[
        float, seconds("After so long without a request a browser has to log in again.", 60.0)
    ] = 28_800.0
    ready_links: Annotated[
        tuple[str, ...], note("Peers to which the link must be up for /health/ready to say so.")
    ] = ()
    metrics_login: Annotated[
        bool,
        note("Whether /metrics asks for an account that may look; else it is open to whoever can connect."),
    ] = True
    metrics_topics_max: Annotated[
        int, count("Topics that /metrics tells of by name, where there are more those that matter most.")
    ] = 100
