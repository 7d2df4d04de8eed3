"""Who may do what: patterns, and the exception that system topics are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.rights import CACHE_ENTRIES_MAX, EVERYTHING, Rights, RightsTable, compile_patterns


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("orders", ["orders"], ["order", "orders.new", "ORDERS", "xorders"]),
        ("orders.*", ["orders.new", "orders.eu"], ["orders", "orders.eu.new"]),
        ("*.new", ["orders.new"], ["orders.old", "eu.orders.new", "new"]),
        ("orders.#", ["orders", "orders.new", "orders.eu.new"], ["ordersx", "x.orders"]),
        ("*.*.#", ["a.b", "a.b.c.d"], ["a"]),
        ("#", ["a", "a.b", "dead.a"], []),
        ("a+b[0]", ["a+b[0]"], ["aab0", "a+b0"]),
    ],
)
def test_a_pattern_covers_levels(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    expression = compile_patterns([pattern])
    assert [topic for topic in covered if not expression.fullmatch(topic)] == []
    assert [topic for topic in not_covered if expression.fullmatch(topic)] == []


@pytest.mark.parametrize(
    "pattern", ["", "#.a", "a.#.b", "a#", "a*", "**", "a b", "a/b", "a>", "a\n", "x" * 256]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Rights(publish=(pattern,))


def test_nothing_is_allowed_that_no_pattern_allows() -> None:
    table = RightsTable("a.example", {"ann": Rights(publish=("orders.#", "news")), "root": EVERYTHING})
    assert table.allows("ann", "publish", "orders.new")
    assert table.allows("ann", "publish", "news")
    assert not table.allows("ann", "publish", "prices")
    assert not table.allows("ann", "subscribe", "orders.new")
    assert not table.allows("nobody", "publish", "orders.new")
    assert table.allows("root", "remove", "prices")


def test_a_system_topic_belongs_to_its_account() -> None:
    table = RightsTable("a.example:720", {"ann": Rights(), "bob": EVERYTHING})
    own = "ann:main@a.example:720"
    assert table.allows("ann", "subscribe", own)
    assert table.allows("ann", "remove", own)
    assert table.allows("ann", "publish", "bob:x@elsewhere.example")
    assert table.allows("bob", "publish", own)
    assert table.allows("bob", "remove", own)
    assert table.allows("bob", "administer", own)
    assert not table.allows("bob", "subscribe", own)
    assert not table.allows("ann", "administer", own)
    assert not table.allows("nobody", "publish", own)


def test_the_same_account_name_at_another_server_is_somebody_else() -> None:
    table = RightsTable("a.example", {"ann": EVERYTHING})
    assert not table.allows("ann", "subscribe", "ann:main@b.example")


def test_an_answer_asked_again_is_the_same_however_many_topics_were_asked_between() -> None:
    table = RightsTable("a.example", {"ann": Rights(publish=("t.*",))})
    for number in range(CACHE_ENTRIES_MAX + 10):
        assert table.allows("ann", "publish", f"t.{number}")
    assert table.allows("ann", "publish", "t.0")
    assert not table.allows("ann", "publish", "u.0")


levels = st.sampled_from(["a", "b", "c"])


def covers(pattern: list[str], topic: list[str]) -> bool:
    """The rule of patterns, written the slow way."""
    if pattern[:1] == ["#"]:
        return True
    if not pattern or not topic:
        return not pattern and not topic
    return pattern[0] in ("*", topic[0]) and covers(pattern[1:], topic[1:])


@given(
    st.lists(levels | st.just("*"), min_size=1, max_size=4),
    st.booleans(),
    st.lists(levels, min_size=1, max_size=5),
)
def test_patterns_agree_with_their_rule(pattern: list[str], rest: bool, topic: list[str]) -> None:
    pattern = [*pattern, "#"] if rest else pattern
    expression = compile_patterns([".".join(pattern)])
    assert bool(expression.fullmatch(".".join(topic))) == covers(pattern, topic)
