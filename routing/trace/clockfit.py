"""From the fastest hops between pairs of servers to a line for each server's clock, in plain Python.

For a link with least times *there* and *back*, (there - back) / 2 is how far the receiver's clock is ahead of
the sender's, and (there + back) / 2 the one-way time, which bounds the error. Least squares over the graph
spreads the disagreement; links that disagree much count little (Huber). Only differences of clocks can be
known, so the median of the clocks of a connected federation is taken as right.

A clock that jumps within a window makes *there* come from one side of the jump and *back* from the other:
their sum is negative, which no network can do. Such links are left out of that window.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations, pairwise
from statistics import median
from typing import Final

from routing.trace.epochs import BUCKET_US, FOREVER_US

WINDOW_US: Final = 3_600_000_000

ROUND_TRIP_US_MIN: Final = 200.0
"""A faster round trip weighs no more than this: then the clock's own grain is the error."""

NEGATIVE_US: Final = -2_000
"""A round trip may look this negative by drift within a window; beyond it, a clock has jumped."""

NEGATIVE_ROUGH_US: Final = -60_000_000

JUMP_ROUGH_US: Final = 200_000.0
"""Before drift is removed, an hour's change of less than this may be drift (55 ppm)."""

JUMP_US: Final = 20_000.0

CONTRADICTION_US: Final = 2.0 * BUCKET_US
"""No link that is part of one federation without a clock that was set differs by more from the rest."""

DRIFT_MAX: Final = 1e-3
"""A tenth of this is a broken clock; what seems to drift more was set."""

HUBER_ROUNDS: Final = 4
HUBER: Final = 1.5
POINTS_FOR_DRIFT: Final = 2

POINTS_MAX: Final = 300
"""Of more, as of two weeks of hours, evenly chosen ones tell the drift: all have too many pairs."""

TIES_MAX: Final = 15_000_000
"""Some seconds, in a federation of 450 sites of which each has a link to each other. Logs may name any number
of peers; of those that are tied in more ways no clock is known."""


@dataclass(frozen=True)
class Minimum:
    """The fastest hops of one link in one window; `back_us` None where no acknowledgement tells.

    `window` is None where it is a bucket of `epochs`, and the hops tell of none.
    """

    sender: str
    receiver: str
    window: int | None
    count: int
    there_us: int | None
    back_us: int | None


@dataclass(frozen=True)
class Segment:
    """A stretch without a jump, by the server's own clock: see `clocks.SEGMENTS`.

    Attributes:
        error_us: by so much the links disagree, or half of the fastest round trip where that is more: the two
            ways of it need not be as long.
    """

    from_us: int
    until_us: int
    middle_us: int
    offset_us: float
    drift_ppm: float
    error_us: float

    def error_at(self, clock_us: float) -> float:
        return self.offset_us + self.drift_ppm * (clock_us - self.middle_us) / 1e6


@dataclass(frozen=True)
class FittedClock:
    """The stretches of one clock, in the order of its own time.

    Attributes:
        others: how many clocks it is compared with, be it through those of others.
        is_torn: what its links tell of it lies so far apart that it is held to have been set.
    """

    server: str
    segments: tuple[Segment, ...]
    others: int = 0
    is_torn: bool = False


@dataclass(frozen=True)
class _Link:
    """`b` is `ahead_us` ahead of `a`, give or take `doubt_us`: half of the round trip."""

    a: str
    b: str
    ahead_us: float
    doubt_us: float

    @property
    def weight(self) -> float:
        return 1.0 / max(2 * self.doubt_us, ROUND_TRIP_US_MIN) ** 2


