"""How a site and its links are joined: the one way, for sites and tests."""

from collections.abc import Mapping
from random import Random
from typing import Final, Protocol

from daemon.link.manager import LinkManager
from daemon.link.peers_file import PeerEntry
from daemon.link.port import Links, RouterPort, SiteIdentity
from daemon.link.transport import LinkTransport
from daemon.settings import Limits, LinkSettings
from daemon.system.clock import Clock
from daemon.system.mishaps import Mishaps
from routing.federation.enquiry import FEATURES
from routing.peering.counts import COUNTS
from routing.peering.news import NEWS
from routing.peering.wants import PATTERNS, WANTS_FROM_NEWS

OFFERED: Final = (*FEATURES, PATTERNS, NEWS, WANTS_FROM_NEWS, COUNTS)
"""What a site says to its peers that it knows, besides what it says to all sites in its news."""

HEADERS_GROW: Final = 4
"""How many times as long as they came headers may be: STOMP's are percent-encoded."""

HEADERS_ADDED_BYTES: Final = 16_384
"""For headers that sites add, and what marks STOMP's as such."""


class LinkedPort(RouterPort, Protocol):
    """The broker, as its links see it, and as it sees them."""

    links: Links | None


class LinkedBroker(Protocol):
    """What of a broker its links are joined with."""

    server_name: str
    clock: Clock
    mishaps: Mishaps

    @property
    def federating(self) -> LinkedPort:
        """What carries copies and controls between router and links."""

    @property
    def limits(self) -> Limits:
        """The bounds of now."""


def joined(
    broker: LinkedBroker,
    site: str,
    boot: int,
    features: tuple[str, ...],
    settings: LinkSettings,
    peers: Mapping[str, PeerEntry],
    transport: LinkTransport,
    source: Random,
) -> LinkManager:
    """Give a broker its links, which are to be run; whom it trusts for news is told by `Door.set_notary`.

    Args:
        site: identifies the installation, see `SiteIdentity`.
        features: all that the site says to its peers that it knows.
        source: spreads the back-off.
    """
    manager = broker.federating.links = LinkManager(
        identity=SiteIdentity(server=broker.server_name, site=site, boot=boot, features=features),
        settings=settings,
        peers=peers,
        transport=transport,
        port=broker.federating,
        source=source,
        wall_us=broker.clock.wall_us,
        message_bytes_max=lambda: _wire_bytes_max(broker.limits),
        mishaps=broker.mishaps,
    )
    return manager


def _wire_bytes_max(limits: Limits) -> int:
    """What a message of this site, or of one with the same limits, may have at most."""
    headers = HEADERS_GROW * limits.frame_header_bytes_max + HEADERS_ADDED_BYTES
    return limits.message_bytes_max + headers
