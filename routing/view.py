"""What others may read of a site: its topics, subscriptions and messages, as they are now.

Values are copies; an `Entry`, a `Topic` and a `Subscription` are the router's own: they are read, and never
written.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

import msgspec

from routing.decisions import are_awaited
from routing.message import DeliveryMode
from routing.names import parse_address
from routing.options import Accepts
from routing.peering.copies import Copy
from routing.queue import COUNTED_AT_ONCE, GONE, ONE, Entry
from routing.shares import Share
from routing.state import SiteState
from routing.subscription import Subscription
from routing.targets import Topic
from routing.traffic import Traffic

_NONE: Final[Mapping[int, Copy]] = {}


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic as it is now.

    Attributes:
        delivery: its own mode; None where each message says.
        timeout_s: its own timeout; None for none, `inf` for state messages.
        messages, bytes: all that it holds, also what is with subscribers.
        kept: those of them that are for all who join later, too.
        subscriptions: of all front ends, attached or not, also those to patterns.
        annotations: what front ends keep with it, by their names.
    """

    name: str
    delivery: DeliveryMode | None
    timeout_s: float | None
    messages: int
    bytes: int
    kept: int
    subscriptions: int
    annotations: Mapping[str, str]


class SubscriptionInfo(msgspec.Struct, frozen=True):
    """One subscription; `name` and `lock_s` as in `SubscribeOptions`.

    Attributes:
        topic: or the pattern that it is to.
    """

    topic: str
    account: str
    channel: str
    name: str
    credit: int
    accepts: Accepts
    attached: bool
    lock_s: float | None


