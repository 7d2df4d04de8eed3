"""The site `a` with peers, which is told news of other sites, and tells it."""

from routing.peering.copies import PeerRules
from routing.peering.decisions import (
    StoreNews,
    TellKnownNews,
    TellNews,
    TellWants,
)
from routing.peering.news import (
    NewsVersion,
    SignedNews,
    SiteNews,
    Version,
)
from routing.router import Router
from tests.support.notary import NamedNotary
from tests.support.sites import SETTINGS

KEPT_S = SETTINGS.news_kept_s


class NewsSite:
    """The site `a` with peers, as one that tests what is told to it."""

    def __init__(self, *peers: str, boot: int = 1) -> None:
        self.router = Router("a", boot, SETTINGS, lambda: 1_700_000_000_000)
        self.spreading = self.router.federation.spreading
        self.now = 1_000.0
        self.notary = NamedNotary("a")
        for peer in peers:
            self.router.federation.set_peer(peer, PeerRules())
        self.spreading.set_notary(self.notary)
        for peer in peers:
            self.link_up(peer)

    def link_up(self, peer: str, *has: NewsVersion) -> None:
        self.router.federation.link_up(peer)
        self.spreading.hear_known(self.now, peer, has, more=False)
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.router.timing.tick(self.now)
        self.router.maintain(self.now)

    def hear(self, peer: str, news: SignedNews, age_s: float = 0.0) -> str:
        return self.spreading.hear(self.now, peer, news, age_s)

    def knows(self, site: str) -> Version | None:
        known = self.spreading.known.get(site)
        return known.statement.version if known is not None else None

    def told(self) -> list[tuple[str, str]]:
        """To whom news was told since the last call, and of which site."""
        return [(d.peer, d.news.statement.site) for d in self.router.take() if isinstance(d, TellNews)]

    def told_to(self, peer: str) -> list[TellNews | TellWants]:
        """What was told to a peer since the last call."""
        return [d for d in self.router.take() if isinstance(d, TellNews | TellWants) and d.peer == peer]

    def who_wants(self, topic: str) -> set[str] | None:
        """None where it is not known of some site whether it does."""
        wants = self.spreading.wants
        return None if wants.unsure(topic) else set(wants.wanting("ALL", topic))

    def asked(self) -> list[tuple[str, NewsVersion]]:
        """Whom it has asked for what since the last call."""
        return [(d.peer, one) for d in self.router.take() if isinstance(d, TellKnownNews) for one in d.has]

    def said(self) -> list[SiteNews]:
        """What the site has said of itself since the last call."""
        stored = [d.news.statement for d in self.router.take() if isinstance(d, StoreNews)]
        return [statement for statement in stored if statement.site == "a"]
