"""In what order copies are looked at where links or wants have changed: topic by topic, the oldest first.

What begins, comes or is given back of a topic that waits for its turn, or has it, goes when all have been
looked at that were there before. So it overtakes none of these on the way that they are given. Source:
routing contract 5.

Where a link has come up or gone down, as one does somewhere all the time, only those topics are looked at
of which something is open, or for another site to see to: what most hold is with all who want it.
"""

from collections import deque
from collections.abc import Iterable

from routing.federation.topology import Topology
from routing.peering.copies import Copy
from routing.peering.crossing import Crossing, in_order


class Turns:
    """Tell it what has changed but links, which it sees itself.

    Attributes:
        is_minutely: a minute is over since the copies that are looked at were so last.
    """

    def __init__(self, crossing: Crossing, topology: Topology) -> None:
        self.is_minutely = False
        self._crossing = crossing
        self._topology = topology
        self._seen = self._seen_graph = -1  # version of the topology
        self._waiting: set[str] = set()  # topics of late subscribers that are for others yet
        self._topics: dict[str, bool] = {}  # that wait, and whether for the minute
        self._topic = ""  # whose turn it is
        self._copies: deque[Copy] = deque()  # of that, those that are left
        self._looked_at: Copy | None = None
        self._joined: set[int] = set()

    def __bool__(self) -> bool:
        self._look_at_links()
        return bool(self._topics or self._copies)

    def changed(self, topics: Iterable[str]) -> None:
        """Have these topics looked at, from their oldest copies on.

        One that has its turn begins anew, but each minute is gone through to the end, whatever changes.
        """
        for topic in topics:
            self._topics.setdefault(topic, False)
        if self._topic in self._topics and not self.is_minutely:
            self._copies.clear()

    def minute(self) -> None:
        """Have all topics looked at."""
        self._topics = dict.fromkeys((*self._topics, *self._all()), True)

    def _look_at_links(self) -> None:
        topology = self._topology
        if self._seen != topology.version:
            is_same = self._seen_graph == topology.graph
            self._seen, self._seen_graph = topology.version, topology.graph
            self.changed((*self._open(), *self._waiting) if is_same else self._all())

    def wait(self, copy: Copy) -> None:
        """Leave who has come to want a copy to the site where it began, while links to that are up."""
        self._waiting.add(copy.entry.topic.name)

    def _open(self) -> list[str]:
        """The topics with open destinations; those with few copies first, which many would delay."""
        by_topic = self._crossing.by_topic
        return sorted(self._crossing.besides, key=lambda topic: len(by_topic[topic]))

    def _all(self) -> list[str]:
        if not self._crossing.destined:
            return []
        return list(dict.fromkeys((*self._open(), *self._crossing.by_topic)))

    def next(self) -> Copy | None:
        """The copy that is looked at now; None where none is left."""
        while not self._copies:
            if not self._topics:
                self.end()
                return None
            self._topic = next(iter(self._topics))
            self.is_minutely = self._topics.pop(self._topic)
            self._waiting.discard(self._topic)
            self._copies.extend(in_order(list(self._crossing.by_topic.get(self._topic, {}).values())))
        self._looked_at = self._copies.popleft()
        return self._looked_at

    def end(self) -> None:
        """Note that no copy is looked at any more for now."""
        self._looked_at = None
        if not self._copies:
            self._topic, self.is_minutely = "", False
            if not self._topics:
                self._joined.clear()

    def is_looked_at(self, copy: Copy) -> bool:
        """Whether it has its turn."""
        return copy is self._looked_at

    def is_behind(self, copy: Copy) -> bool:
        """Whether a copy, other than that which is looked at, may overtake some that wait for their turn."""
        if not self._crossing.destined:
            return False
        self._look_at_links()
        topic = copy.entry.topic.name
        return (topic in self._topics or topic == self._topic) and copy is not self._looked_at

    def puts_off(self, copy: Copy) -> bool:
        """Whether a copy is to go only when it is looked at, after those; if so, it is."""
        if not self.is_behind(copy):
            return False
        if copy.entry.topic.name not in self._topics:
            self._copies.append(copy)
        return True

    def join(self, copy: Copy) -> None:
        """Have a copy looked at after all others of its topic that are to be."""
        self._joined.add(copy.entry.id)
        if copy.entry.topic.name == self._topic:
            self._copies.append(copy)

    def has_joined(self, copy: Copy) -> bool:
        """Whether nobody has looked at a copy since it joined these."""
        return copy.entry.id in self._joined

    def take_joined(self, copy: Copy) -> bool:
        """Whether it has joined these, and nobody has been told whether there is a way for it."""
        joined = self.has_joined(copy)
        self._joined.discard(copy.entry.id)
        return joined
