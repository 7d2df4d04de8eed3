"""The copies that are held here and may cross links: by id, by topic, and how many came from whom."""

import msgspec

from routing.patterns import TopicTree
from routing.peering.copies import Copy
from routing.queue import CROSSES, Entry


class _Held(msgspec.Struct):
    messages: int = 0
    bytes: int = 0


class Crossing:
    """Part of `SiteState`, so that a copy that ends is forgotten here too.

    Attributes:
        by_id: by entry id.
        by_topic: the same by topic, for interest that comes later.
        topics: those that have any, for interest in patterns.
        destined: by entry id, those that have destinations, or had.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Copy] = {}
        self.by_topic: dict[str, dict[int, Copy]] = {}
        self.topics = TopicTree()
        self.destined: dict[int, Copy] = {}
        self._held_from: dict[tuple[str, str], _Held] = {}

    def begin(self, copy: Copy) -> None:
        """A copy that may cross links is held."""
        entry = copy.entry
        entry.flags |= CROSSES
        self.by_id[entry.id] = copy
        of_topic = self.by_topic.get(entry.topic.name)
        if of_topic is None:
            of_topic = self.by_topic[entry.topic.name] = {}
            self.topics.add(entry.topic.name)
        of_topic[entry.id] = copy
        if copy.source:
            held = self._held_from.setdefault((copy.source, entry.topic.name), _Held())
            held.messages += 1
            held.bytes += entry.size

    def forget(self, entry: Entry) -> None:
        """Forget a copy that is no longer held; one that crosses no links changes nothing."""
        copy = self.by_id.pop(entry.id, None)
        if copy is None:
            return
        self.destined.pop(entry.id, None)
        of_topic = self.by_topic[entry.topic.name]
        del of_topic[entry.id]
        if not of_topic:
            del self.by_topic[entry.topic.name]
            self.topics.discard(entry.topic.name)
        if copy.source:
            held = self._held_from[copy.source, entry.topic.name]
            held.messages -= 1
            held.bytes -= entry.size
            if not held.messages:
                del self._held_from[copy.source, entry.topic.name]

    def held_from(self, peer: str, topic: str) -> tuple[int, int]:
        """Messages and bytes of a topic that are held and first came from a peer."""
        held = self._held_from.get((peer, topic))
        return (held.messages, held.bytes) if held is not None else (0, 0)