class SiteView:
    """Read it; what changes it is an input."""

    def __init__(self, state: SiteState) -> None:
        self._state = state

    def share(self, account: str) -> Share:
        """What is held of an account of this site."""
        return self._state.shares.of(account)

    @property
    def held(self) -> int:
        """All messages that the site holds, with a guarantee or without."""
        return len(self._state.entries)

    @property
    def guaranteed(self) -> int:
        """Those of them that have a guarantee; the others are in memory alone."""
        return self._state.guaranteed

    @property
    def unguaranteed_bytes(self) -> int:
        """Memory of unguaranteed messages."""
        return self._state.unguaranteed_bytes

    @property
    def forgotten(self) -> Traffic:
        """What has gone through topics of which nothing is known any more."""
        return self._state.matching.forgotten

    @property
    def last_id(self) -> int:
        """The id of the newest message."""
        return self._state.last_id

    def is_awaited(self, since: int) -> bool:
        """Whether somebody waits for one of the decisions that nobody has taken, after so many of them."""
        return are_awaited(self._state.out[since:])

    @property
    def untaken(self) -> int:
        """Decisions that wait to be taken."""
        return len(self._state.out)

    @property
    def oldest_removal_at(self) -> float:
        """Site time of the oldest removal that is remembered; `inf` for none."""
        return self._state.removed.oldest_at

    def entry(self, id: int) -> Entry | None:
        """A copy that is held; None where there is none, or it has ended."""
        return self._state.entries.get(id)

    # -- topics -----------------------------------------------------------------------------------

    @property
    def topic_count(self) -> int:
        """Topics that something is known of."""
        return len(self._state.topics)

    def topic(self, name: str) -> TopicInfo | None:
        """A topic; None where nothing is known of it."""
        found = self._state.topics.get(name)
        return self._topic_info(found) if found is not None else None

    def every_topic(self) -> list[Topic]:
        """All topics, system topics too."""
        return list(self._state.topics.values())

    def found_topic(self, name: str) -> Topic | None:
        """A topic itself; None where nothing is known of it."""
        return self._state.topics.get(name)

    def subscribed(self, topic: Topic) -> list[Subscription]:
        """The subscriptions that get what comes to a topic, by its name or by patterns."""
        return list(self._state.matching.subscribers(topic))

    def oldest(self, topic: Topic) -> Entry | None:
        """What has waited longest at a topic for somebody, here or elsewhere, or is with somebody.

        None for nothing, and where all that it holds has a delay that has not ended.
        """
        takers = self._state.matching.waits_with(topic)
        crossing = self._crossing(topic)
        is_simple = not (takers or topic.kept or crossing)  # as it is with most, where all are looked at
        if is_simple and (only := topic.shared.oldest(topic)) is not None:
            return only
        waiting = list(takers)
        queues = [topic.shared, *(each.queue for each in waiting)]
        found = [entry for queue in queues if (entry := queue.oldest(topic)) is not None]
        if topic.kept:
            found += topic.kept.after(0, 1)
        found += islice((copy.entry for copy in crossing.values() if not copy.entry.flags & GONE), 1)
        for holder in (each for subscription in waiting for each in subscription.holders):
            for locks in (holder.locks, holder.received):
                own = (lock.entry for lock in locks.values() if lock.entry.topic is topic)
                found += islice(own, 1)
        if not found and topic.messages:
            found = [lock.entry for _, _, lock in self._state.delayed if lock.entry.topic is topic]
        return found[0] if len(found) == 1 else min(found, key=_id, default=None)

    def for_peers_in_steps(self, topic: Topic) -> Iterator[int]:
        """How many messages of a topic wait for other sites, in parts that are to be added.

        A peer has still to answer for such a message, or there is no way to a site that is due to have it.
        Before the first part all are taken down, which takes a hundredth of a second for each million; then
        each part takes some microseconds.
        """
        copies = iter(list(self._crossing(topic).values()))
        while part := list(islice(copies, COUNTED_AT_ONCE)):
            yield sum(map(_is_for_peers, part))

    def annotated(self, front_end: str) -> list[TopicInfo]:
        """The topics with which a front end keeps something."""
        topics = self._state.topics.values()
        return [self._topic_info(topic) for topic in topics if front_end in topic.annotations]

    def scattered(self, topic: Topic) -> Iterator[Entry]:
        """What a topic holds in no order of ids, as it is now, some of it twice, and some of other topics.

        It waits for other sites, or for who wants Sequences in order. All is taken down at once, which takes
        some hundredths of a second for each million, and then given out.
        """
        crossing = list(self._crossing(topic).values())
        waiting = self._state.matching.waits_with(topic)
        queues = [list(each.queue) for each in waiting if each.order is not None]
        return chain((copy.entry for copy in crossing), *queues)

    def browse(
        self, topic_name: str, after: int, count: int, *, scattered: Iterable[Entry] | None = None
    ) -> list[tuple[Entry, bool]]:
        """Up to `count` entries with a greater id than `after`, by id; True where one has it for itself.

        What waits for someone to come: the shared queue, what is locked of it, and what is kept for those
        who join late. Where it is given what is `scattered`, the first `count` that come after and are held,
        also what only waits for those who were there, or for other sites.
        """
        topic = self._state.topics.get(topic_name)
        if topic is None:
            return []
        found: dict[int, tuple[Entry, bool]] = {}
        for entry in (*topic.kept.after(after, count), *topic.shared.after(after, count)):
            found[entry.id] = (entry, False)
        if scattered is not None:
            found |= {entry.id: (entry, False) for entry in scattered}
            for subscription in self._state.matching.waits_with(topic):
                # who wants Sequences in order has a queue in another one than that of arrival
                waiting = subscription.queue.after(after, count) if subscription.order is None else ()
                found |= {entry.id: (entry, False) for entry in waiting if entry.topic is topic}
        found |= {entry.id: (entry, locked) for entry, locked in self._apart(topic) if entry.id > after}
        return [found[id] for id in heapq.nsmallest(count, found)]

    def browse_back(self, topic_name: str, before: int, count: int) -> list[tuple[Entry, bool]]:
        """As `browse`, up to `count` entries with a smaller id than `before`, the newest first."""
        topic = self._state.topics.get(topic_name)
        if topic is None:
            return []
        waiting = (*topic.kept.before(before, count), *topic.shared.before(before, count))
        found = {entry.id: (entry, False) for entry in waiting}
        found |= {entry.id: (entry, locked) for entry, locked in self._apart(topic) if entry.id < before}
        return [found[id] for id in heapq.nlargest(count, found)]

    def browse_among(self, topic_name: str, ids: Iterable[int]) -> list[tuple[Entry, bool]]:
        """Those of some ids that `browse` shows, as they come; looks at nothing else that the topic keeps."""
        topic = self._state.topics.get(topic_name)
        if topic is None:
            return []
        found = [entry for id in ids if (entry := self._state.entries.get(id)) is not None]
        found = [entry for entry in found if entry.topic is topic]
        are_kept = all(entry.id in topic.kept for entry in found)
        apart = {} if are_kept else {entry.id: locked for entry, locked in self._apart(topic)}
        return [
            (entry, apart.get(entry.id, False))
            for entry in found
            if entry.id in topic.kept or entry.id in apart or entry in topic.shared
        ]

    def kept(self, topic_name: str, after: int, count: int) -> list[Entry]:
        """Up to `count` entries with a greater id than `after` that are kept for who joins late, by id."""
        topic = self._state.topics.get(topic_name)
        return [] if topic is None else topic.kept.after(after, count)

    def kept_back(self, topic_name: str, before: int, count: int) -> list[Entry]:
        """As `kept`, up to `count` with a smaller id than `before`, the newest first."""
        topic = self._state.topics.get(topic_name)
        return [] if topic is None else topic.kept.before(before, count)

    def kept_among(self, topic_name: str, ids: Iterable[int]) -> list[int]:
        """Those of some ids that are of entries that a topic keeps."""
        topic = self._state.topics.get(topic_name)
        return [] if topic is None else [id for id in ids if id in topic.kept]

    def _apart(self, topic: Topic) -> Iterator[tuple[Entry, bool]]:
        """What a topic holds outside of queues: what is delayed, or with somebody; True as in `browse`."""
        for _, _, lock in self._state.delayed:
            if lock.entry.topic is topic and lock.entry.id in self._state.entries:
                yield lock.entry, False
        for holder in self._state.matching.holders(topic):
            for held in (holder.locks, holder.received):
                for lock in held.values():
                    if lock.entry.topic is topic:
                        yield lock.entry, bool(lock.entry.flags & ONE)

    # -- subscriptions ----------------------------------------------------------------------------

    @property
    def subscription_count(self) -> int:
        """Of all topics."""
        return len(self._state.subscriptions)

    def subscriptions(self, topic_name: str) -> list[SubscriptionInfo]:
        """All subscriptions that take what is published to a topic."""
        topic = self._state.matching.find(topic_name)
        return _subscription_infos(self.subscribed(topic))

    def subscription(self, wanted: str, owner: str, name: str) -> Subscription | None:
        """That of an address to a topic or a pattern; None where there is none of this name."""
        return self._state.by_owner.get((wanted, owner, name))

    def durable_subscriptions(self, name_prefix: str) -> list[SubscriptionInfo]:
        """The durable subscriptions to every topic whose name begins with `name_prefix`."""
        return _subscription_infos(
            subscription
            for subscription in self._state.subscriptions.values()
            if subscription.options.durable and subscription.options.name.startswith(name_prefix)
        )

    def takers(self, topic_name: str, mode: DeliveryMode) -> int:
        """How many subscriptions a message of this mode could be for; on system topics all are ONE."""
        topic = self._state.matching.find(topic_name)
        one = mode == "ONE" or topic.is_system
        return len(self._state.matching.taking(topic, "ONE" if one else "ALL"))

    def is_attended(self, topic_name: str) -> bool:
        """Whether somebody is attached to what takes messages of mode ONE of a topic."""
        return self._state.grouping.is_attended(self._state.matching.find(topic_name))

    def _crossing(self, topic: Topic) -> Mapping[int, Copy]:
        """What is held of a topic and may cross links, by id, about in the order in which that began."""
        return self._state.crossing.by_topic.get(topic.name, _NONE)

    def _topic_info(self, topic: Topic) -> TopicInfo:
        return TopicInfo(
            topic.name,
            topic.mode,
            topic.timeout_s,
            topic.messages,
            topic.bytes,
            len(topic.kept),
            self._state.matching.subscriber_count(topic),
            topic.annotations,
        )


def _id(entry: Entry) -> int:
    return entry.id


def _is_for_peers(copy: Copy) -> bool:
    if copy.entry.flags & GONE:
        return False
    return bool(copy.destinations) or any(forward.unacknowledged for forward in copy.forwards.values())


def _subscription_infos(subscriptions: Iterable[Subscription]) -> list[SubscriptionInfo]:
    return [_subscription_info(subscription) for subscription in subscriptions]


def _subscription_info(subscription: Subscription) -> SubscriptionInfo:
    owner = parse_address(subscription.owner)
    options = subscription.options
    return SubscriptionInfo(
        topic=subscription.target.name,
        account=owner.account,
        channel=owner.channel,
        name=options.name,
        credit=options.credit,
        accepts=options.accepts,
        attached=subscription.attached,
        lock_s=options.lock_s,
    )
