"""News of a site, as it says it of itself to all others: its links, up or down, and what it wants; and how it
is written.

News carries the name of its site, a boot number and a number, which tell, in this order, which is later. It
is signed with the key of the site's certificate, which travels with it: a site in between passes on the very
bytes, also of what a later version says more, and can change nothing of it. It can keep it to itself, and
say that it is younger or older than it is: each site on the way counts the age, as no two clocks are alike.
"""

from typing import Annotated, Final, Protocol

import msgspec

from routing.errors import Refusal
from routing.message import DEPTH_UNLIMITED
from routing.names import FEATURE_PATTERN, FEATURES_MAX, is_server_name
from routing.numbers import Depth, Number
from routing.peering.leaves import DIGEST_BYTES_MAX, is_digest, write_digest

NEWS: Final = "news"
"""What a site that knows news says among the features of its links."""

DESTINATIONS: Final = "destinations"
"""What a site that sees to the destinations of copies says among the features of its links, and in news."""

ATTACHED: Final = "attached"
"""What a site says in news that tells which of what it wants for mode ONE somebody is attached to."""

LINKS_MAX: Final = 1_000
"""Of one site: as many as it can have peers."""

STATEMENT_BYTES_MAX: Final = 360_000
"""So many links, with the longest of names, and a digest of wants."""

CERTIFICATE_BYTES_MAX: Final = 8_192
SIGNATURE_BYTES_MAX: Final = 1_024

Version = tuple[int, int]
"""Boot number and number: the later news of a site has the greater one."""


class LinkNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """A link of a site with a peer.

    Attributes:
        depth_max: a copy from the peer that may still go further is taken with this depth; -1 for no limit.
        flood: everything within depth goes to the peer, wanted or not.
        limits_in, limits_out: not all topics may come from the peer, or go there; which, is among the leaves.
    """

    peer: str
    up: bool
    depth_max: Depth = DEPTH_UNLIMITED
    flood: bool = False
    limits_in: bool = False
    limits_out: bool = False


FeatureWord = Annotated[str, msgspec.Meta(pattern=rf"^{FEATURE_PATTERN}\Z")]


class SiteNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a site says of itself.

    Attributes:
        wants: the digest of its leaves (`routing.peering.leaves`); None where it does not say what it
            wants.
        features: words, as in the handshake of a link, for what it knows and sites beyond its peers need to
            know of.
    """

    site: str
    boot: Number
    number: Number
    links: Annotated[tuple[LinkNews, ...], msgspec.Meta(max_length=LINKS_MAX)]
    wants: Annotated[bytes, msgspec.Meta(max_length=DIGEST_BYTES_MAX)] | None = None
    features: Annotated[tuple[FeatureWord, ...], msgspec.Meta(max_length=FEATURES_MAX)] = ()

    @property
    def version(self) -> Version:
        """Which of the site's news it is: that of later news is greater."""
        return self.boot, self.number


def why_silent(site: str) -> str:
    """What may be the reason that nothing is known of a site but what its peers say, for people."""
    return (
        f"{site} says nothing of itself that is taken here: its smqpd is too old, it has not been heard, or"
        " its news is refused, as the log says then"
    )


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
    """Signs for this site, and judges who has signed for others.

    Attributes:
        secret: known to this site alone, the same for as long as its key is; not empty.
    """

    @property
    def secret(self) -> bytes:
        """See above."""

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
    """Which news of a site somebody has.

    Attributes:
        wants: of the buckets that it has with nothing hidden, a digest of the beginnings of their hashes.
    """

    site: str
    boot: Number
    number: Number
    wants: Annotated[bytes, msgspec.Meta(max_length=DIGEST_BYTES_MAX)] = write_digest({})


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
    if read.wants is not None and not is_digest(read.wants):
        raise Refusal(Refusal.BAD_FRAME, "news with a digest of wants that is none")
    return read


def write_statement(statement: SiteNews) -> bytes:
    """What is to be signed."""
    return msgspec.json.encode(statement)
