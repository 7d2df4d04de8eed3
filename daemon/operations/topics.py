"""Topics found by name, sorted and paged, of which there may be very many; one with all that hangs on it."""

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, Literal

import trio

from daemon.operating.topics import (
    TOPICS_MAX,
    SubscriptionStatus,
    TopicOrder,
    TopicPage,
    TopicStatus,
    TopicSummary,
)
from daemon.operations.rates import Rates
from daemon.system.clock import Clock
from daemon.system.stepping import in_steps, sums_in_steps
from routing.names import birth_ms, dead_letter_topic, parse_address
from routing.patterns import check_pattern, is_pattern, topic_matches
from routing.queue import Entry
from routing.subscription import Subscription
from routing.targets import Topic
from routing.traffic import TOPIC_COUNTERS, Traffic
from routing.view import SiteView

SORTED_AT_ONCE: Final = 500
"""In less than a millisecond."""

FIRST: Final = SORTED_AT_ONCE // 2
"""The first so many are found sooner than all."""

SAMPLED: Final = 1_000
SAMPLED_FOR_EACH: Final = 5
"""Topics of a sample for each part that the topics are parted into, which makes some 200 of them."""

Sortable = tuple[Any, str, Topic]
"""A value, the name and the topic, which sort by that, since no two names are the same."""

MANY: Final = 10_000
"""Topics of which an order that was found is kept, for the next page and the next look."""

KEPT_S: Final = 0.000_2
"""For each topic so long: it took a hundredth of that to find."""

KEPT_MAX: Final = 2
"""Orders; each takes some 70 bytes a topic."""


class _Found:
    """The topics of one search in one order, as they were when it began; sorted as far as was asked for.

    Attributes:
        most: so many of them, the first, are known at least.
        until: trio's time when another look is to be taken.
    """

    def __init__(
        self, parts: list[list[Sortable]], matching: int, total: int, most: float, until: float
    ) -> None:
        """`parts`: all of one part come before all of the next."""
        self.matching = matching
        self.total = total
        self.most = most
        self.until = until
        self._parts = parts
        self._sorted: set[int] = set()

    async def page(self, offset: int, count: int) -> list[Topic]:
        """Some of them."""
        found: list[Topic] = []
        before = 0
        for number, part in enumerate(self._parts):
            if before < offset + count and before + len(part) > offset:
                if number not in self._sorted:
                    part.sort()
                    self._sorted.add(number)
                    await trio.lowlevel.checkpoint()
                found += (topic for _, _, topic in part[max(offset - before, 0) : offset + count - before])
            before += len(part)
        return found


