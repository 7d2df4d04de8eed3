"""Whose groups of messages are: who takes over one that waits, and what becomes of those of one who leaves.

What a group is, and when somebody may have more of it, is in `routing.groups`.
"""

from collections.abc import Callable

from routing.groups import Group, GroupedQueue
from routing.matching import Matching
from routing.queue import Entry, GroupedEntry
from routing.subscription import Subscription
from routing.takers import Takers
from routing.targets import Topic


class Grouping:
    """The groups of all topics of a site.

    Attributes:
        opened: those of which somebody may have what is first, who could not before.
        left: names of topics that somebody has left, of which other sites may have more now.
    """

    def __init__(self, matching: Matching, takers: Takers) -> None:
        self._matching = matching
        self._takers = takers
        self.opened: list[Group[Subscription]] = []
        self.left: set[str] = set()

    def _of(self, entry: Entry) -> tuple[GroupedQueue[Subscription], GroupedEntry]:
        """The queue of an entry's topic, and the entry as one of a group."""
        assert isinstance(entry, GroupedEntry)
        topic = entry.topic
        if not isinstance(topic.shared, GroupedQueue):
            topic.shared = GroupedQueue(topic.name, topic.shared, self._open)
        return topic.shared, entry

    def _open(self, group: Group[Subscription]) -> None:
        self.opened.append(group)
        if group.is_free and (first := group.waiting.peek()) is not None:
            self._takers.tell_patterns(first)

    def wait(self, entry: Entry) -> None:
        """Have a message wait in its group, where it stood."""
        self._of(entry)
        self._takers.wait(entry)

    def take_of(self, group: Group[Subscription]) -> tuple[Subscription, Entry] | None:
        """Take what is first in a group, for who is to have it; None where nobody can take it now."""
        first = group.waiting.peek()
        if first is None or not group.is_open:
            return None
        taker = group.owner
        if taker is None:
            taker = self._takers.next_taker(first.topic, group.had)
        if taker is None or not taker.ready:
            return None
        queue, entry = self._of(group.waiting.pop())
        queue.claim(entry, taker)
        return taker, entry

    def hold(self, entry: Entry, subscription: Subscription) -> None:
        """Note that a subscription has a message: one from before a start, or that another had received."""
        queue, entry = self._of(entry)
        queue.hand_on(entry, subscription)

    def pause(self, entry: Entry) -> None:
        """Note that a message is not offered for a while: until then nobody gets more of its group."""
        queue, entry = self._of(entry)
        queue.pause(entry)

    def end_turn(self, entry: Entry) -> None:
        """Have the group of a message go to others: who has it has not finished it in time."""
        queue, entry = self._of(entry)
        queue.end_turn(entry)

    def let_go(self, entry: Entry) -> None:
        """Take a message out of its group: it has ended, or was given back."""
        queue, entry = self._of(entry)
        queue.let_go(entry)

    def owner(self, entry: Entry) -> Subscription | None:
        """The subscription whose group this message is of; None for nobody's."""
        queue, entry = self._of(entry)
        group = queue.group_of(entry)
        return None if group is None else group.owner

    def stays_with(self, entry: Entry, subscription: Subscription) -> bool:
        """Whether a message that this one gives back comes to it again."""
        queue, entry = self._of(entry)
        group = queue.group_of(entry)
        return group is not None and group.owner is subscription and not group.is_ended

    def may_leave(self, entry: Entry) -> bool:
        """Whether a message may go to another site: nobody has any of its group, or is here to take it."""
        queue, entry = self._of(entry)
        group = queue.group_of(entry)
        return (group is None or group.is_free) and not self.is_attended(entry.topic)

    def is_attended(self, topic: Topic) -> bool:
        """Whether somebody is here who takes messages of mode ONE of a topic."""
        return any(self._matching.is_attended(each) for each in self._matching.targets(topic))

    def release(
        self,
        leaving: Subscription,
        heir: Subscription | None = None,
        is_released: Callable[[str], bool] = lambda topic: True,
    ) -> None:
        """Take from a subscription its groups, of the topics that are released.

        Those of which `heir` has messages that were received, are its own instead.
        """
        groups = leaving.groups.groups if leaving.groups is not None else ()
        received = heir.received if heir is not None else ()
        for group in [group for group in groups if is_released(group.queue.topic)]:
            group.queue.release(group, heir, received)
