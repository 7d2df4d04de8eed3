"""The scenario of a seed.

All of it is drawn before the run begins, so that it can be shown, and does not depend on the run.
"""

import math
import random
from itertools import pairwise
from typing import Final

import msgspec

from routing.message import DeliveryMode
from tests.sim.scenario import (
    CIRCLE_SITES,
    LONG_S,
    QUEUE_MESSAGES_MAX,
    SITES_MAX,
    TOPICS,
    WHEN_LOST,
    WHEN_QUIET,
    FaultKind,
    Link,
    PlannedFault,
    PlannedPublication,
    PlannedReader,
    Scenario,
    ScenarioProfile,
    Shape,
)

FAULTS_MIN: Final = 20
LOSSES_MAX: Final = 2
CIRCLES: Final = 0.75
"""Share of the seeds of the profile `ways` that have many sites and circles."""

LEAVING: Final = 0.6
"""Share of the subscriptions of mode ONE alone that are left."""

EARLIER: Final = (0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 1.0)
"""How many of the sites know no destinations, as those of an earlier version; one of these, for each seed."""

REMOVED_WITHIN_S: Final = 50.0
"""One message in a hundred thousand would be removed after all has been judged."""

LAST: Final = 3
"""So many messages are published when all is quiet, of each seed of the profile `ways`."""

WHILE_LOST: Final = 8
"""So many messages are published `WHEN_LOST`; and so many as each loss happens, before all know of it."""

SPREADS_S: Final = 3.0
"""As long as news of a loss is on its way, or has to wait for its turn."""

SOLE: Final = "sole"
"""A topic that one subscription takes, besides patterns: what is for it goes far."""

SHAPES: Final[list[Shape]] = ["tree", "ring", "clique", "bridged cliques"]
SHAPES_OF_CIRCLES: Final[list[Shape]] = ["ring", "bridged cliques", "random", "random"]


def draw(seed: int, *, sites_max: int = SITES_MAX, profile: ScenarioProfile = "all") -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(f"scenario {seed}")
    of_ways = random.Random(f"ways {seed}")
    count, shape = _site_count(chance), chance.choice(SHAPES)
    if count > 6 and shape == "clique":
        shape = "bridged cliques"
    if profile != "all" and of_ways.random() < CIRCLES:
        count = min(of_ways.randint(*CIRCLE_SITES), of_ways.randint(*CIRCLE_SITES))  # most are small ones
        shape = of_ways.choice(SHAPES_OF_CIRCLES)
    count = min(count, sites_max)
    sites = [f"s{number:02}" for number in range(count)]
    pairs = _pairs(shape, sites, chance)
    shuffled = sites[:]
    chance.shuffle(shuffled)  # or the site that decides over a link would always be the nearer to the root
    renamed = dict(zip(sites, shuffled, strict=True))
    loss = chance.choice([0.0, 0.0, 0.01, 0.05])
    floods = chance.random() < 0.1
    links = [
        Link(
            min(renamed[a], renamed[b]),
            max(renamed[a], renamed[b]),
            chance.choice([0.001, 0.01, 0.05]),
            chance.random() * 0.05,
            loss,
            floods,
        )
        for a, b in pairs
    ]
    lasts_s = chance.uniform(25.0, 60.0)
    topics = TOPICS[: chance.randint(1, len(TOPICS))]
    readers = _readers(chance, sites, topics, lasts_s)
    if (of_patterns := random.Random(f"patterns {seed}")).random() < 0.5:
        readers = [_perhaps_of_pattern(of_patterns, reader) for reader in readers]
    of_leaving = random.Random(f"leaving {seed}")
    readers = [_perhaps_leaving(of_leaving, reader, lasts_s) for reader in readers]
    publications = _publications(chance, sites, topics, lasts_s)
    if (of_groups := random.Random(f"groups {seed}")).random() < 0.5:
        publications = [_perhaps_of_group(of_groups, publication) for publication in publications]
    if profile != "all":
        publications += _last(random.Random(f"last {seed}"), sites, topics)
        readers.append(_sole(random.Random(f"sole {seed}"), sites))
    faults = _faults(chance, sites, links, lasts_s)
    if profile != "all":
        losses = _losses(of_ways, sites, links, lasts_s)
        publications += _while_lost(random.Random(f"while lost {seed}"), sites, topics, losses)
        faults = sorted([*faults, *losses], key=lambda fault: fault.at)
    return Scenario(
        seed=seed,
        shape=shape,
        sites=sites,
        links=links,
        readers=readers,
        publications=publications,
        faults=faults,
        lasts_s=lasts_s,
        max_deliveries=chance.choice([16, 16, 16, 3]),
        queue_messages_max=chance.randint(3, 12) if chance.random() < 0.15 else QUEUE_MESSAGES_MAX,
        starts_again=chance.random() < 0.3,
        name_destinations=_naming(random.Random(f"earlier {seed}"), sites),
        take_wants_from_news=_naming(random.Random(f"wants {seed}"), sites),
        tell_attached=_naming(random.Random(f"attached {seed}"), sites),
        window_units_max=chance.choice([4_096, 4_096, 4_096, 2]),
    )


