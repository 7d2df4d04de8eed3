"""Who is due for a message, as the topics and subscriptions of one site say."""

import math

import pytest

from routing.matching import Matching
from routing.message import DeliveryMode, Message
from routing.options import SubscribeOptions
from routing.queue import GUARANTEED, ONE, STATED, Entry
from routing.subscription import Consumer, Subscription, Target
from routing.takers import Takers
from routing.targets import Topic


@pytest.fixture
def matching() -> Matching:
    return Matching("a.example")


def subscription(
    matching: Matching, target: Target, id: int, since: int = 0, **options: object
) -> Subscription:
    """One that somebody consumes from."""
    options = {"name": str(id), **options}
    made = Subscription(id, target, "ada:desk@a.example", SubscribeOptions(**options), since, 0.0)  # type: ignore[arg-type] # its fields
    made.consumer = Consumer(None, "ada", "desk")
    matching.enter(made)
    return made


def entry(topic: Topic, id: int, flags: int = 0, priority: int = 0) -> Entry:
    return Entry(id, topic, "", priority, 0, GUARANTEED | flags, 1, math.inf)


@pytest.mark.parametrize(
    ("topic", "of_topic", "of_message", "mode"),
    [
        ("t", None, None, "ALL"),
        ("t", None, "ONE", "ONE"),
        ("t", "ALL", "ONE", "ALL"),
        ("t", "ONE", None, "ONE"),
        ("ada:desk@a.example", "ALL", "ALL", "ONE"),
    ],
)
def test_the_mode_is_the_topics_then_the_messages(
    matching: Matching, topic: str, of_topic: DeliveryMode, of_message: DeliveryMode, mode: DeliveryMode
) -> None:
    made = matching.begin(topic)
    made.mode = of_topic
    assert matching.terms(made, Message(delivery=of_message), 60.0)[0] == mode


@pytest.mark.parametrize(
    ("topic", "of_topic", "of_message", "timeout_s"),
    [
        ("t", None, None, None),
        ("t", 5.0, None, 5.0),
        ("t", 5.0, 0.0, 0.0),
        ("ada:desk@a.example", None, None, 60.0),
        ("ada:desk@a.example", None, math.inf, math.inf),
    ],
)
def test_a_timeout_is_the_messages_then_the_topics_and_always_stated_on_a_system_topic(
    matching: Matching, topic: str, of_topic: float, of_message: float, timeout_s: float
) -> None:
    made = matching.begin(topic)
    made.timeout_s = of_topic
    assert matching.terms(made, Message(timeout_s=of_message), 60.0)[1] == timeout_s


def test_all_is_due_to_those_who_take_all_when_it_comes(matching: Matching) -> None:
    topic = matching.begin("t")
    both = subscription(matching, topic, 1)
    subscription(matching, topic, 2, accepts="ONE")
    only_all = subscription(matching, topic, 3, accepts="ALL")
    assert matching.terms(topic, Message(), 60.0) == ("ALL", None, [both, only_all])
    assert matching.terms(topic, Message(delivery="ONE"), 60.0) == ("ONE", None, [])
    matching.leave(both)
    assert matching.taking(topic, "ALL") == [only_all]


def test_what_was_due_before_a_restart_is_due_after_it(matching: Matching) -> None:
    topic = matching.begin("t")
    early = subscription(matching, topic, 1, since=10)
    late = subscription(matching, topic, 2, since=20)
    takers = matching.may_have_taken(topic)
    assert matching.were_due(entry(topic, 15), takers, ()) == [early]
    assert matching.were_due(entry(topic, 15), takers, (2,)) == [early, late]
    assert matching.were_due(entry(topic, 15, STATED), takers, ()) == [early, late]


def test_what_is_kept_is_for_those_who_take_all(matching: Matching) -> None:
    topic, other = matching.begin("a.b"), matching.begin("a.c")
    matching.keep(entry(topic, 1, STATED))
    assert list(matching.kept_for(subscription(matching, topic, 1))) == [topic]
    assert list(matching.kept_for(subscription(matching, topic, 2, accepts="ONE"))) == []
    matching.keep(entry(other, 2, STATED))
    late = subscription(matching, matching.target("a.*", "ada:desk@a.example"), 3)
    assert sorted(kept.name for kept in matching.kept_for(late) if kept) == ["a.b", "a.c"]


def test_those_who_can_take_more_take_turns(matching: Matching) -> None:
    takers = Takers(matching)
    topic = matching.begin("t")
    ada, bob, cyd = (subscription(matching, topic, id) for id in (1, 2, 3))
    for each in (ada, bob, cyd):
        assert takers.take_next(each) is None  # nothing waits: it stands in line
    assert [takers.next_taker(topic, None) for _ in range(4)] == [ada, bob, cyd, ada]
    assert takers.next_taker(topic, bob) is cyd  # who has just had it comes last
    takers.stop_taking(ada)
    bob.consumer = None
    assert [takers.next_taker(topic, None) for _ in range(2)] == [cyd, cyd]
    assert takers.is_only_taker(topic, cyd) is False  # ada has no room, but is there


def test_the_most_urgent_is_next_whichever_queue_it_waits_in(matching: Matching) -> None:
    takers = Takers(matching)
    topic = matching.begin("t")
    ada = subscription(matching, topic, 1)
    only_all = subscription(matching, topic, 2, accepts="ALL")
    to_one = entry(topic, 2, ONE, priority=1)
    urgent, older, newer = entry(topic, 3, priority=2), entry(topic, 1, priority=1), entry(topic, 4)
    topic.shared.push(to_one)
    for each in (urgent, older, newer):
        ada.queue.push(each)
    assert takers.take_next(only_all) is None
    assert [takers.take_next(ada) for _ in range(5)] == [urgent, older, to_one, newer, None]
