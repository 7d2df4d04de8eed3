"""What a site wants, as it says it of itself: leaves in buckets, of which it signs the hashes.

    leaf      a topic or pattern that the site wants, or a rule of one of its links, and a salt. That somebody
              is attached to a subscription that takes mode ONE is another one, of the same name
    bucket    all leaves whose names fall into it; its hash is that of the sorted hashes of its leaves
    digest    the hash of each bucket: small, so it is part of what the site signs

Who passes a bucket on may put only the hash of a leaf in the place of the leaf: the hash of the bucket is the
same, so it is still the word of its site, and whoever gets it cannot find the name by trying names. Topics
and patterns are in different buckets, so that it is known of each topic which buckets can tell who wants it.

A later version may say other things of names. Whoever does not know them keeps and passes on all that is
signed, and takes them for wants: who gets a copy that it does not want loses nothing. Rules of links that it
does not know it passes over.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Final, Literal
from zlib import crc32

import msgspec

from routing.errors import Refusal
from routing.names import is_server_name, is_topic
from routing.patterns import is_pattern, is_pattern_of_topics

BUCKETS: Final = 64
TOPIC_BUCKETS: Final = 56
"""The first of them; the others are of patterns, and of the rules of links."""

HASH_BYTES: Final = 16
SALT_BYTES: Final = 8
BEGINNING_BYTES: Final = 4
"""Of a hash, by which two sites find out which buckets the other has. Who has another of the same beginning
does not get the bucket then, but when it asks for what it lacks."""

_MASK_BYTES: Final = BUCKETS // 8

DIGEST_BYTES_MAX: Final = _MASK_BYTES + BUCKETS * HASH_BYTES
BUCKET_BYTES_MAX: Final = 200_000
BUCKET_LEAVES_MAX: Final = 8_000
SITE_LEAVES_MAX: Final = 100_000
SITE_PATTERNS_MAX: Final = 20_000
"""A pattern counts as so many as it has levels. Who wants more keeps buckets back: see `OwnLeaves`."""

HELD_BYTES_MAX: Final = 2 * BUCKET_BYTES_MAX
"""Of a bucket as it travels, and is kept with all names that are known."""

LeafKind = Literal["ALL", "ONE", "BOTH", "ATTACHED", "IN", "OUT"]
"""Wanted of which mode, and for ONE by somebody who is there; or what may come from a peer, or go there."""

WANTED: Final[Mapping[str, tuple[str, ...]]] = {
    "ALL": ("ALL",),
    "ONE": ("ONE",),
    "BOTH": ("ALL", "ONE"),
    "ATTACHED": (),
}
RULES: Final = ("IN", "OUT")
KIND_CHARACTERS_MAX: Final = 16


Hashes = Mapping[int, bytes]
"""Of buckets, by their numbers; one that is empty has none."""


class Leaf(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that a site says of a name.

    Attributes:
        kind: a `LeafKind`, or a word of a later version.
        name: a topic or a pattern.
        peer: of a rule: at the other end of the link.
    """

    kind: Annotated[str, msgspec.Meta(max_length=KIND_CHARACTERS_MAX)]
    name: Annotated[str, msgspec.Meta(max_length=300)]
    salt: Annotated[bytes, msgspec.Meta(max_length=SALT_BYTES)]
    peer: Annotated[str, msgspec.Meta(max_length=300)] = ""

    @property
    def modes(self) -> tuple[str, ...]:
        """Of which messages of its name are wanted: all where a later version says what is not known.

        None where it says something of a want besides.
        """
        return () if self.peer else WANTED.get(self.kind, WANTED["BOTH"])

    @property
    def hash(self) -> bytes:
        """What stands for it in its bucket."""
        said = f"{self.kind}\0{self.name}\0{self.peer}".encode()
        return blake2b(said, digest_size=HASH_BYTES, key=self.salt, person=b"smqpd leaf").digest()


class Bucket(msgspec.Struct, frozen=True, array_like=True):
    """Those of a bucket that are told, and the hashes of the others, one after another."""

    leaves: Annotated[tuple[Leaf, ...], msgspec.Meta(max_length=BUCKET_LEAVES_MAX)] = ()
    hidden: bytes = b""

    @property
    def weight(self) -> int:
        """As how many leaves its names count: what they take to be remembered."""
        return sum(leaf.name.count(".") + 1 if is_pattern(leaf.name) else 1 for leaf in self.leaves)

    @property
    def patterns(self) -> int:
        """How many of its names are patterns that are wanted."""
        return sum(is_pattern(leaf.name) and not leaf.peer for leaf in self.leaves)

    @property
    def hashes(self) -> list[bytes]:
        """Of all its leaves."""
        found = [leaf.hash for leaf in self.leaves]
        found += (self.hidden[at : at + HASH_BYTES] for at in range(0, len(self.hidden), HASH_BYTES))
        return found


