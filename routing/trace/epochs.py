"""Clocks that were set: when, by the clock itself, and how far ahead it was before and after.

Each acknowledged hop tells by itself, to half of its round trip, how far its receiver's clock is ahead of its
sender's. Where these numbers fall into clusters that lie apart, one of the two clocks was set. It is taken to
be the one most of whose links say so, if those of the other do not; where neither can be told from the other,
as between two sites alone, both are held to have been set. Of a clock that was set back the same times came
twice: what is between is unknown, since nothing tells which of the two a record means.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from statistics import median
from typing import Final

BUCKET_US: Final = 20_000_000
"""Clocks that differ by less than two of these are one; round trips that take longer tell nothing here."""

MINUTE_US: Final = 60_000_000

MOST: Final = 0.5
"""Of the links of a clock that was set so many tell it."""

FOREVER_US: Final = 1 << 62

STRETCHES_MAX: Final = 100
"""A clock that was set more often is unknown: each of its stretches is looked at for each hour and hop."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Sighting:
    """The fastest hops of a link, of one bucket and minute of the clock of `server`, which was at one end.

    Attributes:
        bucket: `server`'s clock is ahead of `neighbour`'s by about so many times `BUCKET_US`.
        there_us, back_us: of a hop to `server`, and of its answer.
        round_trip_us: of one hop and its answer.
    """

    server: str
    neighbour: str
    minute: int
    bucket: int
    count: int
    there_us: int
    back_us: int
    round_trip_us: int


@dataclass
class Run:
    """Minutes of one clock in which it differed from each of its neighbours by as much.

    Attributes:
        clusters: by neighbour.
        fastest: by neighbour, the least there_us, back_us and round_trip_us.
    """

    first: int
    last: int
    count: int = 0
    clusters: dict[str, int] = field(default_factory=dict)
    fastest: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def take(self, minute: int, seen: Iterable[Sighting]) -> None:
        self.last = minute
        for one in seen:
            self.count += one.count
            seen_us = (one.there_us, one.back_us, one.round_trip_us)
            there, back, round_trip = map(min, seen_us, self.fastest.get(one.neighbour, seen_us))
            self.fastest[one.neighbour] = (there, back, round_trip)

    def ahead_us(self, neighbour: str) -> float:
        there, back, _ = self.fastest[neighbour]
        return (there - back) / 2

    @property
    def doubt_us(self) -> float:
        """Half of the round trip; where the way there and that back make less than a round trip takes, the
        clock was set meanwhile, by as much as is lacking: it is what it was before, or after.

        That of the worst neighbour, whose own clock may be known through this one alone.
        """
        return max(round_trip - (there + back) / 2 for there, back, round_trip in self.fastest.values())


@dataclass(frozen=True)
class Epoch:
    """From `from_us` until `until_us`, by the clock itself, it was ahead by `ahead_us`, within `doubt_us`."""

    from_us: int
    until_us: int
    ahead_us: float
    doubt_us: float


def lie_apart(buckets: Iterable[int]) -> bool:
    """Whether there is a gap between these buckets, so that a clock was set."""
    return any(b - a > 1 for a, b in pairwise(sorted(set(buckets))))


def jumpers(links: Collection[Pair], torn: Collection[Pair], told: Collection[str] = ()) -> set[str]:
    """Whose clocks explain the links that are `torn`: first those whose own logs have `told` that they were
    set, and then those of which the greatest share of all `links` is torn.

    Of a link the other end is cleared where its share is half of that, or where one alone explains them all;
    else both are named, since a link that is not torn may have been silent before or after.
    """
    found = {name for link in torn for name in link if name in told}
    # what the others' links to these were says nothing of the others
    total = Counter(name for link in links if not found.intersection(link) for name in link)
    left: dict[str, set[Pair]] = defaultdict(set)
    for link in torn:
        if not found.intersection(link):
            for name in link:
                left[name].add(link)

    def weight(name: str) -> tuple[float, int]:
        return len(left[name]) / total[name], len(left[name])

    def rank(name: str) -> tuple[float, int, str]:
        share, count = weight(name)
        return -share, -count, name

    heaviest = [rank(name) for name in left]
    heapify(heaviest)
    while heaviest:
        _, minus_count, first = heappop(heaviest)
        if not minus_count or len(left[first]) != -minus_count:
            continue  # some of its links are explained since: it stands further back, or nowhere
        ends = {name for link in left[first] for name in link}
        named = {first} | {name for name in ends if not _clears(weight(first), weight(name))}
        found |= named
        explained = {link for name in named for link in left[name]}
        lighter = {name for link in explained for name in link}
        for link in explained:
            for name in link:
                left[name].discard(link)
        for name in lighter:
            heappush(heaviest, rank(name))
    return found


