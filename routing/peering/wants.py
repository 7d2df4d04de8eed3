"""What a site can want, and how one tells another of it.

A *want* is a kind and a name: subscriptions that take messages of mode ALL, or of mode ONE, of a topic or a
pattern; or a server that can be reached.
"""

from typing import Annotated, Final, Literal, get_args

import msgspec

from routing.names import is_server_name, is_topic
from routing.patterns import is_pattern, is_pattern_of_topics

DISTANCE_MAX: Final = 255
"""Links: above any real chain of sites."""

NAME_CHARACTERS_MAX: Final = 300
"""Above the longest topic, pattern and server name: what is longer is not even kept until it is judged."""

PATTERNS: Final = "patterns"
"""What a site that knows patterns says among the features of its links."""

WANTS_FROM_NEWS: Final = "wants-from-news"
"""So says a site that takes from news what others want, and is told by interest only what is not in that."""

WantKind = Literal["ALL", "ONE", "SERVER"]
Distance = Annotated[int, msgspec.Meta(ge=0, le=DISTANCE_MAX)]
KINDS: Final[tuple[WantKind, ...]] = get_args(WantKind)

Want = tuple[WantKind, str]

SaidKind = Literal["ALL", "ONE", "SERVER", "ATTACHED"]
"""Of what news says, and peers do not: `ATTACHED` that somebody is attached to a subscription that takes mode
ONE. Where nobody is, one that lasts without a session takes it none the less."""

Said = tuple[SaidKind, str]


class InterestChange(msgspec.Struct, frozen=True):
    """One change told to a peer.

    Attributes:
        distance: links from the teller to the nearest site that wants it; None if there is none any more.
    """

    kind: WantKind
    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
    distance: Distance | None


def is_of_pattern(want: Want) -> bool:
    """Whether it is a want of all topics of a pattern."""
    return want[0] != "SERVER" and is_pattern(want[1])


def can_be_wanted(kind: WantKind, name: str) -> bool:
    """Whether that is a server, or a topic or pattern."""
    if kind == "SERVER":
        return is_server_name(name)
    return is_pattern_of_topics(name) if is_pattern(name) else is_topic(name)
