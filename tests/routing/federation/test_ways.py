"""What follows from what sites say of their links."""

from routing.federation.link_graph import LinkEnd
from routing.federation.ways import Ways

FLOODS = LinkEnd(flood=True)


def test_a_link_floods_that_is_there_by_the_word_of_both_ends_or_of_the_only_one_that_speaks() -> None:
    said = {"a": {"b": LinkEnd()}, "b": {"a": LinkEnd(), "c": FLOODS}, "c": {"b": LinkEnd()}}
    assert Ways("a", said).links.flooding("abc") == ("b", "c")
    assert Ways("a", said).links.flooding("ac") is None
    denied = {**said, "c": {}}
    assert Ways("a", denied).links.flooding("abc") is None
    unheard = {site: said[site] for site in "ab"}
    assert Ways("a", unheard).links.flooding("abc") == ("b", "c")