def _clears(one: tuple[float, int], other: tuple[float, int]) -> bool:
    """Whether a clock with the weight `one` was set rather than its neighbour's, with `other`."""
    share, count = one
    other_share, other_count = other
    alone = share == other_share == 1 and count > other_count
    return alone or (share >= MOST and share >= 2 * other_share)


def runs(sightings: Sequence[Sighting]) -> list[Run]:
    """The runs of one clock, in the order of its own time; minutes that tell two things belong to none."""
    clusters = _clusters(sightings)
    found: list[Run] = []
    run: Run | None = None
    for minute, seen in _by_minute(sightings):
        told: dict[str, set[int]] = defaultdict(set)
        for one in seen:
            told[one.neighbour].add(clusters[one.neighbour, one.bucket])
        if any(len(numbers) > 1 for numbers in told.values()):
            run = None
            continue
        now = {neighbour: number for neighbour, (number,) in told.items()}
        if run is None or any(run.clusters.get(name, number) != number for name, number in now.items()):
            run = Run(minute, minute)
            found.append(run)
        run.clusters |= now
        run.take(minute, seen)
    return found


def _clusters(sightings: Iterable[Sighting]) -> dict[tuple[str, int], int]:
    """Buckets of a neighbour that lie side by side have one number."""
    buckets: dict[str, set[int]] = defaultdict(set)
    for one in sightings:
        buckets[one.neighbour].add(one.bucket)
    found = {}
    for neighbour, numbers in buckets.items():
        before = cluster = min(numbers)
        for bucket in sorted(numbers):
            cluster = cluster if bucket - before <= 1 else bucket
            found[neighbour, bucket] = cluster
            before = bucket
    return found


def epochs(sightings: Sequence[Sighting], ahead_us: Mapping[str, float]) -> list[Epoch]:
    """The stretches of a clock between its jumps; none beyond STRETCHES_MAX.

    `ahead_us`: the neighbours whose clocks are known.
    """
    stretches = _stretches([one for one in sightings if one.neighbour in ahead_us], ahead_us)
    told = [[ahead_us[name] + run.ahead_us(name) for name in run.fastest] for run in stretches]
    values = [median(each) for each in told]
    jump_us = max(values, default=0.0) - min(values, default=0.0)
    ends = len(stretches) - 1
    found = [
        Epoch(
            run.first * MINUTE_US if number else -FOREVER_US,
            (run.last + 1) * MINUTE_US if number < ends else FOREVER_US,
            value,
            # set by less than tells a stretch from the next, it was seen before or after by its neighbours
            max(run.doubt_us, *(abs(value - each) for each in told[number])),
        )
        for number, (run, value) in enumerate(zip(stretches, values, strict=True))
        # shorter ones may be of times that came twice, before and after the clock was set back
        if number in (0, ends) or (run.last + 1 - run.first) * MINUTE_US > jump_us
    ]
    return found if len(found) <= STRETCHES_MAX else []


def _stretches(sightings: Sequence[Sighting], ahead_us: Mapping[str, float]) -> list[Run]:
    found: list[Run] = []
    before: float | None = None
    for minute, seen in _by_minute(sightings):
        told = [ahead_us[one.neighbour] + (one.there_us - one.back_us) / 2 for one in seen]
        if max(told) - min(told) >= 2 * BUCKET_US:
            before = None
            continue
        now = median(told)
        if before is None or abs(now - before) >= 2 * BUCKET_US:
            found.append(Run(minute, minute))
        before = now
        found[-1].take(minute, seen)
    return found


def _by_minute(sightings: Iterable[Sighting]) -> list[tuple[int, list[Sighting]]]:
    found: dict[int, list[Sighting]] = defaultdict(list)
    for one in sightings:
        found[one.minute].append(one)
    return sorted(found.items())
