"""How news of sites spreads: each piece over each link at most once in either direction (OSPF, IS-IS).

    a link of this site comes or goes,    it says so to all its peers: a new number, signed; at most one
    or an hour is over                    in `SPACING_S`
    it wants something else               it says so at once, with the buckets of its leaves that have
                                          changed; if that goes on, as often as of links
    a peer tells news                     not later than what is known: dropped. Else, if its site has signed
                                          it: kept, on disk, and told to every other peer that has not got it
    a peer tells a bucket                 kept, on disk, if its hash is in what is known of the site, and
                                          told to every other peer that has not got it
    a link comes up                       each end tells which news and buckets it has, and then what the
                                          other lacks
    something is lacking                  each minute it is asked for again

So after any partition all that can reach each other know the same, but for names that the rules of a link
hide. News of which nothing later has come for `RouterSettings.news_kept_s` is forgotten; its age travels with
it, so it cannot come back from a site that forgets it later.

A site whose store was restored from a backup begins with numbers that it has used before. It hears its own
later news from its peers, and goes on above that, and both say so in their logs: for another site that has
its name, which must not be, looks the same. Numbers follow the clock of the site, so that it uses none
of them for something else meanwhile.

What one site can make of others: a peer may have so many signatures looked at, and a site so often say
something; beyond that its news is refused, and the next one, or who is asked for it, brings what was missed.
Sites, wants and bytes are bounded, too. A site may say what is not so of itself alone.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from routing.errors import Refusal
from routing.federation.allowance import Allowance
from routing.federation.copies import PeerRules
from routing.federation.decisions import (
    DiscardNews,
    DiscardWants,
    StoreNews,
    StoreWants,
    TellKnownNews,
    TellNews,
    TellWants,
)
from routing.federation.forwarding import Peer
from routing.federation.known_wants import KnownWants
from routing.federation.leaves import BEGINNING_BYTES, NumberedBucket, is_digest, write_digest
from routing.federation.news import (
    KnownNews,
    LinkNews,
    NewsVersion,
    Notary,
    SignedNews,
    SiteNews,
    Version,
    read_statement,
    write_statement,
)
from routing.federation.news_peer import NewsPeer, as_told, in_controls
from routing.federation.own_leaves import OwnLeaves
from routing.federation.telling import EVERYTHING
from routing.federation.wants import Want
from routing.names import is_server_name
from routing.numbers import NUMBER_MAX
from routing.state import SiteState

EVERY_S: Final = 3_600.0
"""Between two pieces of news of a site of which nothing changes."""

SPACING_S: Final = 2.0
"""Between two of one site, whatever changes: a link that comes and goes all the time costs no more."""

PIECE_BYTES: Final = 4_096
"""What is longer counts as several: who has a thousand links says less often that they have changed."""

UNSIGNED: Final = "its site has not signed these wants"

SITES_MAX: Final = 2_000
BYTES_MAX: Final = 64 * 2**20
"""Of all news."""

CHECKS_PER_S: Final = 100.0
CHECKS_AT_ONCE: Final = 2.0 * SITES_MAX
"""Signatures that one peer may have looked at: some 0.3 ms each. All that there is fits."""

SAID_PER_S: Final = 1.0
SAID_AT_ONCE: Final = 100.0
"""Pieces that one site may say: twice what it does at most. The longest that can be counts as 76."""

WANTS_SPACING_S: Final = 0.05
SAYING_PER_S: Final = 0.5
SAYING_AT_ONCE: Final = 50.0
"""Pieces that this site says of its wants as they change; beyond, it waits as long as for links."""

WANTS_PER_S: Final = 2.0**20
WANTS_AT_ONCE: Final = 128.0 * 2**20
"""Bytes of buckets that one peer may tell."""

SITE_WANTS_PER_S: Final = 2.0**16
SITE_WANTS_AT_ONCE: Final = 16.0 * 2**20
"""Bytes of buckets that one site may change."""

ASKS_PER_S: Final = 0.2
ASKS_AT_ONCE: Final = 20.0
"""How often one peer may ask for what it lacks."""

NEVER: Final = -math.inf


class Spreading:
    """What is known of all sites, and who has still to hear it.

    Attributes:
        known: the latest news, by site; this site's own, too, once there is any.
        wants: what the other sites want.
        due_at: site time at which `tick` has something to do; `inf` for none.
    """

    def __init__(self, state: SiteState, peers: Mapping[str, Peer]) -> None:
        self.known: dict[str, KnownNews] = {}
        self.due_at = math.inf
        self._state = state
        self._peers = peers
        self._notary: Notary | None = None
        self.wants = KnownWants(state.server)
        self._own = OwnLeaves()
        self._links: dict[str, NewsPeer] = {}
        self._checks: dict[str, Allowance] = {}  # by peer
        self._wants_told: dict[str, Allowance] = {}  # bytes, by peer
        self._asks: dict[str, Allowance] = {}  # by peer
        self._sayings: dict[str, Allowance] = {}  # by site
        self._wants_said: dict[str, Allowance] = {}  # bytes, by site
        self._missed: dict[str, str] = {}  # sites whose news was too much for a while, and who told it
        self._saying = Allowance(SAYING_PER_S, SAYING_AT_ONCE)
        self._bytes = 0
        self._last: Version = (state.boot, 0)  # of this site's own, as far as it knows
        self._said_at = NEVER
        self._quiet_until = self._wants_quiet_until = NEVER
        self._is_stale = False  # it is to say its news anew, whether or not its links have changed

    def set_notary(self, now: float, notary: Notary) -> list[tuple[str, str]]:
        """Trust this notary alone; the sites whose news it does not attest, which are forgotten, and why."""
        self._notary = notary
        self._own.set_secret(notary.secret)
        refused = []
        for site, known in list(self.known.items()):
            if (why := notary.refusal(site, known.signed)) is not None:
                self._forget(site)
                refused.append((site, why))
        self._is_stale = True  # its certificate may be another one
        self.note_links()
        return refused

    # -- links ------------------------------------------------------------------------------------

    def note_links(self) -> None:
        """A link of this site, or a peer, has come or gone."""
        if self._notary is not None:
            self.due_at = min(self.due_at, self._quiet_until)
            self._state.wake_at = min(self._state.wake_at, self.due_at)

    def note_want(self, want: Want, wanted: bool) -> None:
        """This site wants something, or does no more."""
        self._own.set_want(want, wanted)
        self._note_own()

    def _note_own(self) -> None:
        if self._notary is not None and self._own.is_changed:
            self.due_at = min(self.due_at, self._wants_quiet_until)
            self._state.wake_at = min(self._state.wake_at, self.due_at)

    def note_rules(self, name: str, before: PeerRules) -> None:
        """A link lets other things pass than `before`: what was hidden from the peer may be told now."""
        self.note_links()
        if name in self._links and before.allow_in not in (EVERYTHING, self._peers[name].rules.allow_in):
            for site, known in self.known.items():
                self._tell_buckets(name, known, range(len(self._hashes(site))))

    def link_up(self, name: str, *, knows_news: bool) -> None:
        """There is a link with a peer, which may know no news; of what it has, nothing is known yet."""
        if knows_news:
            self._links[name] = NewsPeer()
            self._state.out.append(TellKnownNews(name, [self._has(site) for site in self.known]))
        self.note_links()

    def _has(self, site: str) -> NewsVersion:
        """What this site has of one."""
        version = known.statement.version if (known := self.known.get(site)) is not None else (0, 0)
        held = self._own.hashes if site == self._state.server else self.wants.held(site)
        return NewsVersion(site, *version, write_digest(held, BEGINNING_BYTES))

    def link_down(self, name: str) -> None:
        """It is gone."""
        self._links.pop(name, None)
        self.note_links()

    def peer_removed(self, name: str) -> None:
        """A peer is none any more."""
        self.link_down(name)
        for allowances in (self._checks, self._wants_told, self._asks):
            allowances.pop(name, None)

    def hear_known(self, now: float, peer: str, has: Collection[NewsVersion], *, more: bool) -> None:
        """A peer has this; `more`: it goes on. Raises Refusal for what cannot be.

        Of the sites that it names it has nothing else: so it also asks for what it lacks.
        """
        link = self._links.get(peer)
        if link is None:
            return
        if len(link.has.keys() | {one.site for one in has}) > 2 * SITES_MAX or not all(map(_can_be, has)):
            raise Refusal(Refusal.TOO_MANY, f"news of more than {SITES_MAX} sites, or of what is none")
        asks = self._asks.setdefault(peer, Allowance(ASKS_PER_S, ASKS_AT_ONCE))
        if link.is_open and not asks.take(now):
            return
        for one in has:
            link.set(one)
        if not more:
            link.is_open = True
            self._tell(peer, self.known.values())

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
        link, notary, site = self._links.get(peer), self._notary, statement.site
        if link is None or notary is None:
            return ""
        known, said_at = self.known.get(site), now - age_s
        if known is not None and statement.version <= known.statement.version:
            link.note(site, statement.version)
            refusal = ""
            if statement.version == known.statement.version:
                known.said_at = max(known.said_at, said_at)
                refusal = self._take(now, peer, known, buckets)
            self._tell(peer, [known])
            return refusal
        if said_at < now - self._state.settings.news_kept_s:
            return ""
        if not self._checks.setdefault(peer, Allowance(CHECKS_PER_S, CHECKS_AT_ONCE)).take(now):
            return self._miss(site, peer, "it tells more than it may")
        if (why := notary.refusal(site, signed)) is not None:
            return why
        link.note(site, statement.version)
        if site == self._state.server:
            self._pass(statement.version)
            return "this site has not said it: its store is that of a backup, or another site has its name"
        if not self._has_room(site, signed):
            return "no more sites, or no more bytes, are remembered"
        sayings = self._sayings.setdefault(site, Allowance(SAID_PER_S, SAID_AT_ONCE))
        if not sayings.take(now, _pieces(signed)):
            return self._miss(site, peer, "its site says something more often than it may")
        self._missed.pop(site, None)
        news = KnownNews(statement, signed, said_at, peer)
        self._keep(news)
        refusal = self._take(now, peer, news, buckets)
        for other in self._links:
            self._tell(other, [news])
        return refusal

    def hear_wants(
        self, now: float, peer: str, site: str, version: Version, buckets: Sequence[NumberedBucket]
    ) -> str:
        """Take buckets of a site that a peer tells; as `hear`."""
        known = self.known.get(site)
        if known is None or peer not in self._links:
            return ""
        refusal = self._take(now, peer, known, buckets)
        if refusal == UNSIGNED and version != known.statement.version:
            refusal = ""  # they are of earlier news, or of later, which was too much
        for other in self._links:
            self._tell(other, [known])
        return refusal

    def _take(self, now: float, peer: str, known: KnownNews, buckets: Sequence[NumberedBucket]) -> str:
        """Take buckets of a site; others are told with its news, but of names that were hidden before."""
        site, refusal = known.statement.site, ""
        if site == self._state.server:
            return ""
        told = self._wants_told.setdefault(peer, Allowance(WANTS_PER_S, WANTS_AT_ONCE))
        said = self._wants_said.setdefault(site, Allowance(SITE_WANTS_PER_S, SITE_WANTS_AT_ONCE))
        for bucket in buckets:
            size = len(bucket.data)
            if not told.take(now, size):
                return "it tells more wants than it may"
            if self.wants.is_lacking(site, bucket.index) and not said.take(now, size):
                return "its site changes its wants more often than it may"
            taken = self.wants.take(site, bucket.index, bucket.data)
            if taken == "unsigned":
                refusal = UNSIGNED
            elif taken == "too much":
                refusal = "no more wants are remembered"
            else:
                self._links[peer].note_bucket(site, bucket.index, self.wants.hashes(site)[bucket.index])
            if taken in ("new", "more"):
                self._state.out.append(StoreWants(site, self._bucket(site, bucket.index)))
            if taken == "more":
                for other, link in self._links.items():
                    if link.is_open and other != peer:
                        self._tell_buckets(other, known, (bucket.index,))
        return refusal

    def _miss(self, site: str, peer: str, why: str) -> str:
        if len(self._missed) < SITES_MAX:
            self._missed[site] = peer
        return why

    def _pass(self, version: Version) -> None:
        """This site has said later news than it knows of: what it says next is to be later still."""
        self._last = max(self._last, version)
        self._is_stale = True
        self.note_links()

    def _has_room(self, site: str, signed: SignedNews) -> bool:
        known = self.known.get(site)
        if known is None and len(self.known) >= SITES_MAX:
            return False
        return self._bytes + signed.size - (known.signed.size if known is not None else 0) <= BYTES_MAX

    def _keep(self, news: KnownNews) -> None:
        site = news.statement.site
        self._state.out.append(StoreNews(news))
        emptied = self._enter(news)
        if news.statement.wants is None and emptied:
            self._state.out.append(DiscardWants(site))
        else:
            self._state.out += (StoreWants(site, NumberedBucket(index, b"")) for index in emptied)

    def _enter(self, news: KnownNews) -> list[int]:
        """The numbers of its buckets that are empty now and were not."""
        before = self.known.get(news.statement.site)
        self._bytes += news.signed.size - (before.signed.size if before is not None else 0)
        self.known[news.statement.site] = news
        return self.wants.say(news.statement)

    def _forget(self, site: str) -> None:
        self._bytes -= self.known.pop(site).signed.size
        for allowances in (self._sayings, self._wants_said):
            allowances.pop(site, None)
        self._state.out.append(DiscardNews(site))
        if self.wants.forget(site):
            self._state.out.append(DiscardWants(site))

    def _tell(self, peer: str, some: Iterable[KnownNews]) -> None:
        link = self._links[peer]
        if not link.is_open:
            return
        for news in some:
            site = news.statement.site
            lacking = link.lacking(site, self._hashes(site)) if self._hashes(site) else ()
            if not link.lacks(news):
                self._tell_buckets(peer, news, lacking)
                continue
            link.note(site, news.statement.version)
            first, *rest = in_controls(self._for(peer, news, lacking))
            self._state.out.append(TellNews(peer, news, first))
            self._state.out += (TellWants(peer, news, each) for each in rest)

    def _tell_buckets(self, peer: str, news: KnownNews, indexes: Iterable[int]) -> None:
        """Tell these buckets of news that a peer has."""
        for each in in_controls(self._for(peer, news, indexes)):
            if each:
                self._state.out.append(TellWants(peer, news, each))

    def _for(self, peer: str, news: KnownNews, indexes: Iterable[int]) -> Iterable[NumberedBucket]:
        """Those of these buckets that are here, as the rules of the link with a peer let them be told."""
        site, may_come = news.statement.site, self._peers[peer].rules.allow_in
        hashes = self._hashes(site)
        for index in list(indexes):
            if (bucket := self._bucket(site, index)).data:
                self._links[peer].note_bucket(site, index, hashes[index])
                yield as_told(bucket, may_come)

    def _hashes(self, site: str) -> tuple[bytes, ...]:
        if site != self._state.server:
            return self.wants.hashes(site)
        own = self.known.get(site)
        return self._own.hashes if own is not None and own.statement.wants is not None else ()

    def _bucket(self, site: str, index: int) -> NumberedBucket:
        if site == self._state.server:
            return self._own.bucket(index)
        return NumberedBucket(index, self.wants.bucket(site, index))

    # -- what time brings about -------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Say what is due to be said of this site."""
        if now < self.due_at:
            return
        self.due_at = now + EVERY_S
        if self._notary is None or not any(peer.up for peer in self._peers.values()):
            return  # the first link that comes up makes it due again
        own = self.known.get(self._state.server)
        links = tuple(_link_news(peer) for _, peer in sorted(self._peers.items()))
        self._own.set_rules({name: peer.rules for name, peer in self._peers.items()})
        if own is None or self._is_stale or self._said_at + EVERY_S <= now:
            self._say(now, self._notary, links)
            return
        due_at = self._said_at + EVERY_S
        if own.statement.links != links:
            due_at = min(due_at, self._quiet_until)
        if self._own.is_changed:
            due_at = min(due_at, self._wants_quiet_until)
        if due_at <= now:
            self._say(now, self._notary, links)
        else:
            self.due_at = due_at

    def _say(self, now: float, notary: Notary, links: tuple[LinkNews, ...]) -> None:
        self._said_at, self._is_stale = now, False
        boot, number = self._last
        number = max(number + 1, int(now * 1_000))
        if number > NUMBER_MAX:
            boot, number = boot + 1, 1
        if boot > NUMBER_MAX:  # whoever had its key has said the last that can be said
            return
        self._last = boot, number
        statement = SiteNews(self._state.server, boot, number, links, self._own.seal())
        signed = notary.sign(write_statement(statement))
        if signed is not None:
            pieces = _pieces(signed)
            self._quiet_until = now + SPACING_S * pieces
            may_go_on = self._saying.take(now, pieces)
            self._wants_quiet_until = now + WANTS_SPACING_S if may_go_on else self._quiet_until
            news = KnownNews(statement, signed, now, "")
            self._keep(news)
            for peer in self._links:
                self._tell(peer, [news])

    def forget(self, now: float) -> None:
        """Each minute: forget the sites of which nothing has come for too long, ask for what is lacking."""
        before = now - self._state.settings.news_kept_s
        for site, known in list(self.known.items()):
            if known.said_at < before and site != self._state.server:
                self._forget(site)
        self._ask()

    def _ask(self) -> None:
        """Ask those who have told news of sites for what is lacking of it."""
        sources = {site: known.source for site, known in self.known.items() if self.wants.lacks(site)}
        sources |= self._missed
        self._missed.clear()
        asked: dict[str, list[NewsVersion]] = {}
        for site, source in sources.items():
            peer = source if source in self._links else next(iter(self._links), None)
            if peer is not None and self._links[peer].is_open:
                asked.setdefault(peer, []).append(self._has(site))
        self._state.out += (TellKnownNews(peer, has) for peer, has in asked.items())

    def restore_wants(self, site: str, bucket: NumberedBucket) -> None:
        """A bucket that the store holds, after the news of its site; one that is not of it is forgotten."""
        if site == self._state.server or self.wants.take(site, bucket.index, bucket.data) != "new":
            self._state.out.append(StoreWants(site, NumberedBucket(bucket.index, b"")))

    def restore(self, news: KnownNews) -> None:
        """What the store holds; `set_notary` is to look at it before there are links."""
        self._enter(news)
        if news.statement.site == self._state.server:
            self._last = max(self._last, news.statement.version)


def _pieces(signed: SignedNews) -> float:
    return max(signed.size / PIECE_BYTES, 1.0)


def _can_be(one: NewsVersion) -> bool:
    return is_server_name(one.site) and is_digest(one.wants, BEGINNING_BYTES)


def _link_news(peer: Peer) -> LinkNews:
    rules = peer.rules
    return LinkNews(
        peer.name,
        peer.up,
        rules.depth_max,
        rules.flood,
        limits_in=rules.allow_in != EVERYTHING,
        limits_out=rules.allow_out != EVERYTHING,
    )
