"""All sites of which this one knows, as they have told it themselves."""

from daemon.operating.federation import KnownSite
from routing.federation.outlook import Outlook
from routing.federation.reach import distances
from routing.federation.saying import link_news


def known_sites(server: str, outlook: Outlook, now: float) -> list[KnownSite]:
    """All sites, the nearest first; those that are only named as peers, too. `now` is site time."""
    own = tuple(link_news(peer) for _, peer in sorted(outlook.peers.items()))
    reached = distances(server, (link.peer for link in own if link.up), outlook.news)
    named = {link.peer for news in outlook.news.values() for link in news.statement.links}
    out = []
    for site in {server, *outlook.news, *outlook.peers, *named}:
        news = outlook.news.get(site)
        out.append(
            KnownSite(
                site=site,
                hops=reached.get(site),
                source=news.source if news else "",
                age_s=max(now - news.said_at, 0.0) if news else None,
                boot=news.statement.boot if news else 0,
                number=news.statement.number if news else 0,
                links=own if site == server else news.statement.links if news else (),
                wants=outlook.wants_of(site),
                wants_missing=bool(outlook.known_wants.lacks(site)),
            )
        )
    return sorted(out, key=lambda one: (one.hops is None, one.hops or 0, one.site))
