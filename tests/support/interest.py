"""What one site knows of wants, and tells of them, without a router."""

from routing.federation.interest import Interest
from routing.federation.known_wants import KnownWants
from routing.federation.nearest import NearestByNews
from routing.federation.telling import InterestToPeers
from routing.federation.topology import Topology


def alone(server: str) -> tuple[Interest, InterestToPeers]:
    """Of a site that hears no news, and says none."""
    nearest = NearestByNews(server, {}, Topology(server, {}, {}, KnownWants(server)))
    interest = Interest(
        server, nearest, lambda want, is_new_pattern: telling.interest_changed(want, is_new_pattern)
    )
    telling = InterestToPeers(
        interest, nearest, lambda peer, want: False, lambda peer: frozenset(), lambda peer, want: True
    )
    return interest, telling