def fit(minima: Iterable[Minimum], base: Sequence[FittedClock] | None = None) -> list[FittedClock]:
    """The clocks, one line for each stretch; servers that no link reaches in both directions are left out.

    Without `base` the minima are of raw times, in one window, and the lines are flat. With it they are what
    is left after `base` was taken off.
    """
    windows: dict[int, list[Minimum]] = defaultdict(list)
    others: dict[str, int] = {}
    for minimum in minima:
        windows[minimum.window or 0].append(minimum)
    if base is None:
        rough: dict[str, tuple[float, float]] = {}
        for found in windows.values():
            links, _ = _links(found, NEGATIVE_ROUGH_US, ())
            rough |= _agreeing(links)
            others |= _others(links)
        return [
            FittedClock(name, (Segment(-FOREVER_US, FOREVER_US, 0, offset, 0.0, error),), others[name])
            for name, (offset, error) in sorted(rough.items())
        ]
    points: dict[tuple[str, Segment], list[_Point]] = defaultdict(list)
    known = {clock.server: clock for clock in base}
    flat = {clock.server for clock in base if any(part.drift_ppm == 0 for part in clock.segments)}
    links_of_all: list[_Link] = []
    for window, found in windows.items():
        links, bad = _links(found, NEGATIVE_US, flat)
        links_of_all += links
        solved = _solve(links)
        bad += [
            link
            for link in links
            if link.a in solved and abs(solved[link.b][0] - solved[link.a][0] - link.ahead_us) > JUMP_ROUGH_US
        ]
        doubtful = _doubtful(links, bad)
        for name in solved.keys() | doubtful:
            left, error = solved.get(name, (0.0, 0.0))
            for part in known[name].segments if name in known else ():
                clock_us = _clock_at(part, (window + 0.5) * WINDOW_US)
                if part.from_us <= clock_us < part.until_us:
                    total = part.error_at(clock_us) + left
                    # the fastest hops of an hour in which it was set may be those of the other stretch
                    doubt_us = max(error, part.error_us) if _was_set_in(known[name], window) else error
                    points[name, part].append(_Point(window, clock_us, total, doubt_us, name in doubtful))
    others = _others(links_of_all)
    is_drift_known: dict[str, bool] = {}
    for names, _ in _components(links_of_all):
        # not by the clocks of other federations, which may be known better
        is_told = not flat.issuperset(known.keys() & set(names))
        is_drift_known |= dict.fromkeys(names, is_told)
    segments: dict[str, list[Segment]] = defaultdict(list)
    for (name, part), series in sorted(points.items(), key=lambda item: (item[0][0], item[0][1].from_us)):
        limit_us = JUMP_US if is_drift_known.get(name, name not in flat) else JUMP_ROUGH_US
        segments[name] += _segments(sorted(series, key=lambda p: p.window), limit_us, part)
    for name, clock in known.items():
        # what is shorter than a window, between jumps, has no point of its own, and no need of a drift
        bare = [part for part in clock.segments if not _has_good(points, name, part)]
        if len(clock.segments) > 1 and bare and not _is_moved(clock, segments[name], others.get(name, 0)):
            segments[name] = sorted([*segments[name], *bare], key=lambda part: part.from_us)
    torn = {clock.server for clock in base if clock.is_torn}
    return [
        FittedClock(name, tuple(found), others.get(name, 0), name in torn)
        for name, found in segments.items()
        if found
    ]


@dataclass(frozen=True)
class _Point:
    window: int
    clock_us: float
    offset_us: float
    error_us: float
    doubtful: bool


def _others(links: Sequence[_Link]) -> dict[str, int]:
    return {name: len(names) - 1 for names, _ in _components(links) for name in names}


def _is_moved(clock: FittedClock, fitted: Sequence[Segment], others: int) -> bool:
    """Whether stretches of a clock were `fitted` to more clocks than it was compared with before, which moved
    them: how far the stretches that were not are ahead of those nobody knows.
    """
    moved_us = (
        abs(line.offset_us - part.error_at(line.middle_us))
        for line in fitted
        for part in clock.segments
        if part.from_us <= line.middle_us < part.until_us
    )
    return others > clock.others and max(moved_us, default=0.0) > JUMP_ROUGH_US


def _has_good(points: Mapping[tuple[str, Segment], Sequence[_Point]], name: str, part: Segment) -> bool:
    return any(not point.doubtful for point in points.get((name, part), ()))


def _was_set_in(clock: FittedClock, window: int) -> bool:
    """Whether more than one stretch of a clock has a share in an hour."""
    shares = [
        part.from_us < _clock_at(part, (window + 1) * WINDOW_US)
        and _clock_at(part, window * WINDOW_US) < part.until_us
        for part in clock.segments
    ]
    return sum(shares) > 1


def _clock_at(part: Segment, reference_us: float) -> float:
    """What the clock shows at this reference time; the drift is so small that one step is exact enough."""
    first = reference_us + part.offset_us
    return reference_us + part.error_at(first)


