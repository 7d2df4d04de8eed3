"""Sites that lie of others: they tell peers news that is forged, old, repeated, or of a wrong age."""

import random
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from daemon.link.controls import NewsTold
from routing.federation.news import SignedNews, SiteNews, read_statement, write_statement
from tests.support.notary import NamedNotary

if TYPE_CHECKING:
    from tests.sim.site import Site
    from tests.sim.world import World

EVERY_S: Final = 1.0
KEPT: Final = 50
"""Pieces of news that liars have kept, to be told again later."""

AGES_S: Final = (0.0, 10.0, 600_000.0, 700_000.0)


class Liars:
    """What they say has to change nothing: the promises are judged as ever."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = random.Random(f"liars {world.scenario.seed}")
        self._kept: list[SignedNews] = []

    async def lie(self) -> None:
        """Go on until cancelled."""
        while True:
            await trio.sleep(self._chance.expovariate(1 / EVERY_S))
            site = self._chance.choice(list(self._world.sites.values()))
            if site.broker is None or not site.is_running:
                continue
            up = [name for name, peer in site.broker.door.outlook.peers.items() if peer.up]
            news = [known.signed for known in site.broker.door.outlook.news.values()]
            if up and news:
                self._tell(site, self._chance.choice(up), self._chance.choice(news))

    def _tell(self, site: "Site", peer: str, news: SignedNews) -> None:
        chance = self._chance
        self._kept = [*self._kept, news][-KEPT:]
        lie = chance.choice(("forged", "changed", "of the listener", "old", "repeated"))
        said = read_statement(news.statement)
        later = msgspec.structs.replace(
            said, number=said.number + chance.choice((1, 10**6, 2**62)), links=said.links[1:]
        )
        match lie:
            case "forged" if said.site != site.name:
                news = _signed(later, site.name)
            case "changed":
                news = SignedNews(write_statement(later), news.certificate, news.signature)
            case "of the listener":
                news = _signed(msgspec.structs.replace(later, site=peer), site.name)
            case "old":
                news = chance.choice(self._kept)
        age_s = chance.choice(AGES_S) if lie in ("forged", "old") else 0.0
        told = NewsTold(news.statement, news.certificate, news.signature, age_s=age_s)
        assert site.broker is not None
        if site.broker.federating._tell(peer, "news", told):
            self._world.ledger.note(f"{site.name} tells {peer} news of {said.site} that is {lie}")


def _signed(news: SiteNews, by: str) -> SignedNews:
    signed = NamedNotary(by).sign(write_statement(news))
    assert signed is not None
    return signed
