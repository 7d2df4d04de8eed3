"""What decides over destinations: the links of all sites and what they want, as it is known at one moment."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from routing.federation.known_wants import KnownWants
from routing.federation.link_graph import LinkEnd
from routing.federation.peer import Peer
from routing.federation.wants_by_name import Touched
from routing.federation.ways import Ways
from routing.peering.copies import PeerRules
from routing.peering.news import DESTINATIONS, KnownNews, SiteNews


class Topology:
    """Tell it what has changed; it finds the ways anew when they are asked for.

    Attributes:
        version: another one whenever links have changed, or their rules.
        graph: another one whenever they have, but not where links only come up or go down.
        wants: what other sites want.
        listeners: told what has changed of that, at once.
    """

    def __init__(
        self,
        server: str,
        peers: Mapping[str, Peer],
        news: Mapping[str, KnownNews],
        wants: KnownWants,
        doubted: Collection[str] = (),
    ) -> None:
        self.version = 0
        self.graph = 0
        self.wants = wants
        self.listeners: list[Callable[[Touched], None]] = []
        self._server = server
        self._peers = peers
        self._news = news
        self._doubted = doubted
        self._ways: Ways | None = None
        self._said: dict[str, tuple[SiteNews, dict[str, LinkEnd]]] = {}

    def links_changed(self) -> None:
        """Look for ways anew: links have come or gone, or have other rules, or more is known of sites."""
        self.graph += 1
        self.up_changed()

    def up_changed(self) -> None:
        """Look for ways anew, as a link is up, or down, here or elsewhere, and nothing else has changed."""
        self.version += 1
        self._ways = None

    def is_said_down(self, peer: str) -> bool:
        """Whether the link with a peer is down, and news of this site says so: others count on it no more."""
        known = self._news.get(self._server)
        if known is None or self._peers[peer].up:
            return False
        return any(link.peer == peer and not link.up for link in known.statement.links)

    def wants_changed(self) -> None:
        """Tell the listeners what sites want now, or which rules they tell."""
        touched = self.wants.take_touched()
        if touched.rules:
            self.links_changed()
        for listener in self.listeners:
            listener(touched)

    @property
    def ways(self) -> Ways:
        """As all links are now."""
        if self._ways is None:
            self._ways = Ways(self._server, self._links(), self._may_cross)
        return self._ways

    def _links(self) -> dict[str, dict[str, LinkEnd]]:
        links, said = dict[str, dict[str, LinkEnd]](), dict[str, tuple[SiteNews, dict[str, LinkEnd]]]()
        for site, known in self._news.items():
            before = self._said.get(site)
            if before is None or before[0] is not known.statement:  # most say what they said before
                before = known.statement, _ends_in(known.statement)
            said[site] = before
            links[site] = before[1]
        self._said = said
        links[self._server] = {name: _own_end(peer.up, peer.rules) for name, peer in self._peers.items()}
        for name, peer in self._peers.items():
            end = links.get(name, {}).get(self._server)
            # what its peer has said of a link before it came up is no news
            if peer.up and end is not None and not end.up and self._news[name].statement.version == peer.said:
                links[name] = {**links[name], self._server: msgspec.structs.replace(end, up=True)}
        return links

    def _may_cross(self, sender: str, receiver: str, topic: str) -> bool:
        if self._server in (sender, receiver):
            peer = self._peers.get(receiver if sender == self._server else sender)
            if peer is None or not (peer.may_go if sender == self._server else peer.may_come)(topic):
                return False
        return self.wants.may_cross(sender, receiver, topic)

    @property
    def sites(self) -> Collection[str]:
        """Those that say something of themselves, however far they are."""
        return self._news.keys()

    def has_news(self, site: str) -> bool:
        """Whether a site has ever said anything of itself, and not been forgotten."""
        return site in self._news

    def exists(self, site: str) -> bool:
        """Whether there is a site, as far as it is no hearsay: it is a peer, or has said so itself."""
        return site in self._peers or site in self._news or site in self._doubted

    def is_ever_linked(self, site: str) -> bool:
        """Whether a site exists and is a peer of any, up or down; all are while this site has no peers."""
        return self.exists(site) and (site in self.ways.links or not self._peers)

    def is_doubted(self, site: str) -> bool:
        """Whether what a site has said is not attested any more, so that its wants are not known."""
        return site in self._doubted

    def knows_destinations(self, site: str) -> bool:
        """Whether a site sees to the destinations that it is told."""
        known, peer = self._news.get(site), self._peers.get(site)
        if known is None or DESTINATIONS not in known.statement.features:
            return False
        return peer is None or peer.knows_destinations or not peer.up


def _ends_in(statement: SiteNews) -> dict[str, LinkEnd]:
    return {
        link.peer: LinkEnd(link.up, link.depth_max, link.flood, link.limits_in or link.limits_out)
        for link in statement.links
    }


def _own_end(up: bool, rules: PeerRules) -> LinkEnd:
    everything = PeerRules()
    is_limited = (rules.allow_in, rules.allow_out) != (everything.allow_in, everything.allow_out)
    return LinkEnd(up, rules.depth_max, rules.flood, is_limited)
