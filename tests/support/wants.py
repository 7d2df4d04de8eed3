"""What sites of a `RouterFederation` want, how far off they believe it to be, and whose word they take."""

from routing.federation.known_wants import KnownWants
from routing.peering.wants import Want
from tests.support.sites import IN_NEWS, RouterFederation

SPACING_S = 3.0
"""After which a site may say anything again."""


def after(sites: RouterFederation, seconds: float = SPACING_S) -> None:
    """All that is under way is carried, before so much time passes and after it."""
    sites.settle()
    sites.pass_time(seconds)
    sites.settle()


def ticked(sites: RouterFederation, seconds: float = SPACING_S) -> None:
    """So much later, and no minute is over."""
    sites.now += seconds
    for name, router in sites.routers.items():
        router.timing.tick(sites.now)
        sites.take(name)


def unsubscribe(sites: RouterFederation, site: str, topic: str = "t", channel: str = "c") -> None:
    router = sites.routers[site]
    router.subscribing.unsubscribe(sites.now, sites.consumer(site, channel), topic, "", None)
    router.timing.tick(sites.now)
    sites.take(site)


def wanting(wants: KnownWants, topic: str, mode: str = "ALL") -> set[str] | None:
    """None where it is not known of some site whether it does."""
    found = wants.wanting(mode, topic)  # type: ignore[arg-type] # a mode
    return None if wants.unsure(topic) else set(found)


def distances(sites: RouterFederation, site: str, want: Want = ("ALL", "t")) -> dict[str, int]:
    return dict(sites.routers[site].federation.outlook.distances(want))


def told_besides_news(sites: RouterFederation) -> set[str]:
    """What peers have been told besides news, and not been told to be gone."""
    return {want[1] for router in sites.routers.values() for want in router.federation.interest.heard}


def trust_all_but(sites: RouterFederation, site: str, *distrusted: str) -> None:
    """From now on a site takes the word of all others but these."""
    notary = sites.notaries[site]
    notary.distrusted.clear()
    notary.distrusted.update(distrusted)
    sites.routers[site].federation.spreading.set_notary(notary, IN_NEWS)
    sites.take(site)
