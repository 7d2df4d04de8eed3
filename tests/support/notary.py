"""Signatures of sites without keys: whoever is to be believed in a test signs as a `NamedNotary`."""

import hashlib

from routing.federation.news import LinkNews, SignedNews, SiteNews, write_statement


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

    def sign(self, statement: bytes) -> SignedNews | None:
        """See `routing.federation.news.Notary`."""
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


def _signature(name: str, statement: bytes) -> bytes:
    return hashlib.sha256(f"the key of {name}".encode() + statement).digest()


def said(
    site: str, number: int, *links: str, boot: int = 1, down: tuple[str, ...] = (), by: str = ""
) -> SignedNews:
    """What a site says of its links, signed by it, or `by` another."""
    every = tuple(LinkNews(peer, peer not in down) for peer in sorted({*links, *down}))
    signed = NamedNotary(by or site).sign(write_statement(SiteNews(site, boot, number, every)))
    assert signed is not None
    return signed