def _links(
    minima: Iterable[Minimum], negative_us: float, flat: Collection[str]
) -> tuple[list[_Link], list[_Link]]:
    """The links of one window, and apart from these the ones whose round trip is impossible.

    `flat`: servers whose drift is not known yet; their links may look this much more negative.
    """
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for found in minima:
        # Both directions of a link measure both ways: the fastest of each is taken together.
        flipped = found.sender > found.receiver
        pair = (found.receiver, found.sender) if flipped else (found.sender, found.receiver)
        there: float = FOREVER_US if found.there_us is None else found.there_us
        back: float = FOREVER_US if found.back_us is None else found.back_us
        if flipped:
            there, back = back, there
        old = best.get(pair, (FOREVER_US, FOREVER_US))
        best[pair] = (min(old[0], there), min(old[1], back))
    links: list[_Link] = []
    bad: list[_Link] = []
    for (a, b), (there, back) in best.items():
        if there == FOREVER_US or back == FOREVER_US:
            continue
        link = _Link(a, b, (there - back) / 2, abs(there + back) / 2)
        allowed = negative_us - JUMP_ROUGH_US if a in flat or b in flat else negative_us
        (links if there + back >= allowed else bad).append(link)
    return links, bad


def _doubtful(links: Sequence[_Link], bad: Sequence[_Link]) -> set[str]:
    """Of each bad link the end that has more of them for its links: that clock has jumped. Both, if equal."""
    total: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for link in {*links, *bad}:
        total.update((link.a, link.b))
    for link in bad:
        wrong.update((link.a, link.b))
    found = set()
    for link in bad:
        a, b = wrong[link.a] / total[link.a], wrong[link.b] / total[link.b]
        found |= {name for name, share in ((link.a, a), (link.b, b)) if share >= max(a, b)}
    return found


def _agreeing(links: Sequence[_Link]) -> dict[str, tuple[float, float]]:
    """`_solve`, without the federations some of whose clocks were set, and it is not known which."""
    solved = _solve(links)
    contradicted = {
        name
        for link in links
        if link.a in solved and abs(solved[link.b][0] - solved[link.a][0] - link.ahead_us) > CONTRADICTION_US
        for name in (link.a, link.b)
    }
    torn = {name for names, _ in _components(links) if contradicted.intersection(names) for name in names}
    return {name: pair for name, pair in solved.items() if name not in torn}


def _solve(links: Sequence[_Link]) -> dict[str, tuple[float, float]]:
    """For each server how far its clock is ahead, and the error of that: see `Segment`.

    Without the federations that `_least_squares` leaves out.
    """
    answer: dict[str, tuple[float, float]] = {}
    for names, part in _components(links):
        offsets, off = _huber(names, part)
        if not offsets:
            continue
        near: dict[str, list[float]] = defaultdict(list)
        doubt_us: dict[str, float] = defaultdict(lambda: float(FOREVER_US))
        for link, by in zip(part, off, strict=True):
            for name in (link.a, link.b):
                near[name].append(by)
                doubt_us[name] = min(doubt_us[name], link.doubt_us)
        middle = median(offsets.values())
        answer |= {name: (offsets[name] - middle, max(median(near[name]), doubt_us[name])) for name in names}
    return answer


def _huber(names: Sequence[str], part: Sequence[_Link]) -> tuple[dict[str, float], list[float]]:
    """How far each clock is ahead, and how much each link disagrees; empty where it is not known."""
    weights = [link.weight for link in part]
    offsets: dict[str, float] = {}
    off: list[float] = []
    for _ in range(HUBER_ROUNDS):
        offsets = _least_squares(names, part, weights)
        if not offsets:
            return {}, []
        off = [abs(offsets[link.b] - offsets[link.a] - link.ahead_us) for link in part]
        scale = max(1.4826 * median(off), 1.0)
        weights = [
            link.weight * min(1.0, HUBER * scale / max(by, 1e-9)) for link, by in zip(part, off, strict=True)
        ]
    return offsets, off


def _components(links: Sequence[_Link]) -> list[tuple[list[str], list[_Link]]]:
    neighbours: dict[str, list[_Link]] = defaultdict(list)
    for link in links:
        neighbours[link.a].append(link)
        neighbours[link.b].append(link)
    part_of: dict[str, int] = {}
    found: list[tuple[list[str], list[_Link]]] = []
    for start in sorted(neighbours):
        if start in part_of:
            continue
        number = part_of[start] = len(found)
        names, queue = [], [start]
        while queue:
            name = queue.pop()
            names.append(name)
            for link in neighbours[name]:
                other = link.b if link.a == name else link.a
                if other not in part_of:
                    part_of[other] = number
                    queue.append(other)
        found.append((names, []))
    for link in links:
        found[part_of[link.a]][1].append(link)
    return found


