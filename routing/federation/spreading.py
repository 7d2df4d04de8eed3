"""How news of sites spreads: each piece over each link at most once in either direction (OSPF, IS-IS).

    a link of this site comes or goes,    it says so to all its peers: a new number, signed; at most one
    or an hour is over                    in `SPACING_S`
    it wants something else               it says so at once, with the buckets of its leaves that have
                                          changed; if that goes on, as often as of links, and so that the
                                          buckets are 32 KiB a second
    a peer tells news                     not later than what is known: dropped. Else, if its site has signed
                                          it: kept, on disk, and told to every other peer that has not got it
    a peer tells a bucket                 kept, on disk, if its hash is in what is known of the site, and
                                          told to every other peer that has not got it
    a link comes up                       each end tells which news and buckets it has, and then what the
                                          other lacks
    something is lacking                  each minute it is asked for again, of another peer each time
    something was refused for its rate,   it is asked for again, of who told it: after a minute, and ever less
    or for the trust in its site          often; at once where others are trusted than before

So after any partition all that can reach each other know the same, but for names that the rules of a link
hide. News of which nothing later has come for `RouterSettings.news_kept_s` is forgotten; its age travels with
it, so it cannot come back from a site that forgets it later.

A site whose store was restored from a backup begins with numbers that it has used before. It hears its own
later news from its peers, and goes on above that, and both say so in their logs: for another site that has
its name, which must not be, looks the same. Numbers follow the clock of the site, so that it uses none
of them for something else meanwhile.

What one site can make of others is bounded, see `news_allowances`; so are sites, wants and bytes. A site may
say what is not so of itself alone: one that keeps back a bucket that it has signed passes for one that wants
the topics that fall into it, and changes nothing for others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from routing.federation.held_news import HeldNews
from routing.federation.interest_peer import EVERYTHING
from routing.federation.missed import NEWS, Missed
from routing.federation.news_allowances import NewsAllowances
from routing.federation.peer import Peer
from routing.federation.refused_news import RefusedNews
from routing.federation.saying import Saying, pieces
from routing.federation.telling_news import NewsToPeers
from routing.peering.copies import PeerRules
from routing.peering.leaves import (
    NumberedBucket,
    read_bucket,
    read_digest,
    write_bucket,
)
from routing.peering.news import (
    KnownNews,
    NewsVersion,
    Notary,
    SignedNews,
    SiteNews,
    Version,
    read_statement,
)
from routing.peering.wants import Said, Want
from routing.state import SiteState

UNSIGNED: Final = "its site has not signed these wants"


class Spreading:
    """What is known of all sites, and who has still to hear it.

    Attributes:
        known, wants, doubted: see `HeldNews`.

    Args:
        links_changed, up_changed, wants_changed: called when another site has said so, or is forgotten; the
            second where links are up or down, and nothing else of them has changed.
        refusal_changed: called with a peer and a site when that peer would not have its news, or would now.
        forgetting: called with a site of which the news is to be forgotten, and whether that is as it is not
            attested any more.
        settled: called with a peer that has said what news it has, and has answered for what it lacked.
    """

    def __init__(
        self,
        state: SiteState,
        peers: Mapping[str, Peer],
        links_changed: Callable[[], None],
        up_changed: Callable[[], None],
        wants_changed: Callable[[], None],
        refusal_changed: Callable[[str, str], None],
        forgetting: Callable[[str, bool], None],
        settled: Callable[[str], None],
    ) -> None:
        self._links_changed = links_changed
        self._up_changed = up_changed
        self._wants_changed = wants_changed
        self._forgetting = forgetting
        self._state = state
        self._peers = peers
        self._notary: Notary | None = None
        self._saying = Saying(state, peers)
        self._held = HeldNews(state, self._saying)
        self.known: Mapping[str, KnownNews] = self._held.known
        self.wants: Final = self._held.wants
        self.doubted: Mapping[str, float] = self._held.doubted
        self._refused = RefusedNews(refusal_changed)
        self._allowances = NewsAllowances()
        self._telling = NewsToPeers(
            state, peers, self._held, self._refused, self._allowances, settled, self._is_said
        )
        self._missed = Missed()
        self._turns: dict[str, int] = {}  # how often was asked for what is lacking, by site

    def set_notary(self, notary: Notary, features: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """Trust this notary alone; the sites whose news it does not attest, which are forgotten, and why.

        `features`: what this site says in its news that it knows.
        """
        self._notary = notary
        self._missed.hurry()
        refused = []
        for site, known in self.known.items():
            if (why := notary.refusal(site, known.signed)) is not None:
                refused.append((site, why))
        self._forget([site for site, _ in refused], is_doubted=True)
        for peer in self._telling.names:
            for site, _ in refused:
                self._missed.note(peer, site)
            if refused and self._telling.is_open(peer):
                self._telling.tell_held(peer, [site for site, _ in refused])
        self._saying.set_notary(notary, features)
        return refused

    # -- links ------------------------------------------------------------------------------------

    def note_links(self) -> None:
        """Say soon which links this site has: one, or a peer, has come or gone."""
        self._saying.note_links()

    def note_want(self, said: Said, wanted: bool) -> None:
        """Say soon whether this site wants something, or whether somebody is attached to what it wants."""
        self._saying.note_want(said, wanted)

    def note_rules(self, name: str, before: PeerRules) -> None:
        """Tell a peer what was hidden from it, as its link lets other things pass than `before`."""
        self.note_links()
        was_cut = before.allow_in not in (EVERYTHING, self._peers[name].rules.allow_in)
        if was_cut and self._telling.is_open(name):
            for site, known in self.known.items():
                self._telling.tell_buckets(name, known, self._held.hashes(site))

    def link_up(self, name: str, *, knows_news: bool) -> None:
        """Begin to tell a peer news, if it knows any; of what it has, nothing is known yet."""
        if knows_news:
            self._telling.link_up(name)
        self.note_links()

    def link_down(self, name: str) -> None:
        """Forget what a peer has: its link is gone."""
        self._telling.link_down(name)
        self._missed.forget(name)
        self.note_links()

    def peer_removed(self, name: str) -> None:
        """Forget what is kept for a peer, which is none any more."""
        self.link_down(name)
        self._allowances.forget_peer(name)

    def hear_known(self, now: float, peer: str, has: Collection[NewsVersion], *, more: bool) -> None:
        """See `NewsToPeers.hear_known`."""
        self._telling.hear_known(now, peer, has, more=more)

    def news_arrived(self, peer: str, number: int, *, taken: bool) -> None:
        """See `NewsToPeers.news_arrived`."""
        self._telling.news_arrived(peer, number, taken=taken)

    def _is_said(self) -> bool:
        return self._state.server in self.known or not self._saying.is_heard

    def refused_by(self, peer: str) -> frozenset[str]:
        """The sites of which a peer has no news, as it would not have it, or what they want."""
        refused = self._refused.by(peer)
        return refused if self._saying.is_heard else refused | {self._state.server}

    def says(self, peer: str, want: Want) -> bool:
        """Whether a peer hears from the news of this site that it wants something, which it does."""
        return self._state.server not in self._refused.by(peer) and self._saying.says(want)

    def tells_attached(self) -> bool:
        """Whether news of this site says to what somebody is attached."""
        return self._saying.tells_attached

    def still_says(self, topic: str) -> bool:
        """Whether news says of what this site takes of a topic, of mode ONE, what is not so any more."""
        return self._saying.still_says(topic)

    def take_changed(self) -> set[Said] | None:
        """The wants of this site of which its news may say something else; None for all."""
        return self._saying.take_changed()

    # -- what is heard ----------------------------------------------------------------------------

    def hear(
        self,
        now: float,
        peer: str,
        signed: SignedNews,
        age_s: float,
        buckets: Sequence[NumberedBucket] = (),
    ) -> str:
        """Take what a peer tells; why it is refused, "" where it is not.

        Raises Refusal where it makes no sense.
        """
        statement = read_statement(signed.statement)
        telling, notary, site = self._telling, self._notary, statement.site
        if peer not in telling or notary is None:
            return ""
        known, said_at = self.known.get(site), now - age_s
        if known is not None and statement.version <= known.statement.version:
            telling.note(peer, site, statement.version)
            if statement.version < known.statement.version:
                return self._hear_earlier(now, peer, statement, known, buckets)
            others: Iterable[str] = (peer,)
            self._refused.note_has(peer, site, (NEWS,))
            known.said_at = max(known.said_at, said_at)
            if self.wants.lacks(site):  # it came without them before, from one that has not got them
                others = telling.names
            return self._take(now, peer, known, buckets, others, statement.version)
        if said_at < now - self._state.settings.news_kept_s:
            return ""
        if not self._allowances.may_be_checked(now, peer):
            return self._miss(site, peer, "it tells more than it may")
        if (why := notary.refusal(site, signed)) is not None:
            return self._miss(site, peer, why)
        telling.note(peer, site, statement.version)
        self._refused.note_has(peer, site, (NEWS,))
        if site == self._state.server:
            self._saying.pass_by(statement.version)
            return "this site has not said it: its store is that of a backup, or another site has its name"
        if not self._held.has_room(site, signed):
            return "no more sites, or no more bytes, are remembered"
        if not self._allowances.may_say(now, site, pieces(signed)):
            return self._miss(site, peer, "its site says something more often than it may")
        self._missed.note_news(site)
        news = KnownNews(statement, signed, said_at, peer)
        self._keep(news)
        return self._take(now, peer, news, buckets, telling.names, statement.version)

    def _hear_earlier(
        self, now: float, peer: str, said: SiteNews, known: KnownNews, buckets: Sequence[NumberedBucket]
    ) -> str:
        """Take what of earlier news is as it is now, and tell the peer what it lacks; as `hear`.

        What is wanted may be again what it was before: then who has heard of what was between lacks it.
        """
        site, were = said.site, read_digest(said.wants) if said.wants is not None else {}
        others = [index for index, hash in self._held.hashes(site).items() if were.get(index) != hash]
        self._telling.note_others(peer, site, said.version, others)
        lacking = [bucket for bucket in buckets if self.wants.is_lacking(site, bucket.index)]
        whom = self._telling.names if lacking else (peer,)
        refusal = self._take(now, peer, known, lacking, whom, said.version)
        return "" if refusal == UNSIGNED else refusal

    def hear_wants(
        self, now: float, peer: str, site: str, version: Version, buckets: Sequence[NumberedBucket]
    ) -> str:
        """Take buckets of a site that a peer tells; as `hear`."""
        known = self.known.get(site)
        if known is None or peer not in self._telling:
            return ""
        refusal = self._take(now, peer, known, buckets, self._telling.names, version)
        if refusal == UNSIGNED and version != known.statement.version:
            refusal = ""  # they are of earlier news, or of later, which was too much
        return refusal

    def _take(
        self,
        now: float,
        peer: str,
        known: KnownNews,
        buckets: Sequence[NumberedBucket],
        others: Iterable[str],
        version: Version,
    ) -> str:
        """Take buckets of a site, as of this version, and tell others its news with them; why one is refused.

        Raises Refusal where one cannot be read. Others are told then, too, or whoever added it could keep
        from them what it can only pass on.
        """
        try:
            return self._take_buckets(now, peer, known, buckets, version)
        finally:
            self._wants_changed()
            for other in others:
                self._telling.tell(other, [known])

    def _take_buckets(
        self, now: float, peer: str, known: KnownNews, buckets: Sequence[NumberedBucket], version: Version
    ) -> str:
        """Take them; others are told with the site's news, but of names that were hidden before."""
        site, refusal = known.statement.site, ""
        if site == self._state.server:
            return ""
        allowances = self._allowances
        for bucket in buckets:
            if not allowances.may_tell(now, peer, len(bucket.data)):
                refusal = self._miss(site, peer, "it tells more wants than it may", bucket.index)
                continue
            is_lacking = self.wants.is_lacking(site, bucket.index)
            size = len(write_bucket(read_bucket(bucket.data))) if is_lacking else 0
            if is_lacking and not allowances.may_change(now, site, size):
                why = "its site changes its wants more often than it may"
                refusal = self._miss(site, peer, why, bucket.index)
                continue
            taken = self.wants.take(site, bucket.index, bucket.data)
            if taken == "unsigned":
                refusal = UNSIGNED
                if is_lacking:  # so who passes on what a site has not said takes nothing from it
                    allowances.not_changed(site, size)
                if version < known.statement.version:
                    self._telling.note_others(peer, site, version, (bucket.index,))
            elif taken == "misplaced":
                refusal = "it is wanted in a bucket to which it does not belong"
            elif taken == "too much":
                refusal = "no more wants are remembered"
            else:
                self._telling.note_bucket(peer, site, bucket.index, version)
                self._missed.note_bucket(peer, site, bucket.index)
            if taken in ("new", "more"):
                self._held.note_wants(site, bucket.index)
            if taken == "more":
                self._telling.tell_more(peer, known, bucket.index)
        return refusal

    def _miss(self, site: str, peer: str, why: str, index: int = NEWS) -> str:
        self._missed.note(peer, site, index)
        return why

    def _keep(self, news: KnownNews) -> None:
        before = self.known.get(news.statement.site)
        self._held.keep(news)
        self._entered(before, news)

    def _entered(self, before: KnownNews | None, news: KnownNews) -> None:
        """Look what other news of a site changes."""
        self._telling.note_gone(news.statement.site)
        if before is None or _of_graph(before.statement) != _of_graph(news.statement):
            self._links_changed()
        elif before.statement.links != news.statement.links:
            self._up_changed()

    def _forget(self, sites: Iterable[str], *, is_doubted: bool = False) -> None:
        gone = list(sites)
        for site in gone:
            self._forgetting(site, is_doubted)
        for site in gone:
            self._allowances.forget_site(site)
            self._refused.forget(site)
            self._held.forget(site, is_doubted=is_doubted)
            self._telling.note_gone(site)
        if gone:
            self._links_changed()
            self._wants_changed()

    def doubt(self, site: str, said_at: float) -> None:
        """Count a site as being there, though nothing is known of it, see `HeldNews`."""
        self._held.doubt(site, said_at)

    # -- what time brings about -------------------------------------------------------------------

    @property
    def due_at(self) -> float:
        """Site time at which `tick` has something to do; `inf` for none."""
        return self._saying.due_at

    def tick(self, now: float) -> None:
        """Say what is due to be said of this site."""
        if (news := self._saying.tick(now)) is not None:
            self._keep(news)
            self._telling.tell_own(news)
        self._telling.look_whether_settled()

    def forget(self, now: float) -> None:
        """Forget sites of which nothing has come for too long, ask for what lacks; called each minute."""
        before = now - self._state.settings.news_kept_s
        self._forget(self._held.said_before(before))
        self._held.doubt_no_more(before)
        self._ask()

    def _ask(self) -> None:
        """Ask for what was missed who told it; for what is lacking all in turn, first who told the news."""
        to_ask = self._missed.due(self.wants.needs)
        lacking = [site for site in self.known if self.wants.lacks(site)]
        self._turns = {site: self._turns.get(site, -1) + 1 for site in lacking}
        for site, turn in self._turns.items():
            source = self.known[site].source
            peers = sorted(self._telling.names, key=lambda peer: peer != source)
            if peers:
                to_ask.add((peers[turn % len(peers)], site))
        asked: dict[str, list[str]] = {}
        for peer, site in sorted(to_ask):
            if self._telling.is_open(peer):
                asked.setdefault(peer, []).append(site)
        for peer, sites in asked.items():
            self._telling.tell_held(peer, sites)

    def restore_wants(self, site: str, bucket: NumberedBucket) -> None:
        """Take a bucket that the store holds, after the news of its site; forget one that is not of it."""
        self._held.restore_wants(site, bucket)
        self._wants_changed()

    def restore(self, news: KnownNews) -> None:
        """Take news that the store holds; `set_notary` is to look at it before there are links."""
        before = self.known.get(news.statement.site)
        self._held.restore(news)
        self._entered(before, news)


def _of_graph(statement: SiteNews) -> tuple[object, ...]:
    """What of a statement decides over ways, but which links are up."""
    links = [msgspec.structs.replace(link, up=True) for link in statement.links]
    return links, statement.features, statement.wants is None
