"""A peer that is told news of sites: what it is known to have, and what may be told to it."""

from collections.abc import Iterable, Mapping
from typing import Final

from routing.federation.interest_peer import EVERYTHING
from routing.federation.peer import some_allowed
from routing.peering.leaves import (
    BEGINNING_BYTES,
    Hashes,
    NumberedBucket,
    read_bucket,
    read_digest,
    told,
    write_bucket,
)
from routing.peering.news import KnownNews, NewsVersion, Version

CONTROL_BYTES: Final = 64_000
"""Of buckets in one control, beyond the first."""

_NEVER: Final = b"longer than any hash is"
_NOTHING: Final[Hashes] = {}
_NEVER_TOLD: Final[Mapping[int, Version]] = {}


class NewsPeer:
    """A peer that knows news, while its link is up.

    Attributes:
        has: the latest that the peer is known to have, by site.
        is_open: it has said which it has.
        is_unsettled: see `unsettle`.
    """

    def __init__(self) -> None:
        self.has: dict[str, Version] = {}
        self.is_open = self.is_unsettled = False
        self._buckets: dict[str, dict[int, bytes]] = {}  # hashes, or how they begin, by site
        self._told_with: dict[str, dict[int, Version]] = {}  # by site and bucket: the news as of which
        self._told = self._arrived = 0  # controls
        self._settles_at = 0
        self._answer_ends = 0  # of those that it was told, with this one

    def note_told(self) -> None:
        """Count one more control that it is told."""
        self._told += 1

    def note_arrived(self) -> None:
        """Count one more control that it has acknowledged."""
        self._arrived += 1

    def note_answered(self) -> None:
        """Note that it has been told all that it lacks by its own word."""
        self._answer_ends = self._told

    def unsettle(self) -> None:
        """Let it be told what news does not explain once it has acknowledged what it has been told."""
        self.is_unsettled = True
        self._settles_at = self._told

    def settle(self) -> bool:
        """Whether that is to be told now."""
        if not self.is_unsettled or self._arrived < self._settles_at:
            return False
        self.is_unsettled = False
        return True

    @property
    def is_answering(self) -> bool:
        """Whether it has not acknowledged yet what it was told when it said last what it has."""
        return self._arrived < self._answer_ends

    def set(self, said: NewsVersion) -> None:
        """Note what the peer says that it has, whatever it was believed to have."""
        version = self.has[said.site] = said.boot, said.number
        hashes = read_digest(said.wants, BEGINNING_BYTES)
        if said.site in self._told_with:
            hashes = {i: hash for i, hash in hashes.items() if not self._is_told_later(said.site, i, version)}
        self._buckets[said.site] = hashes

    def note(self, site: str, version: Version) -> None:
        """Note that the peer has this news, or later."""
        self.has[site] = max(version, self.has.get(site, version))

    def note_bucket(self, site: str, index: int, hash: bytes, version: Version) -> None:
        """Note that the peer has a bucket, which it has told as of this news."""
        if not self._is_told_later(site, index, version):
            self._buckets.setdefault(site, {})[index] = hash

    def _is_told_later(self, site: str, index: int, version: Version) -> bool:
        """Whether the peer is told a bucket as of later news: what it says that it has, it had before."""
        return self._told_with.get(site, _NEVER_TOLD).get(index, version) > version

    def note_told_bucket(self, site: str, index: int, hash: bytes, version: Version) -> None:
        """Note that the peer is told a bucket as of this news, so that it has it in a moment."""
        self._buckets.setdefault(site, {})[index] = hash
        self._told_with.setdefault(site, {})[index] = version

    def note_other(self, site: str, index: int, version: Version) -> None:
        """Note that a bucket was another one in this earlier news, by which the peer may have gone since.

        It lacks that of now then, though it may have had the same before, unless it was told it as of no
        earlier news than that.
        """
        told_with = self._told_with.get(site, _NEVER_TOLD).get(index)
        if told_with is None or told_with < version:
            self._buckets.get(site, {}).pop(index, None)

    def note_gone(self, site: str, hashes: Hashes) -> None:
        """Forget all buckets of a site but these: it does not keep the others, and lacks them afterwards."""
        if (had := self._buckets.get(site)) is not None:
            told_with = self._told_with.get(site, {})
            for index in had.keys() - hashes.keys():
                del had[index]
                told_with.pop(index, None)

    def lacks(self, known: KnownNews) -> bool:
        """Whether it has older news of that site, or none."""
        had = self.has.get(known.statement.site)
        return had is None or had < known.statement.version

    def lacking(self, site: str, hashes: Hashes) -> list[int]:
        """The numbers of the buckets of these hashes that it has not got."""
        had = self._buckets.get(site, _NOTHING)
        return [index for index, hash in hashes.items() if not hash.startswith(had.get(index, _NEVER))]


def as_told(bucket: NumberedBucket, may_come: tuple[str, ...]) -> NumberedBucket:
    """A bucket for a peer from which only this may come."""
    if may_come == EVERYTHING:
        return bucket
    whole = read_bucket(bucket.data)
    cut = told(whole, lambda leaf: some_allowed(may_come, leaf.name))
    return bucket if cut is whole else NumberedBucket(bucket.index, write_bucket(cut))


def in_controls(buckets: Iterable[NumberedBucket]) -> list[tuple[NumberedBucket, ...]]:
    """The buckets, as many together as go into one control; at least one, which may be empty."""
    out: list[list[NumberedBucket]] = [[]]
    size = 0
    for bucket in buckets:
        if out[-1] and size + len(bucket.data) > CONTROL_BYTES:
            out.append([])
            size = 0
        out[-1].append(bucket)
        size += len(bucket.data)
    return [tuple(each) for each in out]
