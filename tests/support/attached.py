"""Sites of a `RouterFederation` where somebody or nobody is attached to a subscription; what they hold."""

from collections.abc import Collection
from typing import Any

from routing.subscription import Consumer
from tests.support.sites import IN_NEWS, RouterFederation
from tests.support.wants import after

LINE = {("alpha", "beta"), ("beta", "gamma")}
RING = {("alpha", "beta"), ("beta", "gamma"), ("gamma", "delta"), ("alpha", "delta")}


def begun(
    links: set[tuple[str, str]],
    seed: int = 0,
    *,
    features: tuple[str, ...] = IN_NEWS,
    old: Collection[str] = (),
    older: Collection[str] = (),
) -> RouterFederation:
    """Sites that know the links and wants of all that tell them."""
    sites = RouterFederation(links, seed, old=old, older=older)
    sites.begin_news(features)
    after(sites)
    return sites


def leaves(sites: RouterFederation, site: str, consumer: Consumer, *, lost: bool = False) -> None:
    """A session ends; durable subscriptions stay."""
    router = sites.routers[site]
    router.subscribing.close(sites.now, consumer, lost=lost)
    for hold in sites.held.values():
        hold[:] = [(each, number) for each, number in hold if each is not consumer]
    router.timing.tick(sites.now)
    sites.take(site)


def left(
    sites: RouterFederation, site: str, topic: str = "t", channel: str = "night", **options: Any
) -> None:
    """A durable subscription to which nobody is attached."""
    leaves(sites, site, sites.subscribe(site, topic, channel, **options))


def publish_for_one(sites: RouterFederation, site: str, name: str = "m", **headers: Any) -> None:
    """A message of mode ONE that may go anywhere."""
    sites.publish(site, name, depth=-1, delivery="ONE", **headers)


def where(sites: RouterFederation, topic: str = "t") -> list[str]:
    """The sites that hold a copy."""
    return [
        name
        for name, router in sites.routers.items()
        for copy in router.federation.outlook.copies.values()
        if copy.entry.topic.name == topic
    ]
