"""What peers are told of wants: what this site wants, and what others do of which they could not know.

Nobody is told of what its messages could not reach: by the topic rules and `depth_max` of its link with this
site, and of those beyond that this site knows. A pattern is told if some of its topics may pass.

A peer that takes wants from news is told what that does not explain:

    what this site wants and its news does not say yet, as it does so less often than wants come and go
    what is wanted by sites of which the peer would not have the news, or what they want
    what peers that are told so themselves tell of others: of an earlier version, or as above

and where news comes to explain it, it is told that there is nothing any more, by all at about the same time.
So a want that comes or goes travels in news alone, once over each link and direction. What had to be told
besides is counted up in circles of sites for a moment, no further than the longest way. It is told once the
peer has acknowledged the news that it lacked when the link came up; what it was told on an earlier link holds
until then. Other peers are told everything, as news has it, too.

While a site is there that says no news, nothing that peers tell passes for explained: what is wanted there
could be hidden by what others want that are as near, and known to those alone who are nearer to these.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Final

from routing.federation.interest import Interest
from routing.federation.interest_peer import EVERYTHING, InterestPeer
from routing.federation.nearest import EVERY_SITE, NearestByNews
from routing.federation.wants_by_name import Touched
from routing.federation.ways import NOBODY
from routing.message import DEPTH_UNLIMITED, MODES
from routing.patterns import TopicTree, is_pattern, subscription_takes
from routing.peering.wants import DISTANCE_MAX, InterestChange, Want

TOPICS_TOLD_MAX: Final = 10_000
"""Topics that stand for patterns to peers that know none."""


class InterestToPeers:
    """Tells peers that are up.

    Args:
        interest: what is wanted, here and as peers tell.
        nearest: what is wanted by news.
        says: whether a peer hears from the news of this site that it wants something.
        refused: the sites of which a peer would not have the news, or what they want.
        may_go: whether what is wanted may go to a peer now: by the rules of the link, and of mode ONE only
            over one that is up.
        topics: those that there are at this site.
    """

    def __init__(
        self,
        interest: Interest,
        nearest: NearestByNews,
        says: Callable[[str, Want], bool],
        refused: Callable[[str], frozenset[str]],
        may_go: Callable[[str, Want], bool],
        topics: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._interest = interest
        self._nearest = nearest
        self._says = says
        self._refused = refused
        self._may_go = may_go
        self._topics = topics
        self._links: dict[str, InterestPeer] = {}
        self._told_topics = TopicTree()
        self._told_topics_count = 0
        self._is_complete = False
        self._tells_topics = False  # a peer that knows no patterns is linked to

    # -- what changes -----------------------------------------------------------------------------

    def interest_changed(self, want: Want, is_new_pattern: bool) -> None:
        """Note that a want has come or gone, or is at another distance; see `Interest`."""
        if is_new_pattern:
            self._note_topics_of(want[1])
        self.mark(want)

    def mark(self, want: Want) -> None:
        """Note that of a want there may be something else to tell, though it is as it was."""
        for link in self._links.values():
            link.mark(want)

    def wants_changed(self, touched: Touched) -> None:
        """Note what other sites say in news that they want, or want no more."""
        wants: list[Want] = [("ALL", name) for name in touched.names]
        wants += (("ONE", name) for name in touched.names_for_one)
        lacking = [link for peer, link in self._links.items() if link.told or self._lacks(peer, link)]
        for want in wants:
            if want in self._interest.heard:
                self.mark(want)
            else:
                for link in lacking:
                    link.mark(want)
        if self._tells_topics:
            for name in filter(is_pattern, touched.names | touched.names_for_one):
                self._note_topics_of(name)

    def ways_changed(self) -> None:
        """Note that sites may be nearer by news than before, or further, or have come or gone."""
        for site in self._interest.sites:
            self.mark(("SERVER", site))
        has_moved: Callable[[Want], bool] | None = None
        for peer, link in self._links.items():
            if self._lacks(peer, link):
                for want in self._nearest.moved(peer, self._refused(peer)):
                    link.mark(want)
            if link.wants_from_news and (link.explained or link.told):
                has_moved = has_moved or self._nearest.has_moved()
                link.stale.update(filter(has_moved, link.explained | link.told.keys()))

    def refusal_changed(self, peer: str, site: str) -> None:
        """Note that a peer would not have the news of a site, or would now; of this one, too."""
        link = self._links.get(peer)
        if link is None:
            return
        refused = self._refused(peer)
        for want in self._nearest.moved(peer, refused):
            link.mark(want)
        for want in self._nearest.wants_of((site,)):
            link.mark(want)
        if ("SERVER", site) in self._interest.own:
            self.own_news_changed(peer)
        if len(refused) <= 1:  # from now on it knows all, or has known all until now
            for want in self._interest.heard:
                link.mark(want)

    def own_news_changed(self, peer: str) -> None:
        """Note that a peer may hear from news what this site wants, and did not, or the other way round."""
        if (link := self._links.get(peer)) is not None:
            for want in itertools.chain(self._interest.own, self._nearest.moved(peer, self._refused(peer))):
                link.mark(want)

    def _lacks(self, peer: str, link: InterestPeer) -> bool:
        """Whether a peer has to be told of some of what news has."""
        return not link.wants_from_news or bool(self._refused(peer))

    # -- topics in the place of patterns ----------------------------------------------------------

    def topic_begun(self, topic: str) -> None:
        """Note that there is a topic: peers that know no patterns are told of it where a pattern takes it."""
        if self._tells_topics:
            self._note_topic(topic)

    def _note_topic(self, topic: str) -> None:
        is_taken = self._interest.covering(("ALL", topic)) or self._nearest.is_taken_by_pattern(topic)
        if self._told_topics_count >= TOPICS_TOLD_MAX or not is_taken:
            return
        self._told_topics_count += self._told_topics.add(topic)
        for link in self._links.values():
            if not link.knows_patterns:
                link.stale |= {("ALL", topic), ("ONE", topic)}

    def _note_topics_of(self, pattern: str) -> None:
        if self._tells_topics:
            for topic in self._topics():
                if subscription_takes(pattern, topic):
                    self._note_topic(topic)

    # -- links ------------------------------------------------------------------------------------

    def link_up(
        self,
        peer: str,
        may_come: tuple[str, ...] = EVERYTHING,
        depth_max: int = DEPTH_UNLIMITED,
        *,
        knows_patterns: bool = True,
        wants_from_news: bool = False,
    ) -> None:
        """Begin to tell a peer, or begin anew: everything that it could not know.

        Args:
            may_come: patterns of the topics that may come from the peer.
            depth_max: with which depth they are taken at most.
            knows_patterns: it can be told of patterns.
            wants_from_news: it takes from news what sites want.
        """
        link = self._links[peer] = InterestPeer(
            may_come,
            depth_max,
            self._told_topics,
            knows_patterns=knows_patterns,
            wants_from_news=wants_from_news,
        )
        self._look_who_knows_patterns()
        if not knows_patterns:
            for topic in self._topics():
                self._note_topic(topic)
        self._nearest.forget(peer)
        by_news = self._nearest.moved(peer, self._refused(peer)) if self._lacks(peer, link) else ()
        for want in itertools.chain(self._interest.own, self._interest.heard, by_news):
            link.mark(want)

    def link_down(self, peer: str) -> None:
        """Note that a link is gone for now: what its peer wants is kept, and is no way for mode ONE."""
        self._links.pop(peer, None)
        self._nearest.forget(peer)
        self._look_who_knows_patterns()
        if not self._tells_topics:
            self._told_topics = TopicTree()
            self._told_topics_count = 0

    def _look_who_knows_patterns(self) -> None:
        self._tells_topics = any(not link.knows_patterns for link in self._links.values())

    def up_changed(self, peer: str) -> None:
        """Note that a link is up, or down: its peer is a way for mode ONE, or none."""
        for want, heard in self._interest.heard.items():
            if want[0] == "ONE" and peer in heard:
                self.mark(want)

    def set_rules(self, peer: str, may_come: tuple[str, ...], depth_max: int) -> None:
        """Note that other topics may come from a peer, or with another depth, or may go there."""
        for want, heard in self._interest.heard.items():
            if peer in heard:
                self.mark(want)
        if (link := self._links.get(peer)) is not None:
            link.set_rules(may_come, depth_max, self._interest.own | self._interest.heard.keys())
            if self._lacks(peer, link):
                for want in self._nearest.wants_of(EVERY_SITE):
                    link.mark(want)

    # -- what is told -----------------------------------------------------------------------------

    def look(self) -> None:
        """Find out whether what is told has to be more, or less, as sites are there that say no news."""
        is_complete = all(map(self._nearest.tells, self._interest.sites)) and self._nearest.is_complete
        if is_complete != self._is_complete:
            self._is_complete = is_complete
            for want in self._interest.heard:
                self.mark(want)

    @property
    def untold(self) -> list[str]:
        """Peers for which `tell` may have something."""
        return [peer for peer, link in self._links.items() if link.stale]

    def tell(self, peer: str) -> list[InterestChange]:
        """What has changed for a peer since it was last asked, each once."""
        link = self._links.get(peer)
        if link is None or not link.stale:
            return []
        told, refused = link.told, self._refused(peer) if link.wants_from_news else NOBODY
        out = []
        for want in sorted(link.stale):
            stands_for = link.stands_for(want, self._interest.covering) if link.may_reach(want) else ()
            known = (self._distance_for(peer, link, each, refused) for each in stands_for)
            distance = min((each for each in known if each is not None), default=None)
            if distance != told.get(want):
                out.append(InterestChange(*want, distance))
                link.note_told(want, distance)
        link.all_told(self._is_wanted)
        return out

    def _is_wanted(self, pattern: str) -> bool:
        by_news = (self._nearest.is_wanted((mode, pattern)) for mode in MODES)
        return self._interest.is_wanted(pattern) or any(by_news)

    def _distance_for(self, peer: str, link: InterestPeer, want: Want, refused: frozenset[str]) -> int | None:
        interest, from_news = self._interest, link.wants_from_news
        if want in interest.own:
            return None if from_news and self._says(peer, want) else 0
        link.explained.discard(want)
        knows_all = from_news and not refused and self._is_complete
        bound = interest.bound(want)
        known = [
            distance + 1
            for other, distance in interest.heard.get(want, {}).items()
            if other != peer
            and distance < bound
            and link.may_reach(want, distance + 1)
            and self._may_go(other, want)
            and not self._nearest.is_passed_by(other, want)
            and not (knows_all and self._is_explained(link, other, want, distance, peer))
        ]
        if refused or not from_news:
            by_pattern = not link.knows_patterns and want[1] in self._told_topics
            by_news = self._nearest.from_here(want, peer, refused, by_pattern=by_pattern)
            if by_news is not None and link.may_reach(want, by_news):
                known.append(by_news)
        found = min(known, default=DISTANCE_MAX)
        return found if found < DISTANCE_MAX else None

    def _is_explained(self, link: InterestPeer, other: str, want: Want, distance: int, to: str) -> bool:
        is_explained = self._nearest.explains(other, want, distance, to)
        if is_explained:
            self._nearest.look()
            link.explained.add(want)
        return is_explained
