"""Patterns of topics: their grammar, what they share, and the trees in which they and topics are found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.errors import Refusal
from routing.patterns import (
    PATTERN_BYTES_MAX,
    AnyPattern,
    PatternTree,
    TopicTree,
    check_pattern,
    check_wanted,
    overlap,
    subscription_takes,
    topic_matches,
)
from tests.support.wishes import takes


@pytest.mark.parametrize("text", ["#", "*", "a.#", "a.*.b", "*.#", "a"])
def test_patterns(text: str) -> None:
    assert check_pattern(text) == text


@pytest.mark.parametrize("text", ["", "#.a", "a.b#", "a*", "a b", "a.#.b", "a/#"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="pattern"):
        check_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("weather.oslo", ["weather.oslo"], ["weather", "weather.oslo.rain", "weather.bergen"]),
        ("weather.*", ["weather.oslo", "weather."], ["weather", "weather.oslo.rain"]),
        ("weather.#", ["weather", "weather.oslo", "weather.oslo.rain"], ["weathers", "x.weather"]),
        ("*.oslo.#", ["weather.oslo", "tide.oslo.high"], ["oslo", "weather.bergen"]),
        ("#", ["a", "a.b", "ada:desk@smqp.example"], []),
    ],
)
def test_a_pattern_covers(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    assert [topic for topic in covered if not topic_matches(pattern, topic)] == []
    assert [topic for topic in not_covered if topic_matches(pattern, topic)] == []


@pytest.mark.parametrize("text", ["a.b", "a.*", "#", "dead.#"])
def test_one_can_want_topics_and_patterns(text: str) -> None:
    assert check_wanted(text) == text


@pytest.mark.parametrize("text", ["a b", "a.#.b", "a>", "x" * 256, "*." + "x" * 254, "\ud800.#", ""])
def test_what_cannot_be_wanted_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_wanted(text)
    assert refusal.value.code == Refusal.BAD_TOPIC


@pytest.mark.parametrize(
    ("pattern", "taken", "not_taken"),
    [
        ("#", ["a", "a.b", "dead"], ["dead.a", "dead.ada:desk@smqp.example", "ada:desk@smqp.example"]),
        ("*.#", ["a", "a.b", "dead"], ["dead.a", "ada:desk@smqp.example"]),
        ("*.a", ["b.a"], ["dead.a"]),
        ("dead.#", ["dead.a", "dead", "dead.ada:desk@smqp.example"], ["a"]),
        ("ada:desk@smqp.#", [], ["ada:desk@smqp.example"]),
    ],
)
def test_replies_and_dead_letters_are_in_no_pattern_that_does_not_name_them(
    pattern: str, taken: list[str], not_taken: list[str]
) -> None:
    assert [topic for topic in taken if not subscription_takes(pattern, topic)] == []
    assert [topic for topic in not_taken if subscription_takes(pattern, topic)] == []


levels = st.sampled_from(["a", "b", "dead", ""])
topics = st.lists(levels, min_size=1, max_size=4).map(".".join).filter(bool)
patterns = st.builds(
    lambda first, rest: ".".join([*first, *rest]),
    st.lists(levels | st.just("*"), max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)


@given(st.sets(patterns, max_size=12), st.sets(topics, max_size=12), st.data())
def test_trees_find_what_a_subscription_takes(
    some_patterns: set[str], some_topics: set[str], data: st.DataObject
) -> None:
    of_patterns: PatternTree[str] = PatternTree()
    of_topics = TopicTree()
    for pattern in some_patterns:
        of_patterns.put(pattern, pattern)
    for topic in some_topics:
        of_topics.add(topic)
    for pattern in data.draw(st.sets(st.sampled_from(sorted(some_patterns)))) if some_patterns else ():
        of_patterns.discard(pattern)
        some_patterns.discard(pattern)
    for topic in data.draw(st.sets(st.sampled_from(sorted(some_topics)))) if some_topics else ():
        of_topics.discard(topic)
        some_topics.discard(topic)
    assert len(of_patterns) == len(some_patterns)
    for topic in some_topics:
        assert sorted(of_patterns.match(topic)) == sorted(p for p in some_patterns if takes(p, topic))
    for pattern in some_patterns:
        assert of_patterns.get(pattern) == pattern
        assert sorted(of_topics.under(pattern)) == sorted(t for t in some_topics if takes(pattern, t))


@given(patterns, st.lists(topics, max_size=12, unique=True), st.data())
def test_topics_that_come_and_go_while_others_are_looked_for_hide_none_of_these(
    pattern: str, names: list[str], data: st.DataObject
) -> None:
    tree = TopicTree()
    there = set(names[: len(names) // 2])
    for topic in there:
        tree.add(topic)
    ever, stayed, came = set(there), set(there), []
    for found in tree.walk(pattern):
        if found is not None:
            came.append(found)
        if names and (changed := data.draw(st.none() | st.sampled_from(names))) is not None:
            (tree.discard if changed in tree else tree.add)(changed)
            stayed.discard(changed)
            ever.add(changed)
    assert len(came) == len(set(came))
    assert {topic for topic in stayed if takes(pattern, topic)} <= set(came)
    assert all(topic in ever and takes(pattern, topic) for topic in came)


@given(st.lists(patterns, max_size=4), topics)
def test_one_of_several_patterns_covers_a_topic_where_any_of_them_does(some: list[str], topic: str) -> None:
    assert AnyPattern(some).covers(topic) == any(topic_matches(each, topic) for each in some)


@given(patterns, topics)
def test_a_subscription_takes_what_its_pattern_says(pattern: str, topic: str) -> None:
    assert subscription_takes(pattern, topic) == takes(pattern, topic)


def test_a_tree_that_is_empty_again_holds_nothing() -> None:
    tree: PatternTree[int] = PatternTree()
    topics = TopicTree()
    for name in ("a.b.#", "a.b", "#"):
        tree.put(name, 1)
    for name in ("a.b.#", "a.b", "#"):
        tree.discard(name)
    topics.add("a.b.c")
    topics.add("ada:desk@smqp.example")
    topics.discard("a.b.c")
    assert not tree._root.children
    assert not topics._root.children


@given(patterns, patterns, topics)
def test_an_overlap_covers_what_both_cover(one: str, other: str, topic: str) -> None:
    shared = overlap(one, other)
    both = topic_matches(one, topic) and topic_matches(other, topic)
    assert both == (shared is not None and topic_matches(shared, topic))
    assert overlap(other, one) == shared


def test_an_overlap_too_long_to_be_written_is_the_first_of_both() -> None:
    one, other = "*." + "x" * 253, "y" * 253 + ".*"
    assert overlap(one, other) == one
    assert len(one) <= PATTERN_BYTES_MAX
