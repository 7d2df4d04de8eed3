"""How much goes through a topic: counted as it happens.

Counts begin at a start of the site, or once something is known of the topic. What is counted is a field of
`Traffic`, with the words for it: commands, pages and metrics tell of each that is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Final, get_type_hints

import msgspec


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """How one is told of; in JSON, and as the event of a metric, it has its name.

    Attributes:
        title: people read it before the number, in a list.
        words: people read them behind the number, in a line.
        of_topics: what it counts, for the metric that each topic has of it; "" for what is told of the whole
            site alone.
        in_status: the line of `smqpd status` has it, too.
    """

    title: str
    words: str
    of_topics: str = ""
    in_status: bool = True


@dataclass(slots=True, init=False, eq=False)
class Traffic:
    """Of one topic, or of all that have been forgotten: those are written by the router alone.

    No msgspec Struct: the counts rise with every message, and those of one would take twice as long for it.

    Attributes:
        came: from clients and from peers.
        committed: finished by a subscription.
        expired, removed, dropped: copies that ended so.
        unwanted: copies that ended before their timeout, due to nobody, or to nobody any more: as those of
            mode ALL do to which nobody subscribes here or elsewhere, which others call unrouted.
        dead: once for each subscription that could not take it.
    """

    came: Annotated[
        int,
        Counter(title="Came", words="came", of_topics="Messages that came to a topic."),
    ]
    delivered: Annotated[
        int,
        Counter(
            title="Handed out",
            words="handed out",
            of_topics="Messages of a topic that were handed to a subscription, each time.",
        ),
    ]
    committed: Annotated[int, Counter(title="Finished", words="finished")]
    expired: Annotated[
        int,
        Counter(title="Expired", words="expired", of_topics="Messages of a topic whose time ended."),
    ]
    unwanted: Annotated[
        int,
        Counter(
            title="Wanted by nobody",
            words="wanted by nobody",
            of_topics="Messages of a topic that ended as nobody was to have them, or nobody any more.",
        ),
    ]
    removed: Annotated[int, Counter(title="Removed", words="removed", in_status=False)]
    dropped: Annotated[int, Counter(title="Dropped", words="dropped", in_status=False)]
    dead: Annotated[
        int,
        Counter(
            title="Became dead letters",
            words="dead",
            of_topics="Messages of a topic that were moved to its dead-letter topic.",
            in_status=False,
        ),
    ]

    def __init__(self) -> None:
        for name in COUNTERS:
            setattr(self, name, 0)

    def add(self, other: "Traffic") -> None:
        """Count what another has counted, too."""
        for name, more in zip(COUNTERS, _counts(other), strict=True):
            if more:
                setattr(self, name, getattr(self, name) + more)

    def add_all(self, others: Iterable["Traffic"]) -> None:
        """Count what many others have counted, too, which takes less than one after the other."""
        counts = zip(_counts(self), *map(_counts, others), strict=True)
        for name, each in zip(COUNTERS, counts, strict=True):
            setattr(self, name, sum(each))


COUNTERS: Final[Mapping[str, Counter]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Traffic, include_extras=True).items()
}
"""In the order in which they are told of."""

TOPIC_COUNTERS: Final[Mapping[str, Counter]] = {
    name: counter for name, counter in COUNTERS.items() if counter.of_topics
}
"""Those that are told of each topic: `daemon.operating.topics.TopicSummary` has them."""

_counts: Final[Any] = attrgetter(*COUNTERS)
