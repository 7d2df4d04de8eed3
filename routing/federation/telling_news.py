"""What peers are told of news: what they have not got, each piece once over each link and direction."""

from collections.abc import Callable, Collection, Iterable, Mapping

from routing.errors import Refusal
from routing.federation.held_news import HeldNews
from routing.federation.missed import NEWS
from routing.federation.news_allowances import SITES_MAX, NewsAllowances
from routing.federation.news_peer import NewsPeer, as_told, in_controls
from routing.federation.peer import Peer
from routing.federation.refused_news import RefusedNews
from routing.names import is_server_name
from routing.peering.decisions import TellKnownNews, TellNews, TellWants
from routing.peering.leaves import BEGINNING_BYTES, NumberedBucket, is_digest
from routing.peering.news import KnownNews, NewsVersion, Version
from routing.state import SiteState


class NewsToPeers:
    """Part of `Spreading`: the peers that are up and know news, and what they have and refuse of it.

    Args:
        refused: what they would not have.
        settled: called with a peer that has said what news it has, and has answered for what it lacked.
        may_settle: whether the news of this site is among that, or need not be.
    """

    def __init__(
        self,
        state: SiteState,
        peers: Mapping[str, Peer],
        held: HeldNews,
        refused: RefusedNews,
        allowances: NewsAllowances,
        settled: Callable[[str], None],
        may_settle: Callable[[], bool],
    ) -> None:
        self._refused = refused
        self._state = state
        self._peers = peers
        self._held = held
        self._allowances = allowances
        self._settled = settled
        self._may_settle = may_settle
        self._links: dict[str, NewsPeer] = {}

    # -- links ------------------------------------------------------------------------------------

    def __contains__(self, peer: str) -> bool:
        return peer in self._links

    @property
    def names(self) -> Collection[str]:
        """The peers."""
        return self._links.keys()

    def is_open(self, peer: str) -> bool:
        """Whether a peer is there, and has said what it has."""
        return (link := self._links.get(peer)) is not None and link.is_open

    def link_up(self, peer: str) -> None:
        """Begin to tell a peer; of what it has, nothing is known yet."""
        self._links[peer] = NewsPeer()
        self.tell_held(peer, self._held.known)

    def link_down(self, peer: str) -> None:
        """Forget what a peer has: its link is gone."""
        self._links.pop(peer, None)
        self._refused.link_down(peer)

    # -- what peers have --------------------------------------------------------------------------

    def hear_known(self, now: float, peer: str, has: Collection[NewsVersion], *, more: bool) -> None:
        """Take what a peer has; `more`: it goes on. Raises Refusal for what cannot be.

        Of the sites that it names it has nothing else: so it also asks for what it lacks.
        """
        link = self._links.get(peer)
        if link is None:
            return
        if len(link.has.keys() | {one.site for one in has}) > 2 * SITES_MAX or not all(map(_can_be, has)):
            raise Refusal(Refusal.TOO_MANY, f"news of more than {SITES_MAX} sites, or of what is none")
        if link.is_open and (link.is_answering or not self._allowances.may_ask(now, peer)):
            return
        is_first, refused = not link.is_open, self._refused.by(peer)
        # who has forgotten a site, or does not trust it any more, keeps what peers seemed to tell of it
        has_lost = any((one.boot, one.number) == (0, 0) and one.site not in refused for one in has)
        for one in has:
            link.set(one)
            known, hashes = self._held.known.get(one.site), self._held.hashes(one.site)
            if known is not None and not link.lacks(known):
                parts = {NEWS, *hashes}.difference(link.lacking(one.site, hashes))
                self._refused.note_has(peer, one.site, parts)
        if not more:
            link.is_open = True
            self.tell(peer, self._held.known.values())
            link.note_answered()
            if is_first or has_lost:
                link.unsettle()
            self._look_whether_settled(peer, link)

    def note(self, peer: str, site: str, version: Version) -> None:
        """Note that a peer has told news of a site, or says that it has it: so it does not refuse it."""
        self._links[peer].note(site, version)

    def note_bucket(self, peer: str, site: str, index: int, version: Version) -> None:
        """Note that a peer has told a bucket of a site as of this news, so it has it."""
        self._links[peer].note_bucket(site, index, self._held.hashes(site)[index], version)
        self._refused.note_has(peer, site, (index,))

    def note_others(self, peer: str, site: str, version: Version, indexes: Iterable[int]) -> None:
        """Note which buckets of a site were others in earlier news that a peer has told; see `NewsPeer`."""
        for index in indexes:
            self._links[peer].note_other(site, index, version)

    def note_gone(self, site: str) -> None:
        """Forget who has what a site wants no more, which has the same hash when it is wanted again."""
        hashes = self._held.hashes(site)
        for link in self._links.values():
            link.note_gone(site, hashes)
        self._refused.keep(site, hashes)

    def news_arrived(self, peer: str, number: int, *, taken: bool) -> None:
        """Note that a peer has acknowledged one `TellNews` or `TellWants`; `taken`: and would have it."""
        if (link := self._links.get(peer)) is not None:
            link.note_arrived()
            self._refused.note_answered(peer, number, taken=taken)
            self._look_whether_settled(peer, link)

    def look_whether_settled(self) -> None:
        """Find the peers that are settled now, and were not."""
        for peer, link in self._links.items():
            self._look_whether_settled(peer, link)

    def _look_whether_settled(self, peer: str, link: NewsPeer) -> None:
        if self._may_settle() and link.settle():
            self._settled(peer)

    # -- what they are told -----------------------------------------------------------------------

    def tell_held(self, peer: str, sites: Iterable[str]) -> None:
        """Tell a peer what is held of these sites: it tells then what is later."""
        self._state.out.append(TellKnownNews(peer, [self._held.version(site) for site in sites]))

    def tell_own(self, news: KnownNews) -> None:
        """Tell all what this site says of itself; who is not settled yet is so once this has come, too."""
        for peer, link in self._links.items():
            self.tell(peer, [news])
            if link.is_unsettled:
                link.unsettle()

    def tell(self, peer: str, some: Iterable[KnownNews]) -> None:
        """Tell a peer news that it has not got, and of its buckets those that it has not got.

        Nothing while it has not said what it has.
        """
        link = self._links[peer]
        if not link.is_open:
            return
        for news in some:
            site = news.statement.site
            lacking = link.lacking(site, self._held.hashes(site))
            if not link.lacks(news):
                self.tell_buckets(peer, news, lacking)
                continue
            link.note(site, news.statement.version)
            first, *rest = in_controls(self._for(peer, news, lacking))
            self._put(TellNews, peer, news, first, (NEWS,))
            for each in rest:
                self._put(TellWants, peer, news, each)

    def tell_buckets(self, peer: str, news: KnownNews, indexes: Iterable[int]) -> None:
        """Tell a peer that is open these buckets of news that it has."""
        for each in in_controls(self._for(peer, news, indexes)):
            if each:
                self._put(TellWants, peer, news, each)

    def tell_more(self, source: str, news: KnownNews, index: int) -> None:
        """Tell all peers but one of names in a bucket that were hidden before."""
        for peer, link in self._links.items():
            if link.is_open and peer != source:
                self.tell_buckets(peer, news, (index,))

    def _put(
        self,
        tell: type[TellNews | TellWants],
        peer: str,
        news: KnownNews,
        buckets: tuple[NumberedBucket, ...],
        parts: tuple[int, ...] = (),
    ) -> None:
        self._links[peer].note_told()
        indexes = (bucket.index for bucket in buckets)
        number = self._refused.note_told(peer, news.statement.site, (*parts, *indexes))
        self._state.out.append(tell(peer, news, buckets, number))

    def _for(self, peer: str, news: KnownNews, indexes: Iterable[int]) -> Iterable[NumberedBucket]:
        """Those of these buckets that are here, as the rules of the link with a peer let them be told."""
        site, may_come = news.statement.site, self._peers[peer].rules.allow_in
        hashes = self._held.hashes(site)
        for index in indexes:
            if (bucket := self._held.bucket(site, index)).data:
                self._links[peer].note_told_bucket(site, index, hashes[index], news.statement.version)
                yield as_told(bucket, may_come)


def _can_be(one: NewsVersion) -> bool:
    return is_server_name(one.site) and is_digest(one.wants, BEGINNING_BYTES)
