"""News of a site, as it says it of itself to all others: its links, up or down. And how it is written.

News carries the name of its site, a boot number and a number, which tell, in this order, which is later. It
is signed with the key of the site's certificate, which travels with it: a site in between passes on the very
bytes, also of what a later version says more, and can change nothing of it. It can keep it to itself, and
say that it is younger or older than it is: each site on the way counts the age, as no two clocks are alike.
"""

from typing import Annotated, Final, Protocol

import msgspec

from routing.errors import Refusal
from routing.names import is_server_name
from routing.numbers import Number

NEWS: Final = "news"
"""What a site that knows news says among the features of its links."""

LINKS_MAX: Final = 1_000
"""Of one site: as many as it can have peers."""

STATEMENT_BYTES_MAX: Final = 300_000
"""So many links, with the longest of names."""

CERTIFICATE_BYTES_MAX: Final = 8_192
SIGNATURE_BYTES_MAX: Final = 1_024

Version = tuple[int, int]
"""Boot number and number: the later news of a site has the greater one."""


class LinkNews(msgspec.Struct, frozen=True):
    """A link of a site with a peer."""

    peer: str
    up: bool


class SiteNews(msgspec.Struct, frozen=True):
    """What a site says of itself."""

    site: str
    boot: Number
    number: Number
    links: Annotated[tuple[LinkNews, ...], msgspec.Meta(max_length=LINKS_MAX)]

    @property
    def version(self) -> Version:
        """Later news has a greater one."""
        return self.boot, self.number


class SignedNews(msgspec.Struct, frozen=True):
    """News as it travels, and as it is kept.

    Attributes:
        statement: what was signed, a `SiteNews` as JSON.
        certificate: the site's, DER.
    """

    statement: Annotated[bytes, msgspec.Meta(max_length=STATEMENT_BYTES_MAX)]
    certificate: Annotated[bytes, msgspec.Meta(max_length=CERTIFICATE_BYTES_MAX)]
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES_MAX)]

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.statement) + len(self.certificate) + len(self.signature)


class Notary(Protocol):
    """Signs for this site, and judges who has signed for others."""

    def sign(self, statement: bytes) -> SignedNews | None:
        """Signed in the name of this site; None where its key cannot."""

    def refusal(self, site: str, news: SignedNews) -> str | None:
        """Why this is not known to be the word of that site; None if it is."""


class KnownNews(msgspec.Struct):
    """The latest that is known of a site.

    Attributes:
        said_at: when the site said it, as far as the sites on the way counted right; site time of this site.
        source: the peer that told it; "" where it is this site's own.
    """

    statement: SiteNews
    signed: SignedNews
    said_at: float
    source: str


class NewsVersion(msgspec.Struct, frozen=True, array_like=True):
    """Which news of a site somebody has."""

    site: str
    boot: Number
    number: Number


_statement_of = msgspec.json.Decoder(SiteNews).decode


def read_statement(statement: bytes) -> SiteNews:
    """What was signed. Raises Refusal where it cannot be read, or names what is no server."""
    try:
        read = _statement_of(statement)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(Refusal.BAD_FRAME, f"news that cannot be read: {error}") from None
    names = {link.peer for link in read.links}
    if len(names) != len(read.links) or not all(map(is_server_name, (read.site, *names))):
        raise Refusal(Refusal.BAD_FRAME, "news of what is no server, or twice of one link")
    return read


def write_statement(statement: SiteNews) -> bytes:
    """What is to be signed."""
    return msgspec.json.encode(statement)