class TopicQueries:
    """Reads the topics of one site; `rates` are those of what goes through one of them."""

    def __init__(self, view: SiteView, clock: Clock, rates: Callable[[Traffic], Rates]) -> None:
        self._view = view
        self._clock = clock
        self._rates = rates
        self._kept: dict[tuple[str, TopicOrder], _Found] = {}
        self._finding = trio.Lock()

    async def page(self, search: str, order: TopicOrder, offset: int, count: int) -> TopicPage:
        """See `daemon.operating.operations.Operations.topics`."""
        found, summaries = await self._summaries(search, order, offset, max(min(count, TOPICS_MAX), 0))
        return TopicPage(topics=tuple(summaries), matching=found.matching, total=found.total)

    async def first(self, order: TopicOrder, count: int) -> list[TopicSummary]:
        """See `daemon.operating.operations.Operations.first_topics`."""
        _, summaries = await self._summaries("", order, 0, count)
        return summaries

    async def _summaries(
        self, search: str, order: TopicOrder, offset: int, count: int
    ) -> tuple[_Found, list[TopicSummary]]:
        async with self._finding:
            found = await self._found(search, order, offset + count)
            topics = await found.page(offset, count)
        now_ms = self._clock.wall_ms()
        summaries: list[TopicSummary] = []
        async for some in in_steps(topics):
            there = (topic for topic in some if self._view.found_topic(topic.name) is topic)
            summaries += (self._summary(topic, now_ms) for topic in there)
        return found, summaries

    async def _found(self, search: str, order: TopicOrder, wanted: int) -> _Found:
        """What is searched for, in order. Of many topics what was found a moment ago is good enough."""
        now, lasts_s = trio.current_time(), KEPT_S * self._view.topic_count
        self._kept = {key: each for key, each in self._kept.items() if now < each.until}
        if (kept := self._kept.pop((search, order), None)) is not None and wanted <= kept.most:
            self._kept[search, order] = kept
            return kept
        most = FIRST if wanted <= FIRST else math.inf
        found = await self._find(search, order, most, now + lasts_s)
        if self._view.topic_count >= MANY:
            while len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[search, order] = found
        return found

    async def _find(self, search: str, order: TopicOrder, most: float, until: float) -> _Found:
        is_wanted, key = _searched(search), self._key(order)
        every = self._view.every_topic()
        total = matching = 0
        first: list[Sortable] = []
        last: tuple[Any, str] | None = None  # what comes after it is not among the first
        borders = [] if most == FIRST else await _borders(every, is_wanted, key)
        parts: list[list[Sortable]] = [[] for _ in range(len(borders) + 1)]
        async for some in in_steps(every):
            for topic in some:
                if topic.is_system:
                    continue
                total += 1
                name = topic.name
                if is_wanted is not None and not is_wanted(name):
                    continue
                matching += 1
                value = key(topic)
                if most != FIRST:
                    parts[bisect_left(borders, (value, name))].append((value, name, topic))
                elif last is None or (value, name) < last:
                    first.append((value, name, topic))
            if len(first) >= SORTED_AT_ONCE:
                first.sort()
                del first[FIRST:]
                last = first[-1][:2]
        return _Found([first] if most == FIRST else parts, matching, total, most, until)

    def _key(self, order: TopicOrder) -> Callable[[Topic], Any]:
        keys: dict[TopicOrder, Callable[[Topic], Any]] = {
            "name": lambda topic: 0,
            "held": lambda topic: -topic.messages,
            "bytes": lambda topic: -topic.bytes,
            "oldest": self._oldest_first,
            "in": lambda topic: -self._rates(topic.traffic).in_per_s,
            "out": lambda topic: -self._rates(topic.traffic).out_per_s,
            "subscriptions": lambda topic: -len(self._view.subscribed(topic)),
            "expired": lambda topic: -topic.traffic.expired,
            "dead": lambda topic: -self._dead_letters(topic),
        }
        return keys[order]

    def _oldest_first(self, topic: Topic) -> float:
        oldest = self._view.oldest(topic) if topic.messages else None
        return math.inf if oldest is None else _born_ms(oldest)

    def _summary(self, topic: Topic, now_ms: int) -> TopicSummary:
        oldest = self._view.oldest(topic) if topic.messages else None
        rates = self._rates(topic.traffic)
        return TopicSummary(
            name=topic.name,
            delivery=topic.mode,
            timeout_s=_timeout(topic.timeout_s),
            held=topic.messages,
            held_guaranteed=topic.messages - topic.unguaranteed,
            bytes=topic.bytes,
            oldest_s=None if oldest is None else max(now_ms - _born_ms(oldest), 0) / 1000,
            subscriptions=len(self._view.subscribed(topic)),
            in_per_s=rates.in_per_s,
            out_per_s=rates.out_per_s,
            dead_letters=self._dead_letters(topic),
            **{name: getattr(topic.traffic, name) for name in TOPIC_COUNTERS},
        )

    def _dead_letters(self, topic: Topic) -> int:
        """How many of it are held now."""
        dead = None if topic.is_dead_letter else self._view.found_topic(dead_letter_topic(topic.name))
        return 0 if dead is None else dead.messages

    async def one(
        self, name: str, messages_max: int, bytes_max: int, session_id: Callable[[Any], int]
    ) -> TopicStatus | None:
        """A topic, which may hold so much; `session_id` of what a consumer is handled by."""
        topic = self._view.found_topic(name)
        if topic is None:
            return None
        summary = self._summary(topic, self._clock.wall_ms())
        kept, subscribed = len(topic.kept), self._view.subscribed(topic)
        queues = [topic.shared, *(each.queue for each in subscribed)]
        for_peers, waiting, *in_queues = await sums_in_steps(
            [self._view.for_peers_in_steps(topic), *(queue.count_in_steps() for queue in queues)]
        )
        return TopicStatus(
            summary=summary,
            waiting=waiting,
            for_peers=for_peers,
            kept=kept,
            messages_max=messages_max,
            bytes_max=bytes_max,
            subscriptions=tuple(
                self._subscription(each, in_queue, session_id)
                for each, in_queue in zip(subscribed, in_queues, strict=True)
            ),
        )

    async def subscribed(
        self, name: str, server: str, session_id: Callable[[Any], int]
    ) -> list[SubscriptionStatus]:
        """Who gets what comes to a topic; by patterns also to one of which nothing is known."""
        found = self._view.subscribed(self._view.found_topic(name) or Topic(name, server))
        in_queues = await sums_in_steps([each.queue.count_in_steps() for each in found])
        return [
            self._subscription(each, in_queue, session_id)
            for each, in_queue in zip(found, in_queues, strict=True)
        ]

    async def subscription(
        self, wanted: str, owner: str, name: str, session_id: Callable[[Any], int]
    ) -> SubscriptionStatus | None:
        """A subscription to a topic or a pattern; None where there is none."""
        found = self._view.subscription(wanted, owner, name)
        if found is None:
            return None
        [waiting] = await sums_in_steps([found.queue.count_in_steps()])
        return self._subscription(found, waiting, session_id)

    def _subscription(
        self, subscription: Subscription, waiting: int, session_id: Callable[[Any], int]
    ) -> SubscriptionStatus:
        owner, options = parse_address(subscription.owner), subscription.options
        holders = subscription.holders
        locked = sum(len(each.locks) for each in holders)
        received = len(subscription.received) if subscription.members else 0
        received += sum(len(each.received) for each in holders)
        attached = subscription.attached
        return SubscriptionStatus(
            topic=subscription.target.name,
            account=owner.account,
            channel=owner.channel,
            name=options.name,
            accepts=options.accepts,
            durable=options.durable,
            ordered=options.ordered,
            credit=sum(each.options.credit for each in holders),
            sessions=tuple(session_id(each.consumer.handle) for each in holders if each.consumer is not None),
            waiting=waiting,
            locked=locked,
            locked_s=self._locked_s(holders),
            received=received,
            joining=bool(subscription.joining),
            unused_s=None if attached else max(self._clock.now() - subscription.used_at, 0.0),
        )

    def _locked_s(self, holders: Sequence[Subscription]) -> float | None:
        """How long ago what has been with one of them for longest was handed out."""
        since = [lock.began_at for each in holders for lock in islice(each.locks.values(), 1)]
        return max(self._clock.now() - min(since), 0.0) if since else None


