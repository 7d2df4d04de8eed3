"""Signatures of sites without keys: whoever is to be believed in a test signs as a `NamedNotary`."""

import hashlib
from collections.abc import Iterable

from routing.peering.leaves import (
    Bucket,
    Leaf,
    NumberedBucket,
    bucket_of,
    hash_of,
    read_bucket,
    write_bucket,
    write_digest,
)
from routing.peering.news import LinkNews, SignedNews, SiteNews, write_statement


class NamedNotary:
    """Signs as the site of this name; the name is its certificate.

    Attributes:
        distrusted: sites whose word it takes no more.
        believes_all: it takes any word.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.distrusted: set[str] = set()
        self.believes_all = False

    @property
    def secret(self) -> bytes:
        """See `routing.peering.news.Notary`."""
        return f"the secret of {self._name}".encode()

    def sign(self, statement: bytes) -> SignedNews | None:
        """See there."""
        return SignedNews(statement, self._name.encode(), _signature(self._name, statement))

    def refusal(self, site: str, news: SignedNews) -> str | None:
        """See there."""
        if self.believes_all:
            return None
        if site in self.distrusted:
            return "its certificate is revoked"
        if news.certificate.decode(errors="replace") != site:
            return "it is signed by another site"
        return None if news.signature == _signature(site, news.statement) else "its signature is wrong"


def wanted(*names: str) -> list[NumberedBucket]:
    """Buckets of topics and patterns that are wanted of mode ALL."""
    leaves: dict[int, list[Leaf]] = {}
    for name in names:
        leaves.setdefault(bucket_of(name), []).append(Leaf("ALL", name, b"salt"))
    return [NumberedBucket(index, write_bucket(Bucket(tuple(some)))) for index, some in leaves.items()]


def _signature(name: str, statement: bytes) -> bytes:
    return hashlib.sha256(f"the key of {name}".encode() + statement).digest()


def said(
    site: str,
    number: int,
    *links: str,
    boot: int = 1,
    down: tuple[str, ...] = (),
    by: str = "",
    wants: Iterable[NumberedBucket] | None = None,
) -> SignedNews:
    """What a site says of its links, and of what it wants, signed by it, or `by` another."""
    every = tuple(LinkNews(peer, peer not in down) for peer in sorted({*links, *down}))
    hashes = {bucket.index: hash_of(read_bucket(bucket.data).hashes) for bucket in wants or ()}
    digest = write_digest(hashes) if wants is not None else None
    signed = NamedNotary(by or site).sign(write_statement(SiteNews(site, boot, number, every, digest)))
    assert signed is not None
    return signed
