"""How news of sites spreads: each piece over each link at most once in either direction (OSPF, IS-IS).

    a link of this site comes or goes,    it says so to all its peers: a new number, signed; at most one
    or an hour is over                    in `SPACING_S`
    a peer tells news                     not later than what is known: dropped. Else, if its site has signed
                                          it: kept, on disk, and told to every other peer that has not got it
    a link comes up                       each end tells which news it has, and then what the other lacks

So after any partition all that can reach each other know the same. News of which nothing later has come for
`RouterSettings.news_kept_s` is forgotten; its age travels with it, so it cannot come back from a site that
forgets it later.

A site whose store was restored from a backup begins with numbers that it has used before. It hears its own
later news from its peers, and goes on above that, and both say so in their logs: for another site that has
its name, which must not be, looks the same. Numbers follow the clock of the site, so that it uses none
of them for something else meanwhile.

What one site can make of others: a peer may have so many signatures looked at, and a site so often say
something; beyond that its news is refused, and the next one, or the next link, brings what was missed. Sites
and bytes are bounded, too. A site may say what is not so of itself alone.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from routing.errors import Refusal
from routing.federation.allowance import Allowance
from routing.federation.decisions import DiscardNews, StoreNews, TellKnownNews, TellNews
from routing.federation.forwarding import Peer
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
from routing.names import is_server_name
from routing.numbers import NUMBER_MAX
from routing.state import SiteState

EVERY_S: Final = 3_600.0
"""Between two pieces of news of a site of which nothing changes."""

SPACING_S: Final = 2.0
"""Between two of one site, whatever changes: a link that comes and goes all the time costs no more."""

PIECE_BYTES: Final = 4_096
"""What is longer counts as several: who has a thousand links says less often that they have changed."""

SITES_MAX: Final = 2_000
BYTES_MAX: Final = 64 * 2**20
"""Of all news."""

CHECKS_PER_S: Final = 100.0
CHECKS_AT_ONCE: Final = 2.0 * SITES_MAX
"""Signatures that one peer may have looked at: some 0.3 ms each. All that there is fits."""

SAID_PER_S: Final = 1.0
SAID_AT_ONCE: Final = 100.0
"""Pieces that one site may say: twice what it does at most. The longest that can be counts as 76."""

NEVER: Final = -math.inf


class _Link:
    """A link that is up, with a peer that knows news.

    Attributes:
        has: the latest that the peer is known to have, by site.
        is_open: it has said which it has.
    """

    def __init__(self) -> None:
        self.has: dict[str, Version] = {}
        self.is_open = False

    def note(self, site: str, version: Version) -> None:
        self.has[site] = max(version, self.has.get(site, version))

    def lacks(self, known: KnownNews) -> bool:
        had = self.has.get(known.statement.site)
        return had is None or had < known.statement.version


class Spreading:
    """What is known of all sites, and who has still to hear it.

    Attributes:
        known: the latest news, by site; this site's own, too, once there is any.
        due_at: site time at which `tick` has something to do; `inf` for none.
    """

    def __init__(self, state: SiteState, peers: Mapping[str, Peer]) -> None:
        self.known: dict[str, KnownNews] = {}
        self.due_at = math.inf
        self._state = state
        self._peers = peers
        self._notary: Notary | None = None
        self._links: dict[str, _Link] = {}
        self._checks: dict[str, Allowance] = {}  # by peer
        self._sayings: dict[str, Allowance] = {}  # by site
        self._bytes = 0
        self._last: Version = (state.boot, 0)  # of this site's own, as far as it knows
        self._said_at = NEVER
        self._quiet_until = NEVER
        self._is_stale = False  # it is to say its news anew, whether or not its links have changed

    def set_notary(self, now: float, notary: Notary) -> list[tuple[str, str]]:
        """Trust this notary alone; the sites whose news it does not attest, which are forgotten, and why."""
        self._notary = notary
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

    def link_up(self, name: str, *, knows_news: bool) -> None:
        """There is a link with a peer, which may know no news; of what it has, nothing is known yet."""
        if knows_news:
            self._links[name] = _Link()
            has = [NewsVersion(site, *known.statement.version) for site, known in self.known.items()]
            self._state.out.append(TellKnownNews(name, has))
        self.note_links()

    def link_down(self, name: str) -> None:
        """It is gone."""
        self._links.pop(name, None)
        self.note_links()

    def peer_removed(self, name: str) -> None:
        """A peer is none any more."""
        self.link_down(name)
        self._checks.pop(name, None)

    def hear_known(self, peer: str, has: Collection[NewsVersion], *, more: bool) -> None:
        """A peer has this; `more`: it goes on. Raises Refusal for what cannot be."""
        link = self._links.get(peer)
        if link is None:
            return
        if len(link.has) + len(has) > 2 * SITES_MAX or not all(is_server_name(one.site) for one in has):
            raise Refusal(Refusal.TOO_MANY, f"news of more than {SITES_MAX} sites, or of what is none")
        for one in has:
            link.note(one.site, (one.boot, one.number))
        if not more:
            link.is_open = True
            self._tell(peer, self.known.values())

    # -- what is heard ----------------------------------------------------------------------------

    def hear(self, now: float, peer: str, signed: SignedNews, age_s: float) -> str:
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
            if statement.version == known.statement.version:
                known.said_at = max(known.said_at, said_at)
            self._tell(peer, [known])
            return ""
        if said_at < now - self._state.settings.news_kept_s:
            return ""
        if not self._checks.setdefault(peer, Allowance(CHECKS_PER_S, CHECKS_AT_ONCE)).take(now):
            return "it tells more than it may"
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
            return "its site says something more often than it may"
        self._keep(KnownNews(statement, signed, said_at, peer))
        return ""

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
        self._enter(news)
        self._state.out.append(StoreNews(news))
        for peer in self._links:
            self._tell(peer, [news])

    def _enter(self, news: KnownNews) -> None:
        before = self.known.get(news.statement.site)
        self._bytes += news.signed.size - (before.signed.size if before is not None else 0)
        self.known[news.statement.site] = news

    def _forget(self, site: str) -> None:
        self._bytes -= self.known.pop(site).signed.size
        self._sayings.pop(site, None)
        self._state.out.append(DiscardNews(site))

    def _tell(self, peer: str, some: Iterable[KnownNews]) -> None:
        link = self._links[peer]
        if not link.is_open:
            return
        for news in some:
            if link.lacks(news):
                link.note(news.statement.site, news.statement.version)
                self._state.out.append(TellNews(peer, news))

    # -- what time brings about -------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Say what is due to be said of this site."""
        if now < self.due_at:
            return
        self.due_at = now + EVERY_S
        if self._notary is None or not any(peer.up for peer in self._peers.values()):
            return  # the first link that comes up makes it due again
        own = self.known.get(self._state.server)
        links = tuple(LinkNews(name, self._peers[name].up) for name in sorted(self._peers))
        if own is None or own.statement.links != links or self._is_stale or self._said_at + EVERY_S <= now:
            self._say(now, self._notary, links)
        else:
            self.due_at = self._said_at + EVERY_S

    def _say(self, now: float, notary: Notary, links: tuple[LinkNews, ...]) -> None:
        self._said_at, self._is_stale = now, False
        boot, number = self._last
        number = max(number + 1, int(now * 1_000))
        if number > NUMBER_MAX:
            boot, number = boot + 1, 1
        if boot > NUMBER_MAX:  # whoever had its key has said the last that can be said
            return
        self._last = boot, number
        statement = SiteNews(self._state.server, boot, number, links)
        signed = notary.sign(write_statement(statement))
        if signed is not None:
            self._quiet_until = now + SPACING_S * _pieces(signed)
            self._keep(KnownNews(statement, signed, now, ""))

    def forget(self, now: float) -> None:
        """Each minute: forget the sites of which nothing has come for too long."""
        before = now - self._state.settings.news_kept_s
        for site, known in list(self.known.items()):
            if known.said_at < before and site != self._state.server:
                self._forget(site)

    def restore(self, news: KnownNews) -> None:
        """What the store holds; `set_notary` is to look at it before there are links."""
        self._enter(news)
        if news.statement.site == self._state.server:
            self._last = max(self._last, news.statement.version)


def _pieces(signed: SignedNews) -> float:
    return max(signed.size / PIECE_BYTES, 1.0)
