"""How far all other sites are, as they say themselves: links that are up at both ends.

A site that says nothing of itself, as one of an earlier version, is there by the word of its peers.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from routing.peering.news import KnownNews


def distances(server: str, up: Iterable[str], news: Mapping[str, KnownNews]) -> dict[str, int]:
    """Links from `server`, with which the peers `up` are linked, to each site that can be reached."""
    said = {
        site: {link.peer for link in known.statement.links if link.up}
        for site, known in news.items()
        if site != server
    }
    said[server] = set(up)
    linked: defaultdict[str, set[str]] = defaultdict(set)
    for site, peers in said.items():
        for peer in peers:
            if peer not in said or site in said[peer]:
                linked[site].add(peer)
                linked[peer].add(site)
    found, edge = {server: 0}, {server}
    while edge:
        edge = {peer for site in edge for peer in linked[site]} - found.keys()
        distance = max(found.values()) + 1
        found |= dict.fromkeys(edge, distance)
    return found