def _searched(search: str) -> Callable[[str], bool] | None:
    """Whether a name is one of those; None for all. Raises Refusal for a pattern that is none."""
    if is_pattern(search):
        pattern = check_pattern(search)
        return lambda name: topic_matches(pattern, name)
    folded = search.casefold()
    return (lambda name: folded in name.casefold()) if folded else None


async def _borders(
    every: Sequence[Topic], is_wanted: Callable[[str], bool] | None, key: Callable[[Topic], Any]
) -> list[tuple[Any, str]]:
    """What parts many topics into parts that are each sorted in about a millisecond, by some of them."""
    found: list[tuple[Any, str]] = []
    async for some in in_steps(random.sample(every, min(SAMPLED, len(every)))):
        found += (
            (key(topic), topic.name)
            for topic in some
            if not topic.is_system and (is_wanted is None or is_wanted(topic.name))
        )
    found.sort()
    return found[SAMPLED_FOR_EACH - 1 :: SAMPLED_FOR_EACH]


def _born_ms(entry: Entry) -> int:
    """When it was published, by the clock of the site where that was."""
    return entry.origin if isinstance(entry.origin, int) else birth_ms(entry.origin)


def _timeout(timeout_s: float | None) -> float | Literal["INFINITE"] | None:
    return "INFINITE" if timeout_s == math.inf else timeout_s
