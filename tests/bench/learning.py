"""What it costs one site to learn what many sites say of themselves; see `tests.bench.federation`."""

import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding

from daemon.certificates.authority import Authority
from daemon.link.keys import LinkKeys
from daemon.link.notary import PURPOSE, LinkNotary
from routing.peering.copies import PeerRules
from routing.peering.leaves import (
    Bucket,
    Leaf,
    NumberedBucket,
    bucket_of,
    hash_of,
    write_bucket,
    write_digest,
)
from routing.peering.news import LinkNews, SignedNews, SiteNews, write_statement
from routing.router import Router
from tests.support.keys import write_keys, write_trust
from tests.support.sites import SETTINGS

PEER: Final = "s00000.example"
NEIGHBOURS: Final = 3
LOOKED_UP: Final = 100_000


class Said:
    """What one of the sites says."""

    def __init__(self, authority: Authority, number: int, sites: int, wants: int) -> None:
        name, key = f"s{number:05}.example", ed25519.Ed25519PrivateKey.generate()
        leaves: dict[int, list[Leaf]] = {}
        for each in range(wants):
            topic = topic_of(number, each)
            leaves.setdefault(bucket_of(topic), []).append(Leaf("BOTH", topic, b"saltsalt"))
        buckets = {index: Bucket(tuple(some)) for index, some in leaves.items()}
        digest = write_digest({index: hash_of(bucket.hashes) for index, bucket in buckets.items()})
        links = tuple(
            LinkNews(f"s{(number + far) % sites:05}.example", up=True) for far in range(1, NEIGHBOURS + 1)
        )
        statement = write_statement(SiteNews(name, 1, 1, links, digest))
        certificate = authority.issue(name, key.public_key(), 30, datetime.now(UTC), replace=True)
        self.news = SignedNews(
            statement, certificate.public_bytes(Encoding.DER), key.sign(PURPOSE + statement)
        )
        self.buckets = [NumberedBucket(index, write_bucket(bucket)) for index, bucket in buckets.items()]


def topic_of(site: int, number: int) -> str:
    """All different: the worst that can be."""
    return f"site{site:05}.department.topic{number:04}"


def resident_mb() -> float:
    """Of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096 / 2**20


def learning(sites: int, wants: int) -> dict[str, Any]:
    """One row."""
    with tempfile.TemporaryDirectory() as directory:
        now = datetime.now(UTC)
        authority = Authority.create(Path(directory) / "ca", "bench", 3650, now - timedelta(days=1))
        keys = Path(directory) / "keys"
        write_keys(authority, "a", keys, now)
        write_trust(authority, keys)
        notary = LinkNotary(LinkKeys.load(keys, "a"), lambda: int(time.time() * 1e6))
        router = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
        router.federation.set_peer(PEER, PeerRules())
        heard = router.federation.spreading
        heard.set_notary(notary)
        router.federation.link_up(PEER)
        heard.hear_known(0.0, PEER, [], more=False)
        router.take()
        cpu, before = 0.0, resident_mb()
        for number in range(sites):
            said = Said(authority, number, sites, wants)
            began = time.process_time()
            refusal = heard.hear(number * 0.1, PEER, said.news, 0.0, said.buckets)
            router.take()
            cpu += time.process_time() - began
            assert not refusal, refusal
        memory = resident_mb() - before
        known = router.federation.known_wants
        chance = random.Random(1)
        topics = [topic_of(chance.randrange(sites), chance.randrange(wants)) for _ in range(LOOKED_UP)]
        times = {}
        for what, looked_up in (("new", topics), ("again", topics[-1:] * LOOKED_UP)):
            began = time.process_time()
            for topic in looked_up:
                assert known.wanting("ALL", topic)
            times[what] = (time.process_time() - began) / LOOKED_UP * 1e6
        return {
            "what": "learn",
            "sites": sites,
            "wants": wants,
            "memory_mb": memory,
            "cpu_s": cpu,
            "look_up_us": times["new"],
            "look_up_again_us": times["again"],
        }
