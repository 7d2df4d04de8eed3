"""What keeps a message from a peer: a word for programs, and what people are told."""

from collections.abc import Mapping
from typing import Final, Literal

Obstacle = Literal[
    "",
    "source",
    "been-there",
    "depth",
    "far",
    "rules",
    "down",
    "down-unwanted",
    "down-untold",
    "untold",
    "unwanted",
    "unattended",
    "barred",
    "no-way",
    "nearer",
    "as-near",
    "longer-way",
    "beyond-down",
    "bypassed",
]
"""The empty word for none. A later version may have more."""

WORDS: Final[Mapping[Obstacle, str]] = {
    "": "",
    "source": "it has come from there",
    "been-there": "it has been there",
    "depth": "its Depth ends here",
    "far": "who wants it there is {} links away, further than its Depth",
    "rules": "the rules of the link forbid it",
    "down": "the link is down{}",
    "down-unwanted": "the link is down{}, and when it was up nobody there wanted it",
    "down-untold": "the link is down{}, and has not been up: what is wanted there is not known",
    "untold": "the link has just come up: what is wanted there is not known yet",
    "unwanted": "nobody there wants it",
    "unattended": "nobody who wants it there is known to be attached",
    "barred": "topic rules or depth_max of a link keep it from who wants it there",
    "no-way": "no way to it is known there",
    "nearer": "{} is as near or nearer",
    "as-near": "{} as near",
    "longer-way": "no shortest way to who wants it begins there",
    "beyond-down": "a link beyond it is down",
    "bypassed": "another way is taken while the link is down",
}
"""In place of {} stands what a `routing.federation.outlook.Way` has as its detail."""

DOWN: Final[frozenset[Obstacle]] = frozenset(("down", "down-unwanted", "down-untold"))
"""Where it would go with the link up, or may go: what lies beyond a link that is down changes unheard."""
