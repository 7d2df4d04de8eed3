"""Who is due for a message: its mode, those who take that mode, and those who come later.

    mode    a system topic's is ONE; else what SET TOPIC DELIVERY says, else the message, else ALL
    ONE     one subscription that takes ONE, in turn (`routing.takers`)
    ALL     each subscription that takes ALL when the message comes; and, until its stated timeout ends, each
            that begins later: for ever, if it is a state message

A subscription is to the topic, or to a pattern that takes it, as far as its account may subscribe to the
topic. Of several subscriptions of one account, channel and name one has what is to ALL, so that it comes
once: the one to the topic itself, else the oldest.

Who follows a topic by patterns is found once, and again when a pattern comes or goes or rights change. So a
topic that nobody follows costs nothing more, and a pattern is one subscription, however many topics it takes.

Nothing outside this file asks a topic for its subscriptions to find that out. Source: routing contract 5.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from routing.groups import GroupedQueue
from routing.message import DeliveryMode, Message
from routing.names import parse_address
from routing.patterns import AnyPattern, PatternTree, TopicTree, is_pattern
from routing.queue import STATED, Entry
from routing.subscription import Subscription, Target
from routing.targets import NO_FOLLOWERS, Followers, Pattern, Topic
from routing.traffic import Traffic

FOLLOWED_MAX: Final = 1_000
"""Topics without a subscription of their own that are not made anew with each message that patterns take."""


class SubscribeRights(Protocol):
    """Who may subscribe to what."""

    def may_subscribe(self, account: str, topic: str) -> bool:
        """Whether an account may subscribe to a topic."""

    def subscribable(self, account: str, pattern: str) -> Sequence[str]:
        """The patterns of those topics of a pattern to which an account may subscribe; [] for none."""


class _Everybody:
    def may_subscribe(self, account: str, topic: str) -> bool:
        return True

    def subscribable(self, account: str, pattern: str) -> Sequence[str]:
        return [pattern]


EVERYBODY: Final = _Everybody()
"""May subscribe to everything."""


class Matching:
    """The topics of a site, and the subscriptions that are due for what comes to each.

    Args:
        rights: who may subscribe to what; another answer is to be told by `rights_changed`.
        begun: told of the name of each topic that begins to be there.

    Attributes:
        by_owner: all subscriptions, by what they are to, their owners and their names.
        topics: by name; those on which nothing hangs are forgotten.
        forgotten: what went through those.
    """

    def __init__(
        self,
        server: str,
        rights: SubscribeRights = EVERYBODY,
        begun: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._server = server
        self._rights = rights
        self.topics: dict[str, Topic] = {}
        self.forgotten = Traffic()
        self._begun = begun
        self._patterns: PatternTree[dict[str, Pattern]] = PatternTree()  # by account
        self._listed = TopicTree()
        self._followed: dict[str, Topic] = {}  # forgotten, and soon there again
        self._changes = 0
        self.by_owner: dict[tuple[str, str, str], Subscription] = {}

    # -- topics, patterns and subscriptions -------------------------------------------------------

    def begin(self, name: str) -> Topic:
        """Make the topic of this name, of which there is none."""
        followed = self._followed.pop(name, None)
        topic = self.topics[name] = Topic(name, self._server) if followed is None else followed
        self._begun(name)
        return topic

    def find(self, name: str) -> Topic:
        """The topic of this name; where there is none, one that tells who would have what comes to it."""
        return self.topics.get(name) or Topic(name, self._server)

    def target(self, name: str, owner: str) -> Target:
        """What a subscription of an owner is to: a topic, or a pattern; made if there is none."""
        if not is_pattern(name):
            return self.topics.get(name) or self.begin(name)
        account = parse_address(owner).account
        by_account = self._patterns.get(name)
        if by_account is None:
            by_account = {}
            self._patterns.put(name, by_account)
        found = by_account.get(account)
        if found is None:
            found = by_account[account] = Pattern(name, account, self._rights.subscribable(account, name))
        return found

    def forget_if_unused(self, target: Target) -> None:
        """Forget a topic without messages, subscriptions and settings: names alone cost no memory.

        And a pattern to which its account no longer subscribes.
        """
        if isinstance(target, Topic):
            if not (target.messages or target.subscriptions or target.has_settings):
                self._forget(target)
        elif isinstance(target, Pattern) and not target.subscriptions:
            by_account = self._patterns.get(target.name)
            if by_account is not None:
                by_account.pop(target.account, None)
                if not by_account:
                    self._patterns.discard(target.name)

    def _forget(self, topic: Topic) -> None:
        if self.topics.pop(topic.name, None) is not None:
            self.forgotten.add(topic.traffic)
        if topic.is_listed:
            topic.is_listed = False
            self._listed.discard(topic.name)
        if isinstance(topic.shared, GroupedQueue):
            topic.shared.forget_idle()
        if topic.followers is not NO_FOLLOWERS:
            if len(self._followed) >= FOLLOWED_MAX:
                self._followed.clear()
            topic.traffic = Traffic()
            self._followed[topic.name] = topic

    def enter(self, subscription: Subscription) -> None:
        """Add a subscription: what comes from now on is due to it."""
        target = subscription.target
        self.by_owner[target.name, *whose(subscription)] = subscription
        target.enter(subscription)
        self._changed(target)

    def leave(self, subscription: Subscription) -> None:
        """Take out a subscription that has ended."""
        target = subscription.target
        del self.by_owner[target.name, *whose(subscription)]
        target.leave(subscription)
        self._changed(target)

    def _changed(self, target: Target) -> None:
        if isinstance(target, Topic):
            target.followers_as_of = -1
        else:
            self._changes += 1

    def may_have(self, subscription: Subscription, topic: str) -> bool:
        """Whether the account of a subscription may subscribe to a topic."""
        return self._rights.may_subscribe(parse_address(subscription.owner).account, topic)

    def ask_rights(self, patterns: Iterable[Pattern]) -> dict[Pattern, Sequence[str]]:
        """Ask anew what accounts may have, of all `patterns` that there are.

        Returns what those are to `allow` now of which that has changed, or is nothing.
        """
        self._changes += 1
        asked = ((each, self._rights.subscribable(each.account, each.name)) for each in patterns)
        return {pattern: allowed for pattern, allowed in asked if allowed != pattern.allowed or not allowed}

    def subscribed(self, target: Target) -> list[Subscription]:
        """The subscriptions to this very topic or pattern."""
        return list(target.subscriptions.values())

    def subscribers(self, topic: Topic) -> Iterable[Subscription]:
        """The subscriptions that get what is published to a topic: those to it, then those by patterns."""
        return _with(topic, self.followers(topic).allowed)

    def subscriber_count(self, topic: Topic) -> int:
        """How many subscriptions get what is published to a topic."""
        count = len(topic.subscriptions)
        for pattern in self.followers(topic).allowed:
            count += len(pattern.subscriptions)
        return count

    def followers(self, topic: Topic) -> Followers:
        """Those who take what comes to a topic by patterns."""
        if topic.followers_as_of != self._changes:
            topic.followers_as_of = self._changes
            found = self._patterns.match(topic.name) if len(self._patterns) else None
            topic.followers = self._found(topic, found) if found else NO_FOLLOWERS
        return topic.followers

    def _found(self, topic: Topic, found: list[dict[str, Pattern]]) -> Followers:
        patterns = tuple(pattern for by_account in found for pattern in by_account.values())
        allowed = tuple(each for each in patterns if self._rights.may_subscribe(each.account, topic.name))
        had_by = {whose(each) for each in topic.subscriptions.values() if each.accepts_all}
        due: list[Subscription] = []
        passed_over: list[Subscription] = []
        all_of_them = (each for pattern in allowed for each in pattern.subscriptions.values())
        for each in sorted(all_of_them, key=lambda each: each.id):
            if each.accepts_all:
                (passed_over if whose(each) in had_by else due).append(each)
                had_by.add(whose(each))
        return Followers(patterns, allowed, tuple(due), tuple(passed_over))

    # -- to whom ----------------------------------------------------------------------------------

    def terms(
        self, topic: Topic, message: Message, default_timeout_s: float
    ) -> tuple[DeliveryMode, float | None, list[Subscription]]:
        """How a message that is published here is delivered.

        Its mode; its timeout, None where none is stated; and those to whom it is due now, of mode ALL.
        """
        timeout_s = message.timeout_s
        if timeout_s is None:
            timeout_s = topic.timeout_s
        if topic.is_system:
            return "ONE", default_timeout_s if timeout_s is None else timeout_s, []
        mode = topic.mode or message.delivery or "ALL"
        return mode, timeout_s, [] if mode == "ONE" else self.taking(topic, "ALL")

    def taking(self, topic: Topic, mode: DeliveryMode) -> list[Subscription]:
        """The subscriptions that take messages of a mode."""
        if mode == "ONE":
            return [each for each in self.subscribers(topic) if each.accepts_one]
        found = [each for each in topic.subscriptions.values() if each.accepts_all]
        followers = topic.followers if topic.followers_as_of == self._changes else self.followers(topic)
        if followers is not NO_FOLLOWERS:
            found += followers.due
        return found

    def wants(self, target: Target, mode: DeliveryMode) -> bool:
        """Whether anybody subscribes to this very topic or pattern who takes messages of a mode."""
        return bool(target.taking_one if mode == "ONE" else target.taking_all)

    def is_attended(self, target: Target) -> bool:
        """Whether a session consumes messages of mode ONE from this very topic or pattern."""
        return target.attended > 0

    def targets(self, topic: Topic) -> tuple[Target, ...]:
        """What those subscribe to who get what is published to a topic: it, and patterns."""
        return (topic, *self.followers(topic).allowed)

    def is_taken(self, topic: Topic, mode: DeliveryMode) -> bool:
        """Whether anybody takes messages of a mode of a topic."""
        return any(self.wants(each, mode) for each in self.targets(topic))

    def passed_over(self, topic: Topic) -> tuple[Subscription, ...]:
        """The subscriptions of mode ALL that have what comes to a topic by another of their own."""
        return self.followers(topic).passed_over

    def may_have_taken(self, topic: Topic) -> list[Subscription]:
        """Those to whom messages of mode ALL of a topic may have been due before a restart."""
        return [*self.taking(topic, "ALL"), *self.passed_over(topic)]

    def forbidden(self, topic: Topic) -> list[Subscription]:
        """The subscriptions to patterns that take a topic, whose accounts may not have it."""
        followers = self.followers(topic)
        without = [each for each in followers.patterns if each not in followers.allowed]
        return [each for pattern in without for each in pattern.subscriptions.values()]

    @staticmethod
    def were_due(entry: Entry, takers: list[Subscription], marked: Container[int]) -> list[Subscription]:
        """The subscriptions among `takers` to whom a message of mode ALL was due, finished or not.

        `takers`: as of `may_have_taken`.
        Those that were passed over are among them: it is stored of them that they are done. `marked`: ids of
        those that have left a mark on it: a younger one may, where it was delayed.
        """
        if entry.flags & STATED:
            return takers
        return [each for each in takers if not each.joined_after(entry) or each.id in marked]

    def waits_with(self, topic: Topic) -> Iterable[Subscription]:
        """The subscriptions in whose queues messages of mode ALL of a topic may wait."""
        return _with(topic, self.followers(topic).patterns)

    def holders(self, topic: Topic) -> Iterator[Subscription]:
        """Those who may have messages of a topic in hand: who takes it, or shares such a subscription."""
        return (each for subscription in self.waits_with(topic) for each in subscription.holders)

    # -- those who come later ---------------------------------------------------------------------

    def keep(self, entry: Entry) -> None:
        """Keep a message of mode ALL for those who join later."""
        self.list_topic(entry.topic)
        entry.topic.kept.add(entry)

    def kept_for(self, subscription: Subscription) -> Iterator[Topic | None]:
        """The topics that may keep something for one that comes late, as of `waiting_for`."""
        if not subscription.accepts_all:
            return iter(())
        if isinstance(subscription.target, Topic):
            return iter((subscription.target,))
        return self.waiting_for(subscription.target)

    def gained_by(self, subscription: Subscription, before: Sequence[str]) -> Iterator[Topic | None]:
        """The same, but for the topics that one to a pattern had already while these were `allowed`."""
        had = AnyPattern(before)
        for topic in self.kept_for(subscription):
            yield None if topic is None or had.covers(topic.name) else topic

    def is_had_by_another(self, subscription: Subscription, topic: Topic, newest_id: int) -> bool:
        """Whether another one of the same account, channel and name has what a topic keeps, or is to have it.

        As of what comes: the one to the topic itself, else the oldest, of those that are no newer than the
        subscription with the id `newest_id`. A younger one may be joining, too.
        """
        owner, name = whose(subscription)
        for target in self.targets(topic):
            found = self.by_owner.get((target.name, owner, name))
            if found is None or found is subscription or found.id > newest_id or not found.accepts_all:
                continue
            if found.target is not target:  # but to the same pattern as another account
                continue
            if target is topic or found.id < subscription.id:
                return True
        return False

    def list_topic(self, topic: Topic) -> None:
        """Have patterns find what a topic has waiting."""
        if not topic.is_listed:
            topic.is_listed = True
            self._listed.add(topic.name)

    def waiting_for(self, target: Target) -> Iterator[Topic | None]:
        """Find the topics in which something may wait for those who subscribe to a pattern.

        As `TopicTree.walk` does, with None for all others: topics, and rights, may change meanwhile.
        """
        assert isinstance(target, Pattern)
        for name in self._listed.walk(target.name):
            if name is None or not self._rights.may_subscribe(target.account, name):
                yield None
            else:
                yield self.topics[name]


def _with(topic: Topic, patterns: Iterable[Pattern]) -> Iterable[Subscription]:
    if not patterns:
        return topic.subscriptions.values()
    return chain(topic.subscriptions.values(), *(pattern.subscriptions.values() for pattern in patterns))


def whose(subscription: Subscription) -> tuple[str, str]:
    return subscription.owner, subscription.options.name
