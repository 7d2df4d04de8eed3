"""Who may do what: patterns, and the exception that system topics are."""

import pytest

from routing.names import dead_letter_topic, make_address
from routing.rights import CACHE_ENTRIES_MAX, EVERYTHING, Rights, RightsTable


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


def test_to_an_account_that_cannot_read_it_nobody_publishes() -> None:
    table = RightsTable("a.example", {"ann": EVERYTHING, "bob": EVERYTHING, "eve": Rights()}, ["eve"])
    assert table.allows("ann", "publish", "bob:x@a.example")
    assert not table.allows("ann", "publish", "nobody:x@a.example")
    assert not table.allows("ann", "publish", "eve:x@a.example")
    assert not table.allows("ann", "publish", "smqpd:system@a.example")
    assert not table.allows("ann", "publish", "smqpd:system@b.example")
    assert table.allows("ann", "publish", "nobody-we-know:x@b.example")


def test_dead_letters_of_a_system_topic_are_read_by_its_account_alone() -> None:
    table = RightsTable("a.example", {"ann": Rights(), "bob": EVERYTHING})
    dead = "dead.ann:main@a.example"
    assert table.allows("ann", "subscribe", dead)
    assert table.allows("ann", "remove", dead)
    assert not table.allows("bob", "subscribe", dead)
    assert table.allows("bob", "administer", dead)
    assert not any(table.allows(account, "publish", dead) for account in ("ann", "bob"))
    assert not table.allows("ann", "subscribe", "dead.ann:main@b.example")
    assert not table.allows("bob", "subscribe", "dead.ann:main@b.example")
    assert table.allows("bob", "subscribe", "dead.orders")
    assert table.allows("bob", "subscribe", "dead.ann:main&co@a.example")


def test_dead_letters_of_a_long_system_topic_are_its_accounts_too() -> None:
    server = "a" * 125 + "." + "b" * 58
    long = make_address("ann", "c" * 64, server)
    assert 250 < len(long) <= 255
    table = RightsTable(server, {"ann": Rights(), "bob": EVERYTHING})
    assert table.allows("ann", "subscribe", dead_letter_topic(long))
    assert not table.allows("bob", "subscribe", dead_letter_topic(long))


def test_the_same_account_name_at_another_server_is_somebody_else() -> None:
    table = RightsTable("a.example", {"ann": EVERYTHING})
    assert not table.allows("ann", "subscribe", "ann:main@b.example")


def test_an_answer_asked_again_is_the_same_however_many_topics_were_asked_between() -> None:
    table = RightsTable("a.example", {"ann": Rights(publish=("t.*",))})
    for number in range(CACHE_ENTRIES_MAX + 10):
        assert table.allows("ann", "publish", f"t.{number}")
    assert table.allows("ann", "publish", "t.0")
    assert not table.allows("ann", "publish", "u.0")


def test_only_an_account_that_can_log_in_operates_the_site() -> None:
    accounts = {"ann": Rights(operate="look"), "bob": Rights(administer=("#",)), "root": EVERYTHING}
    table = RightsTable("a.example", accounts)
    assert [table.operates(name) for name in ("ann", "bob", "root", "eve")] == ["look", "", "change", ""]
    assert RightsTable("a.example", accounts, ["root"]).operates("root") == ""