def _least_squares(
    names: Sequence[str], links: Sequence[_Link], weights: Sequence[float]
) -> dict[str, float]:
    """Minimise sum of w (x_b - x_a - ahead)^2 with one server at 0; empty beyond `TIES_MAX`.

    Servers are eliminated one by one, which ties the neighbours of each to each other: first those with the
    fewest, so that a tree stays one. Weights are only added and divided, which loses nothing.
    """
    top = max(weights)
    near: dict[str, dict[str, float]] = {name: {} for name in names}
    right = dict.fromkeys(names, 0.0)
    for link, raw in zip(links, weights, strict=True):
        weight = raw / top + 1e-12
        near[link.a][link.b] = near[link.b][link.a] = weight
        right[link.a] -= weight * link.ahead_us
        right[link.b] += weight * link.ahead_us
    waiting = [(len(others), name) for name, others in near.items()]
    heapify(waiting)
    eliminated: list[tuple[str, dict[str, float], float]] = []
    ties = 0
    while waiting:
        count, name = heappop(waiting)
        if name not in near or count != len(near[name]):
            continue
        ties += count * (count - 1) // 2
        if ties > TIES_MAX:
            return {}
        others = near.pop(name)
        total = sum(others.values())
        eliminated.append((name, others, total))
        for other, weight in others.items():
            del near[other][name]
            right[other] += weight / total * right[name]
        for (a, of_a), (b, of_b) in combinations(others.items(), 2):
            near[a][b] = near[b][a] = near[a].get(b, 0.0) + of_a * of_b / total
        for other in others:
            heappush(waiting, (len(near[other]), other))
    found: dict[str, float] = {}
    for name, others, total in reversed(eliminated):
        drawn = right[name] + sum(weight * found[other] for other, weight in others.items())
        found[name] = drawn / total if others else 0.0
    return found


def _segments(points: Sequence[_Point], limit_us: float, bounds: Segment) -> list[Segment]:
    """Cut the series where it jumps, and draw a line through each part.

    When within two windows a clock has jumped is not known, so neither of them belongs to a part, and a part
    ends before a doubtful window at the end of the series.
    """
    good = [point for point in points if not point.doubtful]
    if not good:
        return []
    slopes = [(b.offset_us - a.offset_us) / (b.clock_us - a.clock_us) for a, b in pairwise(good)]
    usual = median(slopes) if slopes else 0.0
    groups: list[list[_Point]] = [[good[0]]]
    for a, b in pairwise(good):
        if abs(b.offset_us - a.offset_us - usual * (b.clock_us - a.clock_us)) > limit_us:
            groups.append([])
        groups[-1].append(b)
    found = []
    for number, group in enumerate(groups):
        opens, closes = number == 0, number == len(groups) - 1
        part = group[0 if opens else 1 : len(group) if closes else -1]
        if not part:
            continue
        middle = round(median(p.clock_us for p in part))
        drift = _drift(part)
        if abs(drift) > DRIFT_MAX:
            continue
        offset = median(p.offset_us - drift * (p.clock_us - middle) for p in part)
        line = Segment(0, 0, middle, offset, drift * 1e6, median(p.error_us for p in part))
        first, last = bounds.from_us, bounds.until_us
        if not (opens and part[0] is points[0]):
            first = max(first, round(_clock_at(line, part[0].window * WINDOW_US)))
        if not (closes and part[-1] is points[-1]):
            last = min(last, round(_clock_at(line, (part[-1].window + 1) * WINDOW_US)))
        found.append(Segment(first, last, middle, offset, line.drift_ppm, line.error_us))
    return found


def _drift(points: Sequence[_Point]) -> float:
    """The median slope between all pairs (Theil and Sen): a bad window does not turn the line."""
    if len(points) < POINTS_FOR_DRIFT:
        return 0.0
    chosen = points[:: -(-len(points) // POINTS_MAX)]
    return median((b.offset_us - a.offset_us) / (b.clock_us - a.clock_us) for a, b in combinations(chosen, 2))