def _naming(chance: random.Random, sites: list[str]) -> frozenset[str]:
    share = chance.choice(EARLIER)
    return frozenset(site for site in sites if chance.random() >= share)


def _site_count(chance: random.Random) -> int:
    size = chance.random()
    if size < 0.85:
        return chance.randint(2, 5)
    if size < 0.98:
        return chance.randint(6, 9)
    return chance.randint(10, 50)


def _pairs(shape: Shape, sites: list[str], chance: random.Random) -> list[tuple[str, str]]:
    if shape in ("tree", "random"):
        tree = [(sites[chance.randrange(n)], sites[n]) for n in range(1, len(sites))]
        more = [pair for pair in _clique(sites) if pair not in tree] if shape == "random" else []
        return tree + chance.sample(more, min(len(more), len(sites) // 2 + 1))
    if shape == "ring":
        around = zip(sites, sites[1:] + sites[:1], strict=True)
        return list(around) if len(sites) > 2 else [(sites[0], sites[1])]
    if shape == "clique":
        return _clique(sites)
    size = 4 if len(sites) > 8 else max(len(sites) // 2, 1)
    cliques = [sites[start : start + size] for start in range(0, len(sites), size)]
    bridges = [(chance.choice(one), chance.choice(other)) for one, other in pairwise(cliques)]
    return [pair for clique in cliques for pair in _clique(clique)] + bridges


def _clique(sites: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for n, a in enumerate(sites) for b in sites[n + 1 :]]


def _readers(
    chance: random.Random, sites: list[str], topics: list[str], lasts_s: float
) -> list[PlannedReader]:
    count = max(2, min(len(sites), 12) * chance.randint(1, 2))
    return [
        PlannedReader(
            site=chance.choice(sites),
            channel=f"r{number}",
            topic=chance.choice(topics),
            accepts=chance.choice(["BOTH", "BOTH", "ALL", "ONE"]),
            credit=chance.choice([1, 3, 100]),
            lock_s=chance.choice([5.0, 20.0]),
            begins_at=0.0 if chance.random() < 0.75 else chance.uniform(0.0, lasts_s / 2),
            ends_at=None if chance.random() < 0.8 else chance.uniform(lasts_s / 2, lasts_s),
            think_s=chance.choice([0.0, 0.1, 2.0]),
            careless=chance.choice([0.0, 0.0, 0.1, 0.4]),
            acknowledges_all=chance.random() < 0.5,
        )
        for number in range(count)
    ]


def _perhaps_of_pattern(chance: random.Random, reader: PlannedReader) -> PlannedReader:
    pattern = chance.choice(["#", "a.#", "a.*", "*", reader.topic, reader.topic])
    return msgspec.structs.replace(reader, topic=pattern)


def _perhaps_leaving(chance: random.Random, reader: PlannedReader, lasts_s: float) -> PlannedReader:
    """Some whose subscription takes mode ONE alone: what is for it goes to others, or waits for them."""
    leaves, leaves_at = chance.random() < LEAVING, chance.uniform(0.0, lasts_s)
    if not leaves or reader.accepts != "ONE" or reader.ends_at is not None:
        return reader
    return msgspec.structs.replace(reader, leaves_at=max(leaves_at, reader.begins_at))


def _removed_after_s(chance: random.Random) -> float:
    return min(chance.expovariate(1 / 10.0), REMOVED_WITHIN_S)


def _perhaps_of_group(chance: random.Random, publication: PlannedPublication) -> PlannedPublication:
    group, ends_group = chance.choice([None, "x", "x", "y"]), chance.random() < 0.1
    return msgspec.structs.replace(publication, group=group, ends_group=ends_group)


def _publications(
    chance: random.Random, sites: list[str], topics: list[str], lasts_s: float
) -> list[PlannedPublication]:
    out = []
    radius = min(len(sites), 8)
    for number in range(chance.randint(15, 50)):
        at = chance.uniform(0.0, lasts_s)
        timeout_s = chance.choice([None, None, None, chance.uniform(1.0, 30.0), LONG_S, math.inf])
        mode: DeliveryMode = chance.choice(["ALL", "ALL", "ONE"])
        guarantee = chance.random() < 0.9
        may_be_removed = mode == "ONE" or timeout_s in (math.inf, LONG_S)
        removed = may_be_removed and chance.random() < (0.5 if mode == "ALL" else 0.2)
        out.append(
            PlannedPublication(
                key=f"m{number}",
                site=chance.choice(sites),
                at=at,
                topic=chance.choice(topics),
                mode=mode,
                depth=chance.choice([-1, -1, chance.randint(0, radius), chance.randint(0, radius)]),
                timeout_s=timeout_s,
                receipt=chance.choice(["NONE", "ONE", "ALL", "ALL"]),
                guarantee=guarantee,
                priority=chance.choice([0, 0, 3, 9]),
                size=chance.choice([10, 100, 1_000, 40_000]) if chance.random() < 0.3 else 20,
                removed_at=at + _removed_after_s(chance) if removed and guarantee else None,
                reply=chance.random() < 0.2,
            )
        )
    return sorted(out, key=lambda publication: publication.at)


def _last(chance: random.Random, sites: list[str], topics: list[str]) -> list[PlannedPublication]:
    return [
        PlannedPublication(
            key=f"last{number}",
            site=chance.choice(sites),
            at=WHEN_QUIET,
            topic=chance.choice(topics),
            mode="ALL",
            depth=chance.choice([-1, chance.randint(1, 8)]),
            timeout_s=None,
            receipt="ALL",
            guarantee=True,
            priority=0,
            size=20,
            removed_at=None,
            reply=False,
        )
        for number in range(LAST)
    ]


def _sole(chance: random.Random, sites: list[str]) -> PlannedReader:
    return PlannedReader(
        site=chance.choice(sites),
        channel=SOLE,
        topic=SOLE,
        accepts="BOTH",
        credit=100,
        lock_s=20.0,
        begins_at=0.0,
        ends_at=None,
        think_s=0.0,
        careless=0.0,
        acknowledges_all=False,
    )


def _while_lost(
    chance: random.Random, sites: list[str], topics: list[str], losses: list[PlannedFault]
) -> list[PlannedPublication]:
    """Most are of mode ONE, or bring a reply: these have one owner, and wait or go round what is lost."""
    times = [loss.at + chance.uniform(0.0, SPREADS_S) for loss in losses for _ in range(WHILE_LOST)]
    times += [WHEN_LOST] * (WHILE_LOST if losses else 0)
    return [
        PlannedPublication(
            key=f"lost{number}",
            site=chance.choice(sites),
            at=at,
            topic=chance.choice([*topics, SOLE, SOLE]),
            mode=chance.choice(["ALL", "ONE", "ONE", "ONE"]),
            depth=chance.choice([-1, -1, chance.randint(1, 8)]),
            timeout_s=None,
            receipt="NONE",
            guarantee=True,
            priority=0,
            size=20,
            removed_at=None,
            reply=chance.random() < 0.5,
        )
        for number, at in enumerate(times)
    ]


def _faults(chance: random.Random, sites: list[str], links: list[Link], lasts_s: float) -> list[PlannedFault]:
    kinds: list[FaultKind] = [
        *("cut", "cut", "partition", "partition", "one way", "isolate", "kill", "kill", "restart"),
        *("store fails", "slow disk", "wall clock", "lossy", "client"),
    ]
    if chance.random() < 0.5:
        kinds += ["power", "power"]
    if chance.random() < 0.2:
        kinds += ["hop log fails"]
    out = []
    for _ in range(chance.randint(FAULTS_MIN, 2 * FAULTS_MIN)):
        kind = chance.choice(kinds)
        link = chance.choice(links)
        a, b = chance.choice([(link.a, link.b), (link.b, link.a)])
        if kind in ("kill", "power", "restart", "store fails", "slow disk", "wall clock", "client"):
            a = chance.choice(sites)
        amount = float(chance.randint(0, 30))
        if kind == "wall clock":
            amount = chance.choice([-3600.0, -5.0, 0.5, 60.0, 3600.0])
        out.append(
            PlannedFault(chance.uniform(0.0, lasts_s), kind, a, b, min(chance.expovariate(0.2), 40.0), amount)
        )
    return sorted(out, key=lambda fault: fault.at)


def _losses(chance: random.Random, sites: list[str], links: list[Link], lasts_s: float) -> list[PlannedFault]:
    out = []
    for _ in range(chance.randint(0, LOSSES_MAX)):
        link, at = chance.choice(links), chance.uniform(0.0, lasts_s)
        if chance.random() < 0.5:
            out.append(PlannedFault(at, "dies", chance.choice(sites), "", math.inf, 0.0))
        else:
            out.append(PlannedFault(at, "blackhole", link.a, link.b, math.inf, 0.0))
    return out
