"""Whose turn it is: to whom a message of mode ONE goes, and what somebody who can take one more gets.

    waits for somebody   in the shared queue of its topic; a pattern knows what is first in each of its topics
    somebody waits       in the line of its topic or pattern: whoever got one goes to the end of that

Of those who wait in several lines for the same message the one that has waited longest is next. Who takes
messages of a topic at all is in `routing.matching`, who may have more of a group in `routing.groups`.
Source: routing contract 5.
"""

from collections import deque

from routing.matching import Matching
from routing.queue import Entry, GroupedEntry, PriorityQueue
from routing.subscription import Subscription
from routing.targets import Pattern, Topic
from routing.waiting import WaitingQueues


class Takers:
    """Those who wait for messages of mode ONE, and the messages that wait for them, at one site."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._turn = 0

    def wait(self, entry: Entry) -> None:
        """Have a message of mode ONE wait for whoever comes, in the queue of its topic, where it belongs."""
        topic = entry.topic
        topic.shared.insert(entry)
        self.tell_patterns(entry)

    def wait_from_start(self, entry: Entry) -> None:
        """Let it wait as `wait` does, at a start: nobody is there to be told of more than the first."""
        if entry.topic.is_listed:
            entry.topic.shared.insert(entry)
        else:
            self.wait(entry)

    def tell_patterns(self, entry: Entry) -> None:
        """Tell followers of a topic what waits in it: it may be the first of all that they can have."""
        topic = entry.topic
        self._matching.list_topic(topic)
        for pattern in self._matching.followers(topic).allowed:
            if pattern.shared is None:
                continue
            if self._matching.is_attended(pattern):
                pattern.shared.note(topic.name, entry)
            else:
                pattern.forget_shared()

    def is_only_taker(self, topic: Topic, had: Subscription) -> bool:
        """Whether nobody who is there takes messages of mode ONE but the one that has `had` one."""
        return all(
            each is had or each.consumer is None or not each.accepts_one
            for subscription in self._matching.subscribers(topic)
            for each in subscription.holders
        )

    def next_taker(self, topic: Topic, had: Subscription | None) -> Subscription | None:
        """The next one that can take a message of mode ONE; last of all the one that has `had` it."""
        line, taker = topic.takers, self._first(topic.takers, had)
        for pattern in self._matching.followers(topic).allowed:
            other = self._first(pattern.takers, had)
            if other is not None and (
                taker is None or (other is had, other.turn) < (taker is had, taker.turn)
            ):
                line, taker = pattern.takers, other
        if taker is not None:
            self._to_the_end(line)
        return taker

    def _first(self, line: deque[Subscription], had: Subscription | None) -> Subscription | None:
        """The first in a line that can take a message; those before it that cannot are sent out of it."""
        while line:
            subscription = line[0]
            if not (subscription.ready and subscription.accepts_one):
                line.popleft()
                subscription.offered = False
            elif subscription is had:
                had = None
                self._to_the_end(line)
            else:
                return subscription
        return None

    def _to_the_end(self, line: deque[Subscription]) -> None:
        self._turn += 1
        line[0].turn = self._turn
        line.rotate(-1)

    def take_next(self, subscription: Subscription) -> Entry | None:
        """Take what waits for a subscription that can take one more: the most urgent, then the oldest.

        None where nothing does: it is then among those to whom messages of mode ONE are given as they come.
        """
        own = subscription.queue.peek()
        if not subscription.accepts_one:
            return None if own is None else subscription.queue.pop()
        target, groups = subscription.target, subscription.groups
        queue = target.shared
        assert queue is not None, "what waits in the topics of a pattern is gathered for who attaches to it"
        shared = queue.peek()
        if groups is not None and groups.is_first(own, shared):
            entry = groups.waiting.pop()
        elif shared is None:
            if own is not None:
                return subscription.queue.pop()
            if not subscription.offered:
                subscription.offered = True
                self._turn += 1
                subscription.turn = self._turn
                target.takers.append(subscription)
            return None
        elif own is None or (shared.priority, -shared.id) > (own.priority, -own.id):
            entry = queue.pop()
        else:
            return subscription.queue.pop()
        if isinstance(entry, GroupedEntry):
            entry.topic.shared.claim(entry, subscription)
        return entry

    def begin_gathering(self, pattern: Pattern) -> WaitingQueues[str]:
        """Note from now on what begins to wait for a pattern; what does already is to be found."""
        pattern.is_gathering = True
        pattern.shared = WaitingQueues(self._shared_of)
        return pattern.shared

    def _shared_of(self, name: str) -> PriorityQueue | None:
        topic = self._matching.topics.get(name)
        return topic.shared if topic is not None else None

    def stop_taking(self, subscription: Subscription) -> None:
        """Take a subscription out of the turns of its topic; one that is not in them changes nothing."""
        if subscription.offered:
            subscription.offered = False
            subscription.target.takers.remove(subscription)
