"""Where a message would go from this site, and why not further."""

from typing import Final

import msgspec

from daemon.operating.federation import Route, RouteDestination
from routing.federation.assignments import Assignment
from routing.federation.outlook import DOWN, LINK_DOWN, UNTOLD, UNWANTED, Outlook
from routing.message import DEPTH_UNLIMITED
from routing.names import is_system_topic, parse_address
from routing.peering.wants import Want

NOT_SHORTEST: Final = "no shortest way to who wants it begins there"
LINK_BEYOND_DOWN: Final = "a link beyond it is down"
ANOTHER_WAY: Final = "another way is taken while the link is down"
WANTS: Final = ("", *DOWN, UNTOLD, UNWANTED)
"""What peers tell of wants, which does not matter where destinations are known."""


def routes(outlook: Outlook, name: str) -> list[Route]:
    """The ways of messages to a topic, of either mode, and to a server of that name; or to an account."""
    if is_system_topic(name):
        return _by_wants(outlook, ("SERVER", parse_address(name).server))
    to_all = _by_wants(outlook, ("ALL", name))
    assigned = outlook.assignments.find(name, DEPTH_UNLIMITED)
    if assigned is None:
        why = outlook.assignments.why_none(name, DEPTH_UNLIMITED)
        to_all = [msgspec.structs.replace(route, why_unnamed=why) for route in to_all]
    else:
        to_all = [_by_destinations(outlook, route, assigned) for route in to_all]
    to_server = _by_wants(outlook, ("SERVER", name)) if outlook.distances(("SERVER", name)) else []
    return [*to_all, *_by_wants(outlook, ("ONE", name)), *to_server]


def _by_wants(outlook: Outlook, want: Want) -> list[Route]:
    known = outlook.distances(want)
    out = []
    for way in outlook.ways_to(want, DEPTH_UNLIMITED, ()):
        distance = known.get(way.peer)
        out.append(
            Route(
                peer=way.peer,
                kind=want[0],
                distance=None if distance is None else distance + 1,
                why=way.why,
            )
        )
    return out


def _by_destinations(outlook: Outlook, route: Route, assigned: list[Assignment]) -> Route:
    """What destinations make of a way to a peer, for a message of mode ALL."""
    seen_to = [one for one in assigned if one.peer == route.peer]
    why = why_not(outlook, route.peer, route.why, assigned)
    if not seen_to:
        return msgspec.structs.replace(route, why=why)
    return msgspec.structs.replace(
        route,
        distance=min(one.hops for one in seen_to),
        why=why,
        destinations=tuple(_destination(one, assigned) for one in seen_to),
    )


def why_not(outlook: Outlook, peer: str, why: str, assigned: list[Assignment]) -> str:
    """Why a message with these destinations does not go to a peer; "" where it does.

    `why`: why it would not if they were not known.
    """
    if any(one.peer == peer for one in assigned):
        return "" if outlook.is_up(peer) else LINK_DOWN
    if why not in WANTS or (why == UNTOLD and not assigned):
        return why
    behind = [one for one in assigned if peer in one.if_up or peer in one.as_short]
    if behind and not outlook.is_up(peer):
        return ANOTHER_WAY if all(one.up for one in behind) else LINK_DOWN
    if any(peer in one.if_up for one in behind):
        return LINK_BEYOND_DOWN
    if others := sorted({one.peer for one in assigned if peer in one.as_short}):
        return f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'} as near"
    return NOT_SHORTEST if assigned else UNWANTED


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
