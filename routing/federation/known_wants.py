"""What other sites want, as they say it themselves, and what the rules of their links let pass.

A site signs the hash of each bucket of its leaves (`routing.peering.leaves`). A bucket is kept if its hash
is one that the site has signed last; until it is here, it is not known whether that site wants a topic that
falls into it, and of all others it is. A site that wants more than others keep of it keeps buckets back.

What is hidden in a bucket counts as not wanted. A site hides from a peer only what may not come from there,
so a name is hidden from a site only where no way on which its messages could reach who wants it leads there:
each of the sites on such a way would have told it.

Of mode ONE it is known besides whose subscriptions somebody is attached to. A site that does not tell so, as
one of an earlier version, passes for one where somebody is.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, Literal

from routing.federation.wants_by_name import KINDS, SaidOfName, Touched, WantsByName
from routing.message import DeliveryMode
from routing.peering.leaves import (
    BUCKETS,
    HELD_BYTES_MAX,
    RULES,
    SITE_LEAVES_MAX,
    SITE_PATTERNS_MAX,
    TOPIC_BUCKETS,
    Bucket,
    Hashes,
    Leaf,
    bucket_of,
    hash_of,
    merged,
    read_bucket,
    read_digest,
    write_bucket,
)
from routing.peering.news import ATTACHED, SiteNews
from routing.peering.wants import Want

LEAVES_MAX: Final = 2_000_000
PATTERNS_MAX: Final = 200_000
BYTES_MAX: Final = 192 * 2**20
"""Of all sites; a pattern counts as so many leaves as it has levels."""

Taken = Literal["new", "more", "known", "unsigned", "misplaced", "too much"]
"""What became of a bucket: kept, as the first of its hash or with more names than were known; known already;
not what its site has signed last, or with names that belong into others; more than is remembered."""


class _Site:
    """What one site wants.

    Attributes:
        hashes: of its buckets, as it has signed them last.
        held: the hashes of those that are here.
        buckets: as they are told and stored.
        hidden: the numbers of those in which something is hidden.
        tells_attached: it tells to what somebody is attached.
        attached: as many of its leaves say so.
        was_whole: all its buckets were here when `KnownWants.take_touched` was called last.
    """

    __slots__ = (
        "attached",
        "buckets",
        "hashes",
        "held",
        "hidden",
        "leaves",
        "limited",
        "patterns",
        "rules",
        "tells_attached",
        "was_whole",
        "weight",
    )

    def __init__(self) -> None:
        self.hashes: Hashes = {}
        self.held: dict[int, bytes] = {}
        self.buckets: dict[int, bytes] = {}
        self.hidden: frozenset[int] = frozenset()
        self.was_whole = True
        self.tells_attached = False
        self.leaves = self.attached = self.patterns = self.rules = self.weight = 0
        self.limited: frozenset[tuple[str, str]] = frozenset()

    def lacks(self, index: int) -> bool:
        return self.held.get(index) != self.hashes.get(index)

    def said(self, leaves: Iterable[Leaf]) -> Iterable[SaidOfName]:
        """Each mode of a want by itself, to what somebody is attached, and rules of links."""
        for leaf in leaves:
            if leaf.kind in RULES or (leaf.kind == "ATTACHED" and self.tells_attached):
                yield leaf.kind, leaf.name, leaf.peer
            for mode in leaf.modes:
                yield mode, leaf.name, leaf.peer
                if mode == "ONE" and not self.tells_attached:
                    yield "ATTACHED", leaf.name, leaf.peer


class KnownWants:
    """What sites besides `server` want."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._sites: dict[str, _Site] = {}
        self._by_name = WantsByName()
        self._lacking: list[set[str]] = [set() for _ in range(BUCKETS)]  # whose bucket is not here
        self._limited_touched: set[_Site] = set()
        self._weight = self._bytes = 0

    # -- what is known ----------------------------------------------------------------------------

    def wanting(self, mode: DeliveryMode, topic: str) -> Mapping[str, None]:
        """The other sites that want messages of this mode of this topic, itself or by a pattern.

        None of those is missing that have said what they want, and that such a message could reach over links
        whose rules let it pass: see the head. A site that does not say what it wants (one of an earlier
        version) is not among them; `tells` knows those that do. Nor is one of which a
        bucket that could tell it is not here yet; `unsure` knows these.

        To be read at once: it may change with what is heard next. Costs a look-up where the same was asked
        since wants of it changed, else a few microseconds. Not for system topics, which one server wants.
        """
        return self._by_name.find(mode, topic)

    def attached(self, topic: str) -> Mapping[str, None]:
        """Those of whom it is known, of the sites that want a topic for mode ONE, that somebody is attached.

        And those that do not tell. Otherwise as `wanting`.
        """
        return self._by_name.find("ATTACHED", topic)

    def unsure(self, topic: str) -> set[str]:
        """The sites that may want a topic, or not: a bucket of theirs that would tell is not here."""
        return self._lacking[bucket_of(topic)].union(*self._lacking[TOPIC_BUCKETS:])

    def take_touched(self) -> Touched:
        """What has changed since this was asked before."""
        touched, self._by_name.touched = self._by_name.touched, Touched()
        for known in self._limited_touched:
            is_whole = known.held == known.hashes
            touched.rules |= is_whole != known.was_whole
            known.was_whole = is_whole
        self._limited_touched.clear()
        return touched

    def wanting_by_name(self, mode: DeliveryMode, name: str) -> Mapping[str, None]:
        """The other sites that want a topic or a pattern, as they said it; see `wanting`."""
        return self._by_name.wanting(mode, name)

    def is_taken_by_pattern(self, topic: str) -> bool:
        """Whether another site wants a pattern that takes a topic."""
        return self._by_name.is_taken_by_pattern(topic)

    def wants_of(self, sites: Container[str]) -> Iterator[Want]:
        """What these sites are known to want; what several do as often. Costs a microsecond each."""
        for site, known in self._sites.items():
            for index in known.buckets if site in sites else ():
                for leaf in self._read(known, index).leaves:
                    for mode in leaf.modes:
                        yield "ALL" if mode == "ALL" else "ONE", leaf.name

    def tells(self, site: str) -> bool:
        """Whether a site says what it wants."""
        return site in self._sites

    def may_cross(self, sender: str, receiver: str, topic: str) -> bool:
        """Whether the rules of both ends of a link, as far as they are known, let a message of a topic pass.

        What is not known yet forbids nothing. A rule that is hidden lets nothing pass that may come from
        here.
        """
        return self._allows(sender, "OUT", receiver, topic) and self._allows(receiver, "IN", sender, topic)

    def _allows(self, site: str, kind: str, peer: str, topic: str) -> bool:
        known = self._sites.get(site)
        if known is None or (kind, peer) not in known.limited:
            return True
        if known.held != known.hashes:
            return True
        return self._by_name.rules_allow(site, kind, peer, topic)

    def count(self, site: str) -> int | None:
        """How many topics and patterns a site is known to want; None where it does not say what it wants."""
        known = self._sites.get(site)
        return known.leaves - known.rules - known.attached if known is not None else None

    def bucket(self, site: str, index: int) -> bytes:
        """The bucket as it was taken, with all names that are known; empty where it is not here."""
        known = self._sites.get(site)
        return known.buckets.get(index, b"") if known is not None and not known.lacks(index) else b""

    def is_lacking(self, site: str, index: int) -> bool:
        """Whether a site has signed a bucket that is not here."""
        known = self._sites.get(site)
        return known is not None and known.lacks(index)

    def lacks(self, site: str) -> list[int]:
        """The buckets that a site has signed, and that are not here."""
        known = self._sites.get(site)
        if known is None or known.held == known.hashes:
            return []
        return [index for index in known.hashes if known.lacks(index)]

    def hashes(self, site: str) -> Hashes:
        """The hashes of the buckets of a site, as it has signed them last."""
        known = self._sites.get(site)
        return known.hashes if known is not None else {}

    def held(self, site: str) -> Hashes:
        """The hashes of buckets that are here as their site has signed them last, with nothing hidden."""
        known = self._sites.get(site)
        if known is None:
            return {}
        hashes, hidden = known.hashes, known.hidden
        return {i: each for i, each in known.held.items() if i not in hidden and hashes.get(i) == each}

    def needs(self, site: str, index: int) -> bool:
        """Whether a bucket of a site is not here, or not with all that is in it."""
        known = self._sites.get(site)
        if known is None or index not in known.hashes:
            return False
        return known.lacks(index) or index in known.hidden

    # -- what is heard ----------------------------------------------------------------------------

    def say(self, statement: SiteNews) -> list[int]:
        """Take the latest that a site says; returns the numbers of the buckets that became empty."""
        site = statement.site
        if site == self._server:
            return []
        if statement.wants is None:
            return self.forget(site)
        known = self._sites.get(site)
        if known is None:
            known = self._sites[site] = _Site()
        known.limited = frozenset(
            (kind, link.peer)
            for link in statement.links
            for kind, is_limited in (("IN", link.limits_in), ("OUT", link.limits_out))
            if is_limited
        )
        self._set_tells_attached(site, known, ATTACHED in statement.features)
        before, known.hashes = known.hashes, read_digest(statement.wants)
        emptied = []
        for index in before.keys() | known.hashes.keys():
            was, now = before.get(index), known.hashes.get(index)
            if was == now:
                continue
            if now is None and index in known.held:
                self._replace(site, known, index, b"", Bucket())
                emptied.append(index)
            self._note_lacking(site, known, index)
        return emptied

    def _set_tells_attached(self, site: str, known: _Site, tells: bool) -> None:
        """A site tells to what somebody is attached, or not: what is here of it may mean another thing."""
        if tells == known.tells_attached:
            return
        leaves = [leaf for index in known.buckets for leaf in self._read(known, index).leaves]
        was = set(known.said(leaves))
        known.tells_attached = tells
        self._by_name.change(site, was, set(known.said(leaves)))

    def take(self, site: str, index: int, data: bytes) -> Taken:
        """Take a bucket of a site. Raises Refusal where it is none."""
        known = self._sites.get(site)
        if known is None or not 0 <= index < BUCKETS:
            return "unsigned"
        if data and data == known.buckets.get(index) and not known.lacks(index):
            return "known"
        bucket = read_bucket(data)
        if hash_of(bucket.hashes) != known.hashes.get(index):
            return "unsigned"
        if any(bucket_of(leaf.name) != index for leaf in bucket.leaves):
            return "misplaced"  # a name that is in two buckets would be wanted twice
        before = self._read(known, index)
        bucket = merged(bucket, before.leaves)
        is_new = known.lacks(index)
        if not is_new and len(bucket.hidden) >= len(before.hidden):
            return "known"
        data = write_bucket(bucket)
        if len(data) > HELD_BYTES_MAX:
            return "too much"
        more_bytes = len(data) - len(known.buckets.get(index, b""))
        if not self._has_room(site, known, before, bucket, more_bytes):
            self._drop_stale(site, known, index)
            if not self._has_room(site, known, before, bucket, more_bytes):
                return "too much"
        self._replace(site, known, index, data, bucket)
        self._note_lacking(site, known, index)
        return "new" if is_new else "more"

    def forget(self, site: str) -> list[int]:
        """Forget what a site wants that has no news any more; returns the numbers of its buckets here."""
        known = self._sites.get(site)
        if known is None:
            return []
        held, lacking = list(known.held), self.lacks(site)
        known.hashes = {}
        for index in held:
            self._replace(site, known, index, b"", Bucket())
        for index in lacking:
            self._note_lacking(site, known, index)
        del self._sites[site]
        self._by_name.forget(site)
        return held

    def _read(self, known: _Site, index: int) -> Bucket:
        return read_bucket(known.buckets[index]) if index in known.buckets else Bucket()

    def _has_room(self, site: str, known: _Site, before: Bucket, bucket: Bucket, more_bytes: int) -> bool:
        """Whether a bucket fits into the bounds; one that is no more than that before it always does."""
        more = bucket.weight - before.weight
        more_patterns = bucket.patterns - before.patterns
        return (
            _fits(self._bytes, more_bytes, BYTES_MAX)
            and _fits(self._weight, more, LEAVES_MAX)
            and _fits(known.weight, more, SITE_LEAVES_MAX)
            and _fits(known.patterns, more_patterns, SITE_PATTERNS_MAX)
            and self._has_room_for_patterns(site, known, before, bucket)
        )

    def _has_room_for_patterns(self, site: str, known: _Site, before: Bucket, bucket: Bucket) -> bool:
        """Of a pattern there is one for each mode, and for those attached, however many sites want it."""
        count = self._by_name.pattern_count
        if count + len(KINDS) * bucket.patterns <= PATTERNS_MAX:
            return True
        was, now = set(known.said(before.leaves)), set(known.said(bucket.leaves))
        return _fits(count, self._by_name.more_patterns(site, was, now), PATTERNS_MAX)

    def _drop_stale(self, site: str, known: _Site, index: int) -> None:
        """Drop what is here of buckets that have changed since, but of this one: others may never come."""
        for each in [each for each in known.held if each != index and known.lacks(each)]:
            self._replace(site, known, each, b"", Bucket())

    def _note_lacking(self, site: str, known: _Site, index: int) -> None:
        lacking = self._lacking[index]
        if known.lacks(index) != (site in lacking):
            lacking ^= {site}
            self._by_name.touched.buckets.add(index)
            if known.limited:
                self._limited_touched.add(known)

    def _replace(self, site: str, known: _Site, index: int, data: bytes, bucket: Bucket) -> None:
        """Put a bucket in the place of the one that is here."""
        before = self._read(known, index)
        self._by_name.change(site, set(known.said(before.leaves)), set(known.said(bucket.leaves)))
        known.leaves += len(bucket.leaves) - len(before.leaves)
        known.rules += sum(bool(leaf.peer) for leaf in bucket.leaves)
        known.rules -= sum(bool(leaf.peer) for leaf in before.leaves)
        known.attached += sum(leaf.kind == "ATTACHED" for leaf in bucket.leaves)
        known.attached -= sum(leaf.kind == "ATTACHED" for leaf in before.leaves)
        known.patterns += bucket.patterns - before.patterns
        more = bucket.weight - before.weight
        known.weight += more
        self._weight += more
        self._bytes += len(data) - len(known.buckets.pop(index, b""))
        known.held.pop(index, None)
        if bucket.hidden:
            known.hidden |= {index}
        elif index in known.hidden:
            known.hidden -= {index}
        if data:
            known.buckets[index], known.held[index] = data, known.hashes[index]


def _fits(count: int, more: int, at_most: int) -> bool:
    return more <= 0 or count + more <= at_most
