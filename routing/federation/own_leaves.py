"""What this site says of what it wants, and of the rules of its links: its own leaves, in their buckets.

A bucket that is more than others take is kept back: its hash is signed, and it is told to nobody. So this
site passes for one that wants each topic that falls into it, and says of all others what is so.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from routing.federation.interest_peer import EVERYTHING
from routing.message import MODES
from routing.patterns import is_pattern, subscription_takes
from routing.peering.copies import PeerRules
from routing.peering.leaves import (
    BUCKET_BYTES_MAX,
    BUCKET_LEAVES_MAX,
    BUCKETS,
    SALT_BYTES,
    SITE_LEAVES_MAX,
    SITE_PATTERNS_MAX,
    Bucket,
    Hashes,
    Leaf,
    LeafKind,
    NumberedBucket,
    bucket_of,
    hash_of,
    write_bucket,
    write_digest,
)
from routing.peering.wants import Said, Want

_Key = tuple[str, str]
"""A name, and the peer whose rule it is with what the rule is for; of wants the second is empty, and that
somebody is attached is of one of its own."""

_ATTACHED: Final = "ATTACHED"
_TO_ONE: Final = ("ONE", _ATTACHED)
"""By which messages of mode ONE come here."""


class OwnLeaves:
    """What is wanted changes at any time; what is said of it, with `seal`.

    Attributes:
        hashes: of the buckets, as they were sealed.
        unsealed: what is wanted since.
        gone: what was wanted when they were sealed, and is not any more.
        has_new_rules: there are other rules of links than were sealed.
    """

    def __init__(self) -> None:
        self.hashes: Hashes = {}
        self.unsealed: set[Said] = set()
        self.gone: set[Said] = set()
        self.has_new_rules = False
        self._gone_patterns: set[Said] = set()  # by which messages of mode ONE came
        self._has_new_secret = False
        self._secret = b""
        self._kinds: dict[str, set[str]] = {}  # modes, by name
        self._rules: dict[str, PeerRules] = {}
        self._leaves: list[dict[_Key, Leaf]] = [{} for _ in range(BUCKETS)]
        self._stale: set[int] = set()
        self._sealed: list[bytes] = [b""] * BUCKETS
        self._weights = [0] * BUCKETS
        self._patterns = [0] * BUCKETS
        self._kept_back: set[int] = set()

    def set_secret(self, secret: bytes) -> None:
        """Make the salts by this from now on: with another secret all hashes are others."""
        if secret == self._secret:
            return
        self._secret = secret
        for index, leaves in enumerate(self._leaves):
            for key, leaf in leaves.items():
                leaves[key] = self._leaf(leaf.kind, leaf.name, leaf.peer)
            self._stale.add(index)
        self._has_new_secret = True

    @property
    def is_changed(self) -> bool:
        """Whether there is something to be sealed; not where what had changed is as it was."""
        return bool(self.unsealed or self.gone) or self.has_new_rules or self._has_new_secret

    def set_want(self, said: Said, wanted: bool) -> None:
        """Note whether this site wants something, or whether somebody is attached to what it wants."""
        kind, name = said
        now, before = (self.unsealed, self.gone) if wanted else (self.gone, self.unsealed)
        if said in before:
            before.discard(said)
        else:
            now.add(said)
        if kind in _TO_ONE and is_pattern(name):
            (self._gone_patterns.add if said in self.gone else self._gone_patterns.discard)(said)
        if kind == _ATTACHED:
            self._put((name, kind), self._leaf(kind, name) if wanted else None)
        else:
            self._set_mode(kind, name, wanted)

    def _set_mode(self, mode: str, name: str, wanted: bool) -> None:
        kinds = self._kinds.setdefault(name, set())
        if wanted:
            kinds.add(mode)
        else:
            kinds.discard(mode)
        if not kinds:
            del self._kinds[name]
            self._put((name, ""), None)
        else:
            kind: LeafKind = "BOTH" if len(kinds) == 2 else "ALL" if "ALL" in kinds else "ONE"
            self._put((name, ""), self._leaf(kind, name))

    def set_rules(self, peers: Mapping[str, PeerRules]) -> None:
        """Replace what the links of this site let pass."""
        if peers == self._rules:
            return
        before, self._rules = set(_rules(self._rules)), dict(peers)
        now = set(_rules(self._rules))
        self.has_new_rules |= now != before
        for kind, name, peer in before - now:
            self._put((name, f"{kind} {peer}"), None)
        for kind, name, peer in now - before:
            self._put((name, f"{kind} {peer}"), self._leaf(kind, name, peer))

    def _leaf(self, kind: str, name: str, peer: str = "") -> Leaf:
        said = f"{kind}\0{name}\0{peer}".encode()
        salt = blake2b(said, digest_size=SALT_BYTES, key=self._secret[:64], person=b"smqpd salt").digest()
        return Leaf(kind, name, salt, peer)

    def is_gone(self, topic: str) -> bool:
        """Whether some of what was said when they were sealed brings messages of mode ONE, and is not so."""
        if not self.gone:
            return False
        if any((kind, topic) in self.gone for kind in _TO_ONE):
            return True
        return any(subscription_takes(name, topic) for _, name in self._gone_patterns)

    def _put(self, key: _Key, leaf: Leaf | None) -> None:
        index = bucket_of(key[0])
        if leaf is None:
            self._leaves[index].pop(key, None)
        else:
            self._leaves[index][key] = leaf
        self._stale.add(index)

    def seal(self) -> bytes:
        """Say from now on what is wanted now; returns its digest."""
        hashes = dict(self.hashes)
        for index in self._stale:
            bucket = Bucket(tuple(self._leaves[index].values()))
            hashes[index] = hash_of(bucket.hashes)
            self._sealed[index] = write_bucket(bucket) if bucket.leaves else b""
            self._weights[index], self._patterns[index] = bucket.weight, bucket.patterns
        self.hashes = {index: hash for index, hash in hashes.items() if hash}
        self._keep_back()
        self.unsealed.clear()
        self.gone.clear()
        self._gone_patterns.clear()
        self._stale.clear()
        self.has_new_rules = self._has_new_secret = False
        return write_digest(self.hashes)

    def _keep_back(self) -> None:
        """Find the buckets that are too much to be told: large ones, or with all others more than is kept.

        Of the latter those that have changed come last, and the largest of them: what others have, and is the
        same still, counts there.
        """
        kept_back = {
            index
            for index, leaves in enumerate(self._leaves)
            if len(leaves) > BUCKET_LEAVES_MAX or len(self._sealed[index]) > BUCKET_BYTES_MAX
        }
        is_new = self._kept_back | self._stale
        order = sorted(self.hashes, key=lambda index: (index in is_new, self._weights[index]))
        weight = patterns = 0
        for index in order:
            weight_with, patterns_with = weight + self._weights[index], patterns + self._patterns[index]
            if weight_with > SITE_LEAVES_MAX or patterns_with > SITE_PATTERNS_MAX:
                kept_back.add(index)
            elif index not in kept_back:
                weight, patterns = weight_with, patterns_with
        self._kept_back = kept_back

    @property
    def kept_back(self) -> frozenset[int]:
        """The numbers of the buckets that are, as they were sealed."""
        return frozenset(self._kept_back)

    def wants_in(self, index: int) -> Iterable[Want]:
        """What is wanted now that falls into a bucket."""
        for name, peer in self._leaves[index]:
            for mode in MODES if not peer else ():
                if mode in self._kinds[name]:
                    yield mode, name

    def bucket(self, index: int) -> NumberedBucket:
        """One as it was sealed; empty where it is kept back."""
        return NumberedBucket(index, self._sealed[index] if index not in self._kept_back else b"")


def _rules(peers: Mapping[str, PeerRules]) -> Iterable[tuple[LeafKind, str, str]]:
    for peer, rules in peers.items():
        for pattern in rules.allow_in if rules.allow_in != EVERYTHING else ():
            yield "IN", pattern, peer
        for pattern in rules.allow_out if rules.allow_out != EVERYTHING else ():
            yield "OUT", pattern, peer
