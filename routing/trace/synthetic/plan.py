"""What is to be made: the sizes, the misfortunes, and the federation that follows from the seed.

Times are true time in microseconds; only what a site writes goes through its clock.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One synthetic federation and its day; shares and chances are 0 to 1.

    Attributes:
        start_us: true time of the first message, UTC microseconds.
        links_per_site: on average; the graph is connected.
        area: sites that have to do with one topic, at most.
        loss, ack_loss: chance that a forward or its acknowledgement vanishes and the copy is sent again.
        loop: chance that a server sends a copy to a peer that is in its Hops.
        one, receipt, unguaranteed, held: share of the messages with that property.
        offset_ms, drift_ppm: clocks are off by up to this much either way.
        day_off: sites whose clock is off by up to a day.
        jumps: sites whose clock jumps, once, by up to ten seconds.
        absent: sites whose log is missing altogether.
        missing: chance that a record is missing from a log.
        repeated: chance that a line stands twice.
        boots: restarts of each site.
        faults: how many messages each are lost, given two custodians, answered with a wrong receipt, or sent
            too deep; and how many links go bad half-way, as far as there are so many.
    """

    sites: int = 10
    messages: int = 1000
    seed: int = 1
    start_us: int = 1_763_719_200_000_000
    duration_s: int = 6 * 3600
    links_per_site: float = 2.8
    topics: int = 40
    area: int = 12
    loss: float = 0.03
    ack_loss: float = 0.02
    loop: float = 0.005
    one: float = 0.2
    receipt: float = 0.2
    unguaranteed: float = 0.05
    held: float = 0.01
    offset_ms: float = 250.0
    drift_ppm: float = 8.0
    day_off: int = 0
    jumps: int = 0
    absent: int = 0
    missing: float = 0.0
    repeated: float = 0.0
    boots: int = 1
    faults: int = 0


@dataclass
class PlannedClock:
    """What a site's clock shows: true time + offset + drift since the start + the jump once it has come."""

    offset_us: int = 0
    drift: float = 0.0
    start_us: int = 0
    jump_at_us: int = 1 << 62
    jump_us: int = 0

    def read(self, true_us: int) -> int:
        shown = true_us + self.offset_us + int(self.drift * (true_us - self.start_us))
        return shown + self.jump_us if true_us >= self.jump_at_us else shown


@dataclass
class PlannedSite:
    name: str
    clock: PlannedClock
    boots_at_us: list[int]
    absent: bool = False
    counter: int = 0

    def boot(self, true_us: int) -> int:
        return 1 + bisect_right(self.boots_at_us, true_us)


@dataclass
class PlannedTopic:
    """A topic, the part of the federation that its messages go to, and who subscribes where."""

    name: str
    area: list[int]
    subscribers: dict[int, int]
    toward: dict[int, int] = field(default_factory=dict)
    """For each site of the area without a subscriber, the peer that is nearest to one."""


@dataclass
class PlannedFederation:
    plan: Plan
    sites: list[PlannedSite]
    peers: list[list[int]]
    delay_us: dict[tuple[int, int], int]
    bad_from_us: dict[tuple[int, int], int]
    topics: list[PlannedTopic]
    rng: random.Random

    @classmethod
    def grown(cls, plan: Plan) -> "PlannedFederation":
        """The federation of this plan; the same plan gives the same one."""
        rng = random.Random(plan.seed)
        end_us = plan.start_us + plan.duration_s * 1_000_000
        sites = [_site(number, plan, rng, end_us) for number in range(plan.sites)]
        order = list(range(plan.sites))
        rng.shuffle(order)
        for position, number in enumerate(order):
            clock, site = sites[number].clock, sites[number]
            if position < plan.day_off:
                clock.offset_us = rng.choice((-1, 1)) * rng.randrange(60_000_000, 86_000_000_000)
            elif position < plan.day_off + plan.jumps:
                clock.jump_at_us = rng.randrange(plan.start_us, end_us)
                clock.jump_us = rng.choice((-1, 1)) * rng.randrange(1_000_000, 10_000_000)
            site.absent = position >= plan.sites - plan.absent
        peers = _graph(plan, rng)
        delay = {}
        for a, near in enumerate(peers):
            for b in near:
                delay[a, b] = rng.randrange(500, 40_000) if a < b else 0
        for a, b in list(delay):
            if a > b:
                # The two directions of a link differ by a little, as on a real network.
                delay[a, b] = int(delay[b, a] * rng.uniform(0.99, 1.01))
        links = sorted(delay)
        half_way_us = plan.start_us + plan.duration_s * 500_000
        bad = dict.fromkeys(rng.sample(links, min(plan.faults, len(links))), half_way_us)
        topics = [_topic(number, plan, peers, rng) for number in range(plan.topics)]
        return cls(plan, sites, peers, delay, bad, topics, rng)


def _site(number: int, plan: Plan, rng: random.Random, end_us: int) -> PlannedSite:
    clock = PlannedClock(
        offset_us=int(rng.uniform(-plan.offset_ms, plan.offset_ms) * 1000),
        drift=rng.uniform(-plan.drift_ppm, plan.drift_ppm) / 1e6,
        start_us=plan.start_us,
    )
    boots = sorted(rng.randrange(plan.start_us, end_us) for _ in range(plan.boots))
    return PlannedSite(f"site{number}.example", clock, boots)


def _graph(plan: Plan, rng: random.Random) -> list[list[int]]:
    peers: list[set[int]] = [set() for _ in range(plan.sites)]

    def join(a: int, b: int) -> None:
        peers[a].add(b)
        peers[b].add(a)

    order = list(range(plan.sites))
    rng.shuffle(order)
    for position in range(1, plan.sites):
        join(order[position], order[rng.randrange(position)])
    for _ in range(max(0, int(plan.sites * (plan.links_per_site - 1)))):
        a, b = rng.randrange(plan.sites), rng.randrange(plan.sites)
        if a != b:
            join(a, b)
    return [sorted(near) for near in peers]


def _topic(number: int, plan: Plan, peers: list[list[int]], rng: random.Random) -> PlannedTopic:
    area = [rng.randrange(plan.sites)]
    edge = list(peers[area[0]])
    while edge and len(area) < min(plan.area, plan.sites):
        site = edge.pop(rng.randrange(len(edge)))
        if site not in area:
            area.append(site)
            edge += peers[site]
    listening = rng.sample(area, max(1, len(area) // 2))
    topic = PlannedTopic(
        f"plant{number % 7}.line{number}.state", area, {s: rng.randrange(1, 4) for s in listening}
    )
    reached, ring = set(listening), listening
    while ring:
        following = []
        for site in ring:
            for peer in peers[site]:
                if peer in area and peer not in reached:
                    reached.add(peer)
                    topic.toward[peer] = site
                    following.append(peer)
        ring = following
    return topic
