"""Where a message would go from this site, and why not further."""

from collections.abc import Mapping
from typing import Final

import msgspec

from daemon.operating.federation import Route, RouteDestination
from routing.federation.assignments import Assignment
from routing.federation.obstacles import DOWN, Obstacle
from routing.federation.outlook import Outlook, Way
from routing.message import DEPTH_UNLIMITED
from routing.names import is_system_topic, parse_address
from routing.peering.copies import onward
from routing.peering.wants import Want

WANTS: Final[frozenset[Obstacle]] = DOWN | {"", "untold", "unwanted"}
"""What peers tell of wants, which does not matter where destinations are known."""


def routes(outlook: Outlook, name: str) -> list[Route]:
    """The ways of messages to a topic, of either mode, and to a server of that name; or to an account."""
    if is_system_topic(name):
        return _by_wants(outlook, ("SERVER", parse_address(name).server))
    to_server = _by_wants(outlook, ("SERVER", name)) if outlook.distances(("SERVER", name)) else []
    return [*_to_all(outlook, name), *_by_wants(outlook, ("ONE", name)), *to_server]


def _to_all(outlook: Outlook, name: str) -> list[Route]:
    want: Want = ("ALL", name)
    assigned = outlook.assignments.find(name, DEPTH_UNLIMITED)
    if assigned is None:
        why = outlook.assignments.why_none(name, DEPTH_UNLIMITED)
        return [msgspec.structs.replace(route, why_unnamed=why) for route in _by_wants(outlook, want)]
    known = outlook.distances(want)
    out = []
    for way in outlook.ways_to(want, DEPTH_UNLIMITED, ()):
        route = _route(by_destinations(outlook, way, DEPTH_UNLIMITED, assigned), want, known)
        if seen_to := [one for one in assigned if one.peer == way.peer]:
            route = msgspec.structs.replace(
                route,
                distance=min(one.hops for one in seen_to),
                destinations=tuple(_destination(one, assigned) for one in seen_to),
            )
        out.append(route)
    return out


def _by_wants(outlook: Outlook, want: Want) -> list[Route]:
    known = outlook.distances(want)
    return [_route(way, want, known) for way in outlook.ways_to(want, DEPTH_UNLIMITED, ())]


def _route(way: Way, want: Want, known: Mapping[str, int]) -> Route:
    """`known` are the distances of the want, by peer."""
    distance = known.get(way.peer)
    return Route(
        peer=way.peer,
        kind=want[0],
        distance=None if distance is None else distance + 1,
        why=way.why,
        obstacle=way.obstacle,
    )


def by_destinations(outlook: Outlook, way: Way, depth: int, assigned: list[Assignment]) -> Way:
    """What destinations make of a way to a peer, for a message of mode ALL that may go `depth` more."""
    obstacle, detail = _obstacle(outlook, way, assigned)
    return Way(way.peer, None if obstacle else onward(depth), obstacle, detail)


def _obstacle(outlook: Outlook, way: Way, assigned: list[Assignment]) -> tuple[Obstacle, str]:
    """See `Way.obstacle` and `Way.detail`."""
    peer = way.peer
    if any(one.peer == peer for one in assigned):
        return "" if outlook.is_up(peer) else "down", ""
    if way.obstacle not in WANTS or (way.obstacle == "untold" and not assigned):
        return way.obstacle, way.detail
    behind = [one for one in assigned if peer in one.if_up or peer in one.as_short]
    if behind and not outlook.is_up(peer):
        return "bypassed" if all(one.up for one in behind) else "down", ""
    if any(peer in one.if_up for one in behind):
        return "beyond-down", ""
    if others := sorted({one.peer for one in assigned if peer in one.as_short}):
        return "as-near", f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'}"
    return "longer-way" if assigned else "unwanted", ""


def _destination(one: Assignment, assigned: list[Assignment]) -> RouteDestination:
    return RouteDestination(site=one.site, hops=one.hops, why=_why(one, assigned), up=one.up)


def _why(one: Assignment, assigned: list[Assignment]) -> str:
    """Why it goes by this peer, see `Ways.assign`."""
    if not one.as_short:
        why = "the shortest way" if one.up else "the shortest way if it was up"
    else:
        others = f"as short as from {' and '.join(one.as_short)}"
        shared = [other.site for other in assigned if other.peer == one.peer and other is not one]
        if not shared:
            why = f"{others}, and first by name"
        elif len(shared) == 1:
            why = f"{others}, and the way to {shared[0]}, too"
        else:
            why = f"{others}, and the way to {len(shared)} others, too"
    if not one.sure:
        why += "; whether it is wanted there is not known"
    return why if one.up else f"waits, as no way is up: {why}"
