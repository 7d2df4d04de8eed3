"""What sites want, as it spreads with their news: what is asked for, and how much of it is told."""

import msgspec
import pytest

from routing.federation import known_wants, missed, news_allowances, own_leaves, saying, spreading
from routing.federation.saying import SPACING_S, WANTS_AT_ONCE, WANTS_PER_S
from routing.peering.decisions import (
    DiscardWants,
    TellNews,
    TellWants,
)
from routing.peering.leaves import (
    BEGINNING_BYTES,
    BUCKET_BYTES_MAX,
    BUCKETS,
    Bucket,
    Leaf,
    NumberedBucket,
    bucket_of,
    read_bucket,
    read_digest,
    write_bucket,
)
from routing.peering.leaves import told as as_told
from routing.peering.news import (
    NewsVersion,
)
from tests.support.news_site import KEPT_S, NewsSite
from tests.support.notary import NamedNotary, said, wanted
from tests.support.sites import RouterFederation


class Talk:
    """What the site `a` says, and what `b` makes of it."""

    def __init__(self) -> None:
        self._sites = RouterFederation({("a", "b")})
        self._sites.begin_news()
        self._settle()

    def _settle(self) -> None:
        self._sites.pass_time(SPACING_S)
        self._sites.settle()

    def wants(self, name: str, *, wanted: bool = True) -> None:
        """`a` wants a topic, or does no more."""
        spreading = self._sites.routers["a"].federation.spreading
        spreading.note_want(("ALL", name), wanted)
        self._sites.take("a")
        self._settle()

    def known(self, topic: str) -> set[str] | None:
        """Who wants it, as `b` knows; None where it does not."""
        wants = self._sites.routers["b"].federation.known_wants
        return None if wants.unsure(topic) else set(wants.wanting("ALL", topic))


