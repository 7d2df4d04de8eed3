"""Where a message would go from this site, and why not further."""

from typing import Literal

import msgspec

from routing.federation.federation import Federation
from routing.federation.interest import Want


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One peer, as a way for a message.

    Attributes:
        distance: links from this site to the nearest site beyond the peer that wants it; None where the
            peer knows of none. It is the least Depth with which a message gets there.
        allowed: the rules of the link let it go.
    """

    peer: str
    kind: Literal["ALL", "ONE", "SERVER"]
    distance: int | None
    allowed: bool
    up: bool
    flood: bool


def routes(federation: Federation, name: str) -> list[Route]:
    """The ways of messages to a topic, of either mode, and to a server of that name."""
    out = []
    wants: list[Want] = [("ALL", name), ("ONE", name), ("SERVER", name)]
    for kind, wanted in wants:
        known = federation.interest.distances((kind, wanted))
        if kind == "SERVER" and not known:
            continue
        for peer in federation.forwarding.peers.values():
            distance = known.get(peer.name)
            out.append(
                Route(
                    peer=peer.name,
                    kind=kind,
                    distance=None if distance is None else distance + 1,
                    allowed=kind == "SERVER" or peer.may_go(name),
                    up=peer.up,
                    flood=peer.rules.flood,
                )
            )
    return out
