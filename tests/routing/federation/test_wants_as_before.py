"""Wants that are again what they were before, as peers believe that each other have them still."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.peering.decisions import TellNews
from routing.peering.leaves import BEGINNING_BYTES, NumberedBucket, hash_of, read_bucket, write_digest
from routing.peering.news import NewsVersion
from tests.support.examples import examples
from tests.support.news_site import NewsSite
from tests.support.notary import said, wanted
from tests.support.sites import RouterFederation
from tests.support.wants import SPACING_S, after, ticked

ALSO = "weather.sport.35"
WEATHER, SPORT = wanted("weather"), wanted("weather", ALSO)
"""Of one bucket: `x` wants the first, then both, then the first again."""


def test_the_buckets_of_these_tests_are_one() -> None:
    assert [one.index for one in WEATHER] == [one.index for one in SPORT]


def has(number: int, wants: list[NumberedBucket]) -> NewsVersion:
    """What a peer says that it has of `x`."""
    hashes = {one.index: hash_of(read_bucket(one.data).hashes) for one in wants}
    return NewsVersion("x", 1, number, write_digest(hashes, BEGINNING_BYTES))


def knows_weather(*peers: str) -> NewsSite:
    """Knows of news 3 and not of news 2, as `b` has the first, so that `b` is not told the bucket again."""
    site = NewsSite(*peers)
    site.link_up("b", has(1, WEATHER))
    site.spreading.hear(site.now, "c", said("x", 3, wants=WEATHER), 0.0, WEATHER)
    assert [told.buckets for told in site.told_to("b") if isinstance(told, TellNews)][-1] == ()
    return site


# -- who passes them on -------------------------------------------------------------------------------


def test_a_peer_that_tells_what_was_between_is_told_what_is_so_again() -> None:
    site = knows_weather("b", "c")
    assert site.spreading.hear_wants(site.now, "b", "x", (1, 2), SPORT) == ""
    assert [told.buckets for told in site.told_to("b")] == [tuple(WEATHER)]


def test_a_peer_that_tells_the_news_between_is_told_what_is_so_again() -> None:
    site = knows_weather("b", "c")
    site.hear("b", said("x", 2, wants=SPORT))
    assert [told.buckets for told in site.told_to("b")] == [tuple(WEATHER)]


def test_it_is_told_once() -> None:
    site = knows_weather("b", "c")
    for _ in range(3):
        site.hear("b", said("x", 2, wants=SPORT))
        site.spreading.hear_wants(site.now, "b", "x", (1, 2), SPORT)
    assert [told.buckets for told in site.told_to("b")] == [tuple(WEATHER)]


def test_what_was_told_before_what_was_between_is_told_again() -> None:
    site = NewsSite("b", "c")
    site.spreading.hear(site.now, "c", said("x", 1, wants=WEATHER), 0.0, WEATHER)
    site.hear("c", said("x", 3, wants=WEATHER))
    site.told_to("b")
    site.hear("b", said("x", 2, wants=SPORT))
    assert [told.buckets for told in site.told_to("b")] == [tuple(WEATHER)]


def test_what_crosses_with_what_was_between_is_not_told_again() -> None:
    site = NewsSite("b", "c")
    site.spreading.hear(site.now, "c", said("x", 3, wants=WEATHER), 0.0, WEATHER)
    assert [told.buckets for told in site.told_to("b")] == [(), tuple(WEATHER)]
    site.hear("b", said("x", 2, wants=SPORT))
    site.spreading.hear_wants(site.now, "b", "x", (1, 2), SPORT)
    assert site.told_to("b") == []


def told_weather() -> NewsSite:
    """Has told `b`, which had news 2, as of news 3 that only the weather is wanted."""
    site = NewsSite("b", "c")
    site.spreading.hear(site.now, "c", said("x", 3, wants=WEATHER), 0.0, WEATHER)
    for told in site.told_to("b"):
        site.spreading.news_arrived("b", told.number, taken=True)
    site.router.federation.link_down("b")
    site.link_up("b", has(2, SPORT))
    assert tuple(WEATHER) in [told.buckets for told in site.told_to("b")]
    return site


def test_a_bucket_that_a_peer_told_before_it_was_told_another_is_not_what_it_has() -> None:
    site = told_weather()
    site.hear("c", said("x", 4, wants=SPORT))
    site.told_to("b")
    assert site.spreading.hear_wants(site.now, "b", "x", (1, 2), SPORT) == ""
    assert [told.buckets for told in site.told_to("b")] == [tuple(SPORT)]


def test_what_a_peer_said_that_it_has_before_it_was_told_another_is_not_what_it_has() -> None:
    site = told_weather()
    site.hear("c", said("x", 4, wants=SPORT))
    for number in range(1, 10):
        site.spreading.news_arrived("b", number, taken=True)
    site.spreading.hear_known(site.now, "b", [has(2, SPORT)], more=False)
    site.told_to("b")
    site.spreading.hear_wants(site.now, "c", "x", (1, 4), SPORT)
    assert [told.buckets for told in site.told_to("b")] == [tuple(SPORT)]


# -- who takes them -----------------------------------------------------------------------------------


def test_what_comes_late_and_is_so_again_is_taken_and_passed_on() -> None:
    """Who told the last news left out what was here until the news between came."""
    site = NewsSite("b", "c", "d")
    site.spreading.hear(site.now, "b", said("x", 2, wants=SPORT), 0.0, SPORT)
    site.hear("c", said("x", 4, wants=WEATHER))
    assert site.who_wants("weather") is None
    site.told_to("d")
    assert site.spreading.hear(site.now, "b", said("x", 3, wants=WEATHER), 0.0, WEATHER) == ""
    assert site.who_wants("weather") == {"x"}
    assert [told.buckets for told in site.told_to("d")] == [tuple(WEATHER)]


def test_what_comes_late_and_is_not_so_any_more_is_passed_over() -> None:
    site = NewsSite("b", "c")
    site.hear("c", said("x", 4, wants=SPORT))
    assert site.spreading.hear(site.now, "b", said("x", 3, wants=WEATHER), 0.0, WEATHER) == ""
    assert site.who_wants("weather") is None


# -- in any federation --------------------------------------------------------------------------------


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32))
@example(24)
@example(257)
@example(505)
@example(517547)
def test_all_is_known_at_once_whatever_came_and_went_while_it_was_told(seed: int) -> None:
    """Nobody has to ask for it, as is done each minute."""
    drawn = random.Random(seed)
    names = "abcdef"[: drawn.randint(3, 6)]
    links = {(one, other) for one, other in zip(names, names[1:] + names[0], strict=True)}
    if len(names) > 4 and drawn.random() < 0.5:
        links.add(("b", "d"))
    sites = RouterFederation(links, seed)
    sites.begin_news()
    note_want = sites.routers["a"].federation.spreading.note_want
    note_want(("ALL", "weather"), True)
    after(sites)
    wanting, down = False, set[tuple[str, str]]()
    for _ in range(drawn.randint(4, 30)):
        match drawn.choice(["want", "want", "link", "carry", "carry"]):
            case "want":
                wanting = not wanting
                note_want(("ALL", ALSO), wanting)
            case "link":
                link = drawn.choice(sorted(links))
                (sites.join if link in down else sites.cut)(*link)
                down ^= {link}
            case "carry":
                sites.settle(drawn.randint(0, 12))
        ticked(sites, 0.1)
    for link in sorted(down):
        sites.join(*link)
    for _ in range(2):
        sites.settle()
        ticked(sites, SPACING_S)
    sites.settle()
    for site in names[1:]:
        known = sites.routers[site].federation.known_wants
        assert not known.unsure(ALSO), site
        assert bool(known.wanting("ALL", ALSO)) == wanting, site
