"""Sites that lie of others: they tell peers news that is forged, old, repeated, or of a wrong age.

And wants that no site has signed, that one has signed earlier or for another bucket, or again; and that they
have all of them.
"""

import random
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from daemon.link.controls import NewsKnown, NewsTold, WantsTold
from routing.federation.known_wants import KnownWants
from routing.peering.leaves import (
    BEGINNING_BYTES,
    BUCKETS,
    Bucket,
    Leaf,
    NumberedBucket,
    read_bucket,
    write_bucket,
    write_digest,
)
from routing.peering.news import NewsVersion, SignedNews, SiteNews, Version, read_statement, write_statement
from tests.support.notary import NamedNotary

if TYPE_CHECKING:
    from tests.sim.site import SimulatedSite
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
        self._kept_wants: list[WantsTold] = []

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
                peer, piece = self._chance.choice(up), self._chance.choice(news)
                if self._chance.random() < 0.5:
                    self._tell(site, peer, piece)
                else:
                    self._tell_wants(site, peer, read_statement(piece.statement))

    def _tell(self, site: "SimulatedSite", peer: str, news: SignedNews) -> None:
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
                kept = ((each, read_statement(each.statement)) for each in self._kept)
                news = chance.choice([each for each, its in kept if _has(site, its.site, its.version)])
        age_s = chance.choice(AGES_S) if lie in ("forged", "old") else 0.0
        told = NewsTold(news.statement, news.certificate, news.signature, age_s=age_s)
        assert site.broker is not None
        if site.broker.federating._tell(peer, "news", told):
            self._world.ledger.note(f"{site.name} tells {peer} news of {said.site} that is {lie}")

    def _tell_wants(self, site: "SimulatedSite", peer: str, said: SiteNews) -> None:
        assert site.broker is not None
        chance, wants = self._chance, site.broker.door.outlook.known_wants
        lie = chance.choice(("forged", "moved", "old", "repeated", "claimed", "kept back"))
        if lie == "claimed":
            had = NewsVersion(
                said.site, said.boot, said.number, write_digest(wants.hashes(said.site), BEGINNING_BYTES)
            )
            told = site.broker.federating._tell(peer, "news-known", NewsKnown([had]))
        else:
            told = self._tell_buckets(site, peer, said, lie, wants)
        if told:
            self._world.ledger.note(f"{site.name} tells {peer} wants of {said.site} that are {lie}")

    def _tell_buckets(
        self, site: "SimulatedSite", peer: str, said: SiteNews, lie: str, wants: KnownWants
    ) -> bool:
        assert site.broker is not None
        chance = self._chance
        here = [index for index in range(BUCKETS) if wants.bucket(said.site, index)]
        if not here:
            return False
        index = chance.choice(here)
        data = wants.bucket(said.site, index)
        told = WantsTold(said.site, said.boot, said.number, (NumberedBucket(index, data),))
        self._kept_wants = [*self._kept_wants, told][-KEPT:]
        match lie:
            case "forged":
                leaves = read_bucket(data).leaves
                more = Leaf("ALL", f"a.lie.{chance.randrange(9)}", b"salt")
                data = write_bucket(Bucket((*leaves[1:], more)))
            case "moved":
                index = (index + 1) % BUCKETS
            case "old":
                kept = [each for each in self._kept_wants if _has(site, each.site, (each.boot, each.number))]
                return site.broker.federating._tell(peer, "wants", chance.choice(kept))
            case "kept back":
                return site.broker.federating._tell(peer, "wants", msgspec.structs.replace(told, buckets=()))
        forged = msgspec.structs.replace(told, buckets=(NumberedBucket(index, data),))
        return site.broker.federating._tell(peer, "wants", forged)


def _has(site: "SimulatedSite", of: str, version: Version) -> bool:
    """Whether a site has this news of another, or later: who has told it is not told it by anybody."""
    assert site.broker is not None
    known = site.broker.door.outlook.news.get(of)
    return known is not None and known.statement.version >= version


def _signed(news: SiteNews, by: str) -> SignedNews:
    signed = NamedNotary(by).sign(write_statement(news))
    assert signed is not None
    return signed
