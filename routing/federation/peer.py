"""A peer of this site, as the rest of the federation knows it."""

from routing.names import is_system_topic
from routing.patterns import is_pattern, overlap, topic_matches
from routing.peering.copies import PeerRules
from routing.peering.news import Version
from routing.peering.wants import Want


class Peer:
    """A site that this one links to, up or down.

    Attributes:
        has_removals: the number up to which it knows what was removed.
        knows_destinations: it did so when the link was up last.
        knows_counts: likewise; it answers for itself, and passes on, who has what a receipt counts.
        wants_from_news: likewise; it is told by interest only what news does not explain.
        has_told: what it wants, besides news, since the link came up.
        said: the version of its news that was known when the link came up last; None where none was.
    """

    __slots__ = (
        "has_removals",
        "has_told",
        "knows_counts",
        "knows_destinations",
        "name",
        "rules",
        "said",
        "up",
        "wants_from_news",
    )

    def __init__(self, name: str, rules: PeerRules) -> None:
        self.name = name
        self.rules = rules
        self.up = False
        self.has_removals = 0
        self.knows_destinations = True
        self.knows_counts = False
        self.wants_from_news = False
        self.has_told = False
        self.said: Version | None = None

    def may_come(self, topic: str) -> bool:
        """Whether a message of this topic is taken from the peer."""
        return topic_allowed(self.rules.allow_in, topic)

    def may_go(self, topic: str) -> bool:
        """Whether a message of this topic is sent to the peer."""
        return topic_allowed(self.rules.allow_out, topic)

    def may_go_now(self, want: Want) -> bool:
        """Whether a message may be sent to the peer for the sake of a want: of mode ONE only if it is up."""
        kind, name = want
        if kind == "SERVER":
            return True
        if kind == "ONE" and not self.up:
            return False
        return some_allowed(self.rules.allow_out, name)


def topic_allowed(patterns: tuple[str, ...], topic: str) -> bool:
    """Whether a rule of a link with these patterns lets a topic pass; system topics always do."""
    # as a rule all of them: asked for each message
    return "#" in patterns or is_system_topic(topic) or any(topic_matches(one, topic) for one in patterns)


def some_allowed(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a topic, or some of those that a pattern takes, may cross; see `topic_allowed`."""
    if is_pattern(name):
        return "#" in patterns or any(overlap(name, one) is not None for one in patterns)
    return topic_allowed(patterns, name)
