"""Where a message would go from this site, and why not further."""

from daemon.operating.federation import Route
from routing.federation.outlook import Outlook
from routing.federation.wants import Want
from routing.message import DEPTH_UNLIMITED
from routing.names import is_system_topic, parse_address


def routes(outlook: Outlook, name: str) -> list[Route]:
    """The ways of messages to a topic, of either mode, and to a server of that name; or to an account."""
    wants: list[Want] = [("ALL", name), ("ONE", name)]
    if is_system_topic(name):
        wants = [("SERVER", parse_address(name).server)]
    elif outlook.distances(("SERVER", name)):
        wants.append(("SERVER", name))
    out = []
    for want in wants:
        known = outlook.distances(want)
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
