"""What a run is of: a graph of sites, who subscribes, what is published, and what goes wrong when."""

import math
from collections import deque
from collections.abc import Collection
from typing import Final, Literal

import msgspec

from routing.message import DeliveryMode, ReceiptMode
from routing.options import Accepts
from tests.support.wishes import takes

CIRCLE_SITES: Final = (8, 20)
"""So many sites a run has that has many, and circles."""

TOPICS: Final = ["a", "a.b", "c"]
SITES_MAX: Final = 50
QUEUE_MESSAGES_MAX: Final = 1_000_000
LONG_S: Final = 1e6
"""A timeout that no run lives to see."""

WHEN_QUIET: Final = math.inf
"""When a message is published that is to meet no fault: all is healed, and nothing happens any more."""

WHEN_LOST: Final = 1e9
"""When a message is published for which some ways are lost for good, as the sites beside them know."""

ScenarioProfile = Literal["all", "ways"]
"""`ways`: most have many sites and circles, and lose some of them for good."""

Shape = Literal["tree", "ring", "clique", "bridged cliques", "random"]
FaultKind = Literal[
    "cut",  # the connections of a link break
    "partition",  # a link carries nothing for a while
    "one way",  # likewise in one direction
    "isolate",  # all links of a site
    "kill",  # SIGKILL of a site
    "power",  # its machine loses power, and what was not synced
    "restart",  # a site is stopped in order
    "store fails",  # its disk fails at the n-th call, and some more
    "slow disk",
    "hop log fails",
    "wall clock",  # its wall clock is set
    "lossy",  # a link loses much of what it carries
    "client",  # the clients of a site lose their connections
    "dies",  # a site is killed, and not started again before all is healed
    "blackhole",  # a link carries nothing until then
]


class Link(msgspec.Struct, frozen=True):
    """Two sites that are peers; `flood` as in the configuration of a peer."""

    a: str
    b: str
    delay_s: float
    jitter_s: float
    loss: float
    flood: bool


class PlannedReader(msgspec.Struct, frozen=True):
    """A durable subscription, and how its client behaves.

    Attributes:
        topic: or a pattern.
        begins_at: seconds after publishing has begun; 0 for one that is there before.
        ends_at: when it is ended by UNSUBSCRIBE; None for never.
        think_s: longest time with a message.
        careless: share of messages that are given back, forgotten, or held until their lock ends.
        acknowledges_all: unguaranteed messages, too, are with it until it commits them.
        leaves_at: when its client is gone for good, and the subscription stays; None for never. It is one of
            mode ONE alone.
    """

    site: str
    channel: str
    topic: str
    accepts: Accepts
    credit: int
    lock_s: float
    begins_at: float
    ends_at: float | None
    think_s: float
    careless: float
    acknowledges_all: bool
    leaves_at: float | None = None

    @property
    def key(self) -> str:
        """Names it in the trace."""
        return f"{self.channel}@{self.site}"

    def takes(self, publication: "PlannedPublication") -> bool:
        """Whether a message is of its topic, or of one of its pattern."""
        return takes(self.topic, publication.topic)


class PlannedPublication(msgspec.Struct, frozen=True):
    """A message, and when and where it is published.

    Attributes:
        key: its Cmuid.
        at: seconds after publishing has begun; or `WHEN_QUIET`.
        removed_at: when its publisher asks to REMOVE it; None for never.
        reply: who reads it replies to its publisher.
        group: None for none.
        ends_group: it is the last one of that.
    """

    key: str
    site: str
    at: float
    topic: str
    mode: DeliveryMode
    depth: int
    timeout_s: float | None
    receipt: ReceiptMode
    guarantee: bool
    priority: int
    size: int
    removed_at: float | None
    reply: bool
    group: str | None = None
    ends_group: bool = False

    def reaches(self, distance: int | None) -> bool:
        """Whether its depth suffices for so many links; None where there are none."""
        return distance is not None and (self.depth == -1 or distance <= self.depth)


class PlannedFault(msgspec.Struct, frozen=True):
    """Something goes wrong at `a` (and `b`, of a link) for a while; `amount` depends on the kind."""

    at: float
    kind: FaultKind
    a: str
    b: str
    for_s: float
    amount: float


class Scenario(msgspec.Struct, frozen=True):
    """A whole run.

    Attributes:
        max_deliveries, queue_messages_max, window_units_max: settings of all sites; the bound of queues is
            lifted in the end.
        starts_again: once all is quiet all sites are killed, and judged after they have started again.
        name_destinations: sites that do.
        take_wants_from_news: sites that do; others are told by their peers of all that is wanted.
        tell_attached: sites that say in news to what somebody is attached.
    """

    seed: int
    shape: Shape
    sites: list[str]
    links: list[Link]
    readers: list[PlannedReader]
    publications: list[PlannedPublication]
    faults: list[PlannedFault]
    lasts_s: float
    max_deliveries: int
    queue_messages_max: int
    window_units_max: int
    starts_again: bool
    name_destinations: frozenset[str]
    take_wants_from_news: frozenset[str]
    tell_attached: frozenset[str]

    @property
    def has_circles(self) -> bool:
        """Whether it has many sites, and some that can be reached in more ways than one."""
        fewest, most = CIRCLE_SITES
        return fewest <= len(self.sites) <= most and len(self.links) >= len(self.sites)

    @property
    def losses(self) -> list[PlannedFault]:
        """What is lost for good."""
        return [fault for fault in self.faults if fault.kind in ("dies", "blackhole")]

    def distances(self, origin: str, *, without: Collection[str | tuple[str, str]] = ()) -> dict[str, int]:
        """Links from a site to each other one that can be reached, without these sites and links."""
        neighbours: dict[str, list[str]] = {site: [] for site in self.sites}
        for link in self.links:
            if not {link.a, link.b, (link.a, link.b)}.intersection(without):
                neighbours[link.a].append(link.b)
                neighbours[link.b].append(link.a)
        found = {origin: 0}
        edge = deque([origin])
        while edge:
            site = edge.popleft()
            for other in neighbours[site]:
                if other not in found:
                    found[other] = found[site] + 1
                    edge.append(other)
        return found