class NumberedBucket(msgspec.Struct, frozen=True, array_like=True):
    """One of a site, as it travels and is stored.

    Attributes:
        data: as `write_bucket` writes it.
    """

    index: Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS)]
    data: Annotated[bytes, msgspec.Meta(max_length=HELD_BYTES_MAX)]


@lru_cache(maxsize=1024)
def bucket_of(name: str) -> int:
    """The number of the bucket that a topic or a pattern falls into."""
    number = crc32(name.encode())
    if is_pattern(name):
        return TOPIC_BUCKETS + number % (BUCKETS - TOPIC_BUCKETS)
    return number % TOPIC_BUCKETS


def hash_of(hashes: Iterable[bytes]) -> bytes:
    """The hash of a bucket, by the hashes of its leaves; empty for an empty one."""
    together = b"".join(sorted(hashes))
    if not together:
        return b""
    return blake2b(together, digest_size=HASH_BYTES, person=b"smqpd bucket").digest()


def write_digest(hashes: Hashes, size: int = HASH_BYTES) -> bytes:
    """The digest of all buckets: which are not empty, and `size` bytes of the hash of each of those."""
    mask = sum(1 << index for index in hashes)
    return mask.to_bytes(_MASK_BYTES, "big") + b"".join(hashes[index][:size] for index in sorted(hashes))


def is_digest(data: bytes, size: int = HASH_BYTES) -> bool:
    """Whether that can be read as such."""
    mask = int.from_bytes(data[:_MASK_BYTES], "big")
    return len(data) == _MASK_BYTES + size * mask.bit_count()


def read_digest(data: bytes, size: int = HASH_BYTES) -> dict[int, bytes]:
    """The hash of each bucket that is not empty, or its beginning."""
    mask = int.from_bytes(data[:_MASK_BYTES], "big")
    there = [index for index in range(BUCKETS) if mask >> index & 1]
    each = (data[at : at + size] for at in range(_MASK_BYTES, len(data), size))
    return dict(zip(there, each, strict=True))


write_bucket: Final = msgspec.msgpack.Encoder().encode
_bucket_of: Final = msgspec.msgpack.Decoder(Bucket).decode


def read_bucket(data: bytes) -> Bucket:
    """What `write_bucket` wrote. Raises Refusal where it is none, or names what nobody can want."""
    try:
        bucket = _bucket_of(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(Refusal.BAD_FRAME, f"wants that cannot be read: {error}") from None
    hidden, rest = divmod(len(bucket.hidden), HASH_BYTES)
    if len(bucket.leaves) + hidden > BUCKET_LEAVES_MAX:
        raise Refusal(Refusal.BAD_FRAME, f"more than {BUCKET_LEAVES_MAX} wants in a bucket")
    if rest or not all(map(_can_be, bucket.leaves)):
        raise Refusal(Refusal.BAD_FRAME, "wants of what nobody can want")
    return bucket


def _can_be(leaf: Leaf) -> bool:
    is_rule = leaf.kind in RULES
    if not is_rule and leaf.kind not in WANTED:
        is_rule = bool(leaf.peer)  # of a later version, which it may be
        if not (leaf.kind.isascii() and leaf.kind.isalpha()):
            return False
    if is_rule != bool(leaf.peer) or (is_rule and not is_server_name(leaf.peer)):
        return False
    return is_pattern_of_topics(leaf.name) if is_rule or is_pattern(leaf.name) else is_topic(leaf.name)


def merged(bucket: Bucket, known: Iterable[Leaf]) -> Bucket:
    """The bucket with the names that are known, by other tellings, of what is hidden in it."""
    if not bucket.hidden:
        return bucket
    named: Mapping[bytes, Leaf] = {leaf.hash: leaf for leaf in known}
    leaves, hidden = list(bucket.leaves), []
    for at in range(0, len(bucket.hidden), HASH_BYTES):
        each = bucket.hidden[at : at + HASH_BYTES]
        if each in named:
            leaves.append(named[each])
        else:
            hidden.append(each)
    return Bucket(tuple(leaves), b"".join(hidden))


def told(bucket: Bucket, may_be_told: Callable[[Leaf], bool]) -> Bucket:
    """The bucket with the hash alone of what may not be told."""
    leaves = tuple(filter(may_be_told, bucket.leaves))
    if len(leaves) == len(bucket.leaves):
        return bucket
    hidden = [leaf.hash for leaf in bucket.leaves if not may_be_told(leaf)]
    return Bucket(leaves, bucket.hidden + b"".join(hidden))