class TestWants:
    def test_those_that_come_with_news_that_came_before_without_them_are_passed_on(self) -> None:
        site, buckets = NewsSite("b", "c"), wanted("weather")
        news = said("x", 1, "b", wants=buckets)
        site.hear("b", news)
        site.told()
        assert site.spreading.hear(site.now, "b", news, 0.0, buckets) == ""
        told = [(d.peer, d.buckets) for d in site.router.take() if isinstance(d, TellWants)]
        assert told == [("c", tuple(buckets))]

    def test_what_was_too_much_for_a_while_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 1.0)
        monkeypatch.setattr(news_allowances, "SITE_WANTS_AT_ONCE", 30.0)
        monkeypatch.setattr(news_allowances, "SITE_WANTS_PER_S", 1.0)
        site = NewsSite("b", "c")
        buckets = wanted("weather", "sport")
        first, second = said("x", 1, "b", wants=buckets), said("x", 2, "b", wants=buckets)
        site.router.take()
        assert site.spreading.hear(site.now, "b", first, 0.0, buckets)
        assert site.asked() == []
        site.tick(60.0)
        ((peer, one),) = site.asked()
        assert (peer, one.site, one.number) == ("b", "x", 1)
        lacking = site.spreading.wants.lacks("x")
        missed = [bucket for bucket in buckets if bucket.index in lacking]
        assert len(missed) == 1
        assert site.spreading.hear_wants(site.now, "b", "x", (1, 1), missed) == ""
        assert site.who_wants("sport") == {"x"}
        site.hear("b", second)
        site.tick(60.0)
        assert site.asked() == []
        for number in (3, 4):
            site.hear("b", said("x", number, "b", wants=buckets))
        site.tick(60.0)
        ((_, one),) = site.asked()
        assert one.number == 3

    def test_who_asks_does_not_say_that_it_has_what_has_changed_since(self) -> None:
        """It may begin with the same bytes."""
        site, before = NewsSite("b"), wanted("weather")
        site.spreading.hear(site.now, "b", said("x", 1, wants=before), 0.0, before)
        (sport,) = [bucket for bucket in wanted("sport") if bucket.index != before[0].index]
        later = Bucket((*read_bucket(before[0].data).leaves, Leaf("ONE", "weather", b"salt")))
        changed = [NumberedBucket(before[0].index, write_bucket(later)), sport]
        site.hear("b", said("x", 2, wants=changed))
        site.spreading.hear_wants(site.now, "b", "x", (1, 2), [sport])
        site.router.take()
        site.tick(60.0)
        ((_, one),) = site.asked()
        assert set(read_digest(one.wants, BEGINNING_BYTES)) == {sport.index}

    def test_wants_are_asked_for_of_another_peer_each_time(self) -> None:
        site = NewsSite("b", "c", "d")
        site.hear("c", said("x", 1, wants=wanted("weather")))
        asked = []
        site.router.take()
        for _ in range(6):
            site.tick(60.0)
            asked += [peer for peer, _ in site.asked()]
        assert asked == ["c", "b", "d"] * 2
        site.router.federation.link_down("c")
        site.router.take()
        for _ in range(4):
            site.tick(60.0)
        assert {peer for peer, _ in site.asked()} == {"b", "d"}

    def test_wants_that_were_refused_are_asked_for_of_who_told_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other peer hides the name, so that nothing seems to be lacking."""
        monkeypatch.setattr(news_allowances, "WANTS_AT_ONCE", 30.0)
        monkeypatch.setattr(news_allowances, "WANTS_PER_S", 1.0)
        site, buckets = NewsSite("b", "c"), wanted("weather")
        site.spreading.hear(site.now, "b", said("y", 1, wants=buckets), 0.0, buckets)
        news = said("x", 1, wants=buckets)
        hidden = [
            NumberedBucket(one.index, write_bucket(as_told(read_bucket(one.data), lambda leaf: False)))
            for one in buckets
        ]
        site.spreading.hear(site.now, "c", news, 0.0, hidden)
        assert site.spreading.hear(site.now, "b", news, 0.0, buckets) == "it tells more wants than it may"
        assert site.who_wants("weather") == {"y"}
        site.asked()
        site.tick(60.0)
        ((peer, one),) = site.asked()
        assert (peer, one.site) == ("b", "x")
        assert site.spreading.hear_wants(site.now, "b", "x", (1, 1), buckets) == ""
        assert site.who_wants("weather") == {"x", "y"}
        site.tick(3_600.0)
        assert [one for one in site.asked() if one[1].site == "x"] == []

    def test_who_writes_the_wants_of_a_site_longer_than_they_are_takes_no_more_from_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        buckets = wanted("weather")
        monkeypatch.setattr(news_allowances, "SITE_WANTS_AT_ONCE", float(len(buckets[0].data)))
        site = NewsSite("b")
        ((leaf,), hidden) = msgspec.msgpack.decode(buckets[0].data)
        longer = msgspec.msgpack.encode([[leaf], hidden, bytes(10_000)])
        news = said("x", 1, wants=buckets)
        assert site.spreading.hear(site.now, "b", news, 0.0, [NumberedBucket(buckets[0].index, longer)]) == ""
        assert site.who_wants("weather") == {"x"}

    def test_one_peer_that_forges_names_keeps_nothing_from_being_asked_of_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(missed, "MISSED_MAX", 5)
        site = NewsSite("b", "c")
        for number in range(20):
            site.hear("b", said(f"x{number}", 1, by="b"))
        site.notary.distrusted.add("y")
        site.hear("c", said("y", 1))
        site.router.take()
        site.tick(60.0)
        asked = site.asked()
        assert [one.site for peer, one in asked if peer == "c"] == ["y"]
        assert len([peer for peer, _ in asked if peer == "b"]) == 5

    def test_who_asks_is_told_what_it_lacks_and_only_so_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "ASKS_AT_ONCE", 3.0)
        site, buckets = NewsSite("b", "c"), wanted("weather")
        site.spreading.hear(site.now, "b", said("x", 1, "b", wants=buckets), 0.0, buckets)
        site.router.take()
        answers = []
        for _ in range(5):
            for _ in range(10):
                site.spreading.news_arrived("c", 0, taken=True)
            site.spreading.hear_known(site.now, "c", [NewsVersion("x", 1, 1)], more=False)
            answers.append([d.buckets for d in site.router.take() if isinstance(d, TellWants)])
        assert answers == [[tuple(buckets)]] * 3 + [[]] * 2

    def test_who_asks_again_is_told_nothing_before_it_has_acknowledged_the_answer(self) -> None:
        site, buckets = NewsSite("b", "c"), wanted("weather")
        site.spreading.hear(site.now, "b", said("x", 1, "b", wants=buckets), 0.0, buckets)
        told = len(site.told_to("c"))

        def ask() -> int:
            site.tick(60.0)
            site.told_to("c")
            site.spreading.hear_known(site.now, "c", [NewsVersion("x", 0, 0)], more=False)
            return len(site.told_to("c"))

        assert [ask() for _ in range(100)] == [0] * 100  # what it was told when the link came up
        for _ in range(told):
            site.spreading.news_arrived("c", 0, taken=True)
        assert [ask() for _ in range(100)] == [1] + [0] * 99
        for _ in range(100):
            site.spreading.news_arrived("c", 0, taken=True)
        assert ask() == 1

    def test_who_subscribes_is_told_of_at_once_and_many_together(self) -> None:
        site = NewsSite("b")
        site.tick(SPACING_S)
        site.said()
        for number in range(100):
            site.spreading.note_want(("ALL", f"t{number}"), True)
            site.router.timing.tick(site.now)
        assert len(site.said()) == 1
        site.tick(1.0)
        assert len(site.said()) == 1
        assert site.router.wake_at > site.now

    def test_subscriptions_that_come_and_go_all_the_time_are_told_of_only_so_often(self) -> None:
        site = NewsSite("b")
        count = 0
        for number in range(2_000):
            site.spreading.note_want(("ALL", "t"), number % 2 == 0)
            site.tick(0.1)
            count += len(site.said())
        assert 100 <= count <= WANTS_AT_ONCE + 200.0 * (WANTS_PER_S + 1 / SPACING_S) + 5
        assert WANTS_PER_S + 1 / SPACING_S < news_allowances.SAID_PER_S

    def test_who_wants_much_tells_no_more_than_others_take_though_its_wants_and_links_change_all_the_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(saying, "WANTS_BYTES_PER_S", 200.0)
        monkeypatch.setattr(saying, "WANTS_BYTES_AT_ONCE", 10_000.0)
        site, seconds = NewsSite("b", "c"), 300
        for number in range(1_000):
            site.spreading.note_want(("ALL", f"t{number}"), True)
        site.tick(SPACING_S)
        whole = sum(len(bucket.data) for told in site.told_to("b") for bucket in told.buckets)
        bytes_told = links_told = 0
        for number in range(seconds):
            for mode in ("ALL", "ONE"):
                site.spreading.note_want((mode, f"t{number}"), mode == "ONE")
            site.router.federation.link_down("c") if number % 2 else site.link_up("c")
            site.tick(1.0)
            news = site.told_to("b")
            bytes_told += sum(len(bucket.data) for told in news for bucket in told.buckets)
            links_told += len(news)
        assert 100.0 * seconds < bytes_told < 10_000.0 + whole + 200.0 * seconds
        assert links_told > seconds / SPACING_S / 2
        site.tick(300.0)
        same = NewsSite("b")
        for number in range(1_000):
            same.spreading.note_want(("ONE" if number < seconds else "ALL", f"t{number}"), True)
        same.tick(SPACING_S)
        assert site.spreading.known["a"].statement.wants == same.spreading.known["a"].statement.wants

    def test_what_a_site_says_is_taken_by_all(self) -> None:
        assert 2 * saying.WANTS_BYTES_PER_S <= news_allowances.SITE_WANTS_PER_S
        whole = BUCKETS * BUCKET_BYTES_MAX
        assert saying.WANTS_BYTES_AT_ONCE + whole <= news_allowances.SITE_WANTS_AT_ONCE

    def test_a_peer_may_tell_only_so_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "WANTS_AT_ONCE", 100.0)
        monkeypatch.setattr(news_allowances, "WANTS_PER_S", 10.0)
        site, buckets = NewsSite("b"), wanted(*(f"t{number}" for number in range(50)))
        refused = site.spreading.hear(site.now, "b", said("x", 1, wants=buckets), 0.0, buckets)
        assert refused == "it tells more wants than it may"
        assert site.knows("x") == (1, 1)

    def test_who_tells_what_a_site_has_not_said_takes_nothing_from_that_site(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        buckets = wanted("weather")
        monkeypatch.setattr(news_allowances, "SITE_WANTS_AT_ONCE", float(len(buckets[0].data)))
        monkeypatch.setattr(news_allowances, "SITE_WANTS_PER_S", 0.0)
        site, forged = NewsSite("b", "c"), wanted("weathez")
        forged = [NumberedBucket(buckets[0].index, forged[0].data)]
        site.hear("b", said("x", 1, "b", wants=buckets))
        for _ in range(5):
            assert site.spreading.hear_wants(site.now, "b", "x", (1, 1), forged) == spreading.UNSIGNED
        assert site.spreading.hear_wants(site.now, "c", "x", (1, 1), buckets) == ""
        assert site.who_wants("weather") == {"x"}

    def test_a_site_that_is_forgotten_wants_nothing(self) -> None:
        site, buckets = NewsSite("b"), wanted("weather")
        site.spreading.hear(site.now, "b", said("x", 1, wants=buckets), 0.0, buckets)
        assert site.who_wants("weather") == {"x"}
        site.tick(KEPT_S + 1.0)
        assert site.who_wants("weather") == set()
        assert DiscardWants("x") in site.router.take()

    def test_a_site_that_wants_too_much_passes_for_one_that_wants_what_falls_into_a_bucket(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One client's topics, chosen so that they fall together: the site says still what else it wants."""
        monkeypatch.setattr(own_leaves, "BUCKET_BYTES_MAX", 1_000)
        many = [name for name in map("t{}".format, range(10_000)) if bucket_of(name) == 0][:100]
        say, other = Talk(), next(name for name in map("u{}".format, range(100)) if bucket_of(name))
        for name in (other, *many):
            say.wants(name)
        assert say.known(other) == {"a"}
        assert [say.known(name) for name in many] == [None] * 100
        for name in many[1:]:
            say.wants(name, wanted=False)
        assert (say.known(other), say.known(many[0]), say.known(many[1])) == ({"a"}, {"a"}, set())

    def test_all_that_a_site_wants_beyond_what_others_keep_of_it_falls_into_buckets_that_are_not_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for where in (own_leaves, known_wants):
            monkeypatch.setattr(where, "SITE_LEAVES_MAX", 100)
        say, names = Talk(), [f"t{number}" for number in range(200)]
        for name in names:
            say.wants(name)
        assert {str(say.known(name)) for name in names} == {"{'a'}", "None"}
        assert 80 <= [say.known(name) for name in names].count({"a"}) <= 100
        for name in names[:50]:
            say.wants(name, wanted=False)
            say.wants(name.replace("t", "u"))
        known = [name for name in names[50:] if say.known(name)]
        assert len(known) >= 40
        for name in names[100:]:
            say.wants(name, wanted=False)
        assert [say.known(name) for name in names[50:100]] == [{"a"}] * 50

    def test_what_it_wants_is_told_again_when_it_says_again_what_it_wants(self) -> None:
        site, buckets = NewsSite("b", "c"), wanted("weather")
        site.told_to("c")
        for number in (1, 3):
            site.spreading.hear(site.now, "b", said("x", number, wants=buckets), 0.0, buckets)
            assert [told.buckets for told in site.told_to("c")] == [tuple(buckets)]
            site.hear("b", said("x", number + 1))
            assert [told.buckets for told in site.told_to("c")] == [()]

    def test_what_a_site_wants_that_was_forgotten_is_told_when_it_comes_back(self) -> None:
        site, buckets = NewsSite("b", "c"), wanted("weather")
        for number in (1, 2):
            site.spreading.hear(site.now, "b", said("x", number, wants=buckets), 0.0, buckets)
            told = [d.buckets for d in site.router.take() if isinstance(d, TellNews) and d.peer == "c"]
            assert tuple(buckets) in told
            site.tick(KEPT_S + 1.0)
            assert site.knows("x") is None

    def test_news_of_the_form_before_is_read(self) -> None:
        site = NewsSite("b")
        signed = NamedNotary("x").sign(b'{"site":"x","boot":1,"number":1,"links":[{"peer":"b","up":true}]}')
        assert signed is not None
        assert site.hear("b", signed) == ""
        assert not site.spreading.wants.tells("x")
