"""Links, the other sites that are known, and the ways there."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from routing.peering.news import LinkNews

LinkState = Literal["up", "leaving", "dialling", "waiting"]


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A peer.

    Attributes:
        state: `leaving` once either of the two has said that it stops: only what is on its way still goes.
        since_s: seconds in this state.
        remote: address of the other end; "" where none is known.
        round_trip_s: of the last probe; None where none has come back.
        waiting: units not written (`daemon.link.unacknowledged` adds what waits on disk).
        in_flight: units written and not acknowledged.
        lag_s: age of the oldest of them (of what waits on disk, since it was published, by the clock of the
            site where it was); None where there is none.
        messages: that it has not answered for, sent or not; units are also controls. 0 from a site of 0.1.
        why_down: why the last link, or the last attempt at one, ended, or is about to; "" where none did.
    """

    peer: str
    state: LinkState
    since_s: float
    remote: str
    round_trip_s: float | None
    waiting: int
    in_flight: int
    lag_s: float | None
    why_down: str
    version: str
    features: tuple[str, ...]
    messages: int = 0

    @property
    def trouble(self) -> str:
        """What to call the state of one that is not up."""
        return "leaving" if self.state == "leaving" else "down"


class KnownSite(msgspec.Struct, frozen=True, kw_only=True):
    """A site.

    Attributes:
        hops: links from this site, over such as are up at both ends; None where there is no way.
        source: the peer that told of it first; "" of this site itself, and of one that says nothing.
        age_s: since it said so; None where it says nothing of itself, as one of an earlier version.
        boot, number: of what it said; 0 where it says nothing.
        wants: topics and patterns that are known to be wanted there; None where it does not say.
        wants_missing: it has said more, which is not here yet.
    """

    site: str
    hops: int | None
    source: str
    age_s: float | None
    boot: int
    number: int
    links: tuple[LinkNews, ...]
    wants: int | None = None
    wants_missing: bool = False


def links_between(sites: Iterable[KnownSite]) -> list[tuple[str, str, bool]]:
    """Each link once, by its two ends, and whether it is up: where each end that says anything says so."""
    known = list(sites)
    speak = {site.site for site in known if site.age_s is not None or site.links}
    said = {(site.site, link.peer): link.up for site in known for link in site.links}
    pairs = sorted({(min(pair), max(pair)) for pair in said})
    return [
        (one, other, all(said.get(end, end[0] not in speak) for end in ((one, other), (other, one))))
        for one, other in pairs
    ]


def link_remarks(sites: Iterable[KnownSite]) -> dict[tuple[str, str], str]:
    """What is to be said of each link, by site and peer: it is down, or floods; "" for nothing."""
    known = list(sites)
    up = {frozenset((one, other)) for one, other, is_up in links_between(known) if is_up}
    return {
        (site.site, link.peer): ", ".join(
            ["down"] * (frozenset((site.site, link.peer)) not in up) + ["floods"] * link.flood
        )
        for site in known
        for link in site.links
    }


class RouteDestination(msgspec.Struct, frozen=True, kw_only=True):
    """A site that a message of mode ALL would be for.

    Attributes:
        hops: links on the way there.
        why: it goes by this peer.
        up: all links of the way are up; it waits else.
    """

    site: str
    hops: int
    why: str
    up: bool


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One peer, as a way for a message.

    Attributes:
        distance: links from this site to the nearest site beyond the peer that wants it; None where the
            peer knows of none. It is the least Depth with which a message gets there.
        why: a message does not go there now; "" where it goes.
        obstacle: the same for programs, see `routing.federation.obstacles.Obstacle`. A site of 0.1 gives none
            beside its words, and then it is not known whether a link is down.
        destinations: of kind ALL: what the peer would be asked to see to.
        why_unnamed: of kind ALL: why a message names no destinations, and goes wherever peers tell that it is
            wanted; "" where it names them.
    """

    peer: str
    kind: Literal["ALL", "ONE", "SERVER"]
    distance: int | None
    why: str
    obstacle: str = ""
    destinations: tuple[RouteDestination, ...] = ()
    why_unnamed: str = ""
