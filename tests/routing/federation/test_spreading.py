"""News of sites: who hears what, how often, what is refused, and what is forgotten."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import Refusal
from routing.federation import known_wants, missed, news_allowances, own_leaves, saying, spreading
from routing.federation.saying import EVERY_S, PIECE_BYTES, SPACING_S, WANTS_AT_ONCE, WANTS_PER_S
from routing.numbers import NUMBER_MAX
from routing.peering.copies import PeerRules
from routing.peering.decisions import (
    DiscardNews,
    DiscardWants,
    StoreNews,
    TellKnownNews,
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
    CERTIFICATE_BYTES_MAX,
    LINKS_MAX,
    SIGNATURE_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    KnownNews,
    NewsVersion,
    SignedNews,
    SiteNews,
    Version,
    read_statement,
)
from routing.router import Router
from tests.routing.federation.test_radius import graphs
from tests.support.notary import NamedNotary, said, wanted
from tests.support.sites import SETTINGS, Federation

KEPT_S = SETTINGS.news_kept_s


class Site:
    """The site `a` with peers, as one that tests what is told to it."""

    def __init__(self, *peers: str, boot: int = 1) -> None:
        self.router = Router("a", boot, SETTINGS, lambda: 1_700_000_000_000)
        self.spreading = self.router.federation.spreading
        self.now = 1_000.0
        self.notary = NamedNotary("a")
        for peer in peers:
            self.router.federation.set_peer(peer, PeerRules())
        self.spreading.set_notary(self.notary)
        for peer in peers:
            self.link_up(peer)

    def link_up(self, peer: str, *has: NewsVersion) -> None:
        self.router.federation.link_up(peer)
        self.spreading.hear_known(self.now, peer, has, more=False)
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.router.timing.tick(self.now)
        self.router.maintain(self.now)

    def hear(self, peer: str, news: SignedNews, age_s: float = 0.0) -> str:
        return self.spreading.hear(self.now, peer, news, age_s)

    def knows(self, site: str) -> Version | None:
        known = self.spreading.known.get(site)
        return known.statement.version if known is not None else None

    def told(self) -> list[tuple[str, str]]:
        """To whom news was told since the last call, and of which site."""
        return [(d.peer, d.news.statement.site) for d in self.router.take() if isinstance(d, TellNews)]

    def told_to(self, peer: str) -> list[TellNews | TellWants]:
        """What was told to a peer since the last call."""
        return [d for d in self.router.take() if isinstance(d, TellNews | TellWants) and d.peer == peer]

    def who_wants(self, topic: str) -> set[str] | None:
        """None where it is not known of some site whether it does."""
        wants = self.spreading.wants
        return None if wants.unsure(topic) else set(wants.wanting("ALL", topic))

    def asked(self) -> list[tuple[str, NewsVersion]]:
        """Whom it has asked for what since the last call."""
        return [(d.peer, one) for d in self.router.take() if isinstance(d, TellKnownNews) for one in d.has]

    def said(self) -> list[SiteNews]:
        """What the site has said of itself since the last call."""
        stored = [d.news.statement for d in self.router.take() if isinstance(d, StoreNews)]
        return [statement for statement in stored if statement.site == "a"]


class Talk:
    """What the site `a` says, and what `b` makes of it."""

    def __init__(self) -> None:
        self._sites = Federation({("a", "b")})
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


def test_a_site_says_which_of_its_links_are_up_and_says_it_again_once_that_changes() -> None:
    site = Site("b", "c")
    first, *_ = site.said()
    assert {link.peer: link.up for link in first.links} == {"b": True, "c": False}
    site.tick(SPACING_S)
    (second,) = site.said()
    assert {link.peer: link.up for link in second.links} == {"b": True, "c": True}
    assert second.version > first.version
    site.tick(SPACING_S)
    site.router.federation.link_down("c")
    site.tick()
    (third,) = site.said()
    assert {link.peer: link.up for link in third.links} == {"b": True, "c": False}


def test_a_link_that_comes_and_goes_is_told_of_only_so_often() -> None:
    site = Site("b", "c")
    site.tick(SPACING_S)
    site.said()
    for _ in range(100):
        site.router.federation.link_down("c")
        site.tick(SPACING_S / 100)
        site.link_up("c")
        site.tick(SPACING_S / 100)
    assert 1 <= len(site.said()) <= 3


def test_a_site_that_has_many_links_says_less_often_that_they_have_changed() -> None:
    peers = [f"p{number}" for number in range(500)]
    site = Site(*peers)
    site.tick(60.0)
    site.said()
    for _ in range(10):
        site.router.federation.link_down("p1")
        site.tick(SPACING_S)
        site.link_up("p1")
        site.tick(SPACING_S)
    assert 2 <= len(site.said()) <= 10 * 2 * SPACING_S / (3 * SPACING_S) + 1


def test_a_link_that_comes_back_before_it_was_told_of_is_no_news() -> None:
    site = Site("b", "c")
    site.tick(SPACING_S)
    site.tick(SPACING_S / 2)
    site.said()
    site.router.federation.link_down("c")
    site.link_up("c")
    site.tick(SPACING_S)
    assert site.said() == []


def test_a_site_of_which_nothing_changes_says_so_each_hour() -> None:
    site = Site("b")
    site.tick(SPACING_S)
    site.said()
    site.tick(EVERY_S / 2)
    assert site.said() == []
    assert site.router.wake_at <= site.now + EVERY_S
    site.tick(EVERY_S / 2)
    assert len(site.said()) == 1


def test_a_site_that_has_no_link_says_nothing() -> None:
    site = Site("b")
    site.tick(SPACING_S)
    site.said()
    site.router.federation.link_down("b")
    site.tick(EVERY_S)
    assert site.said() == []


def test_news_goes_to_all_peers_but_the_one_it_comes_from_and_once() -> None:
    site = Site("b", "c", "d")
    site.told()
    assert site.hear("b", said("x", 1, "b")) == ""
    assert site.told() == [("c", "x"), ("d", "x")]
    assert site.hear("c", said("x", 1, "b")) == ""
    assert site.told() == []


def test_who_has_older_news_is_told_the_newer() -> None:
    site = Site("b", "c")
    site.hear("b", said("x", 2, "b"))
    site.told()
    site.hear("c", said("x", 1, "b"))
    assert site.told() == []  # it was told when the newer came
    assert site.knows("x") == (1, 2)
    site.router.federation.link_down("c")
    site.link_up("c", NewsVersion("x", 1, 1))
    assert ("c", "x") in site.told()


def test_a_later_boot_is_later_news_whatever_the_number() -> None:
    site = Site("b")
    site.hear("b", said("x", 900, "b", boot=1))
    site.hear("b", said("x", 1, "b", boot=2))
    site.hear("b", said("x", 901, "b", boot=1))
    assert site.knows("x") == (2, 1)


def test_a_peer_hears_nothing_before_it_has_said_what_it_has() -> None:
    site = Site("b", "c")
    site.hear("b", said("x", 1, "b"))
    site.router.federation.link_down("c")
    site.router.take()
    site.router.federation.link_up("c")
    decisions = site.router.take()
    (has,) = [d.has for d in decisions if isinstance(d, TellKnownNews)]
    assert {one.site for one in has} == {"a", "x"}
    assert not any(isinstance(d, TellNews) for d in decisions)
    site.spreading.hear_known(site.now, "c", [NewsVersion("x", 1, 1)], more=True)
    assert site.told() == []
    site.spreading.hear_known(site.now, "c", [NewsVersion("y", 1, 1)], more=False)
    assert site.told() == [("c", "a")]


def test_a_peer_that_knows_no_news_is_told_none() -> None:
    site = Site("b")
    site.router.federation.set_peer("old", PeerRules())
    site.router.federation.link_up("old", knows_news=False)
    site.tick(SPACING_S)
    site.hear("b", said("x", 1, "b"))
    told = [d.peer for d in site.router.take() if isinstance(d, TellNews | TellKnownNews)]
    assert "b" in told
    assert "old" not in told
    assert site.hear("old", said("y", 1, "b")) == ""
    assert site.knows("y") is None


class TestLies:
    def test_what_another_has_signed_is_refused_and_goes_no_further(self) -> None:
        site = Site("b", "c")
        site.hear("b", said("x", 1, "b"))
        site.told()
        assert site.hear("b", said("x", 2, "b", "c", by="b")) == "it is signed by another site"
        assert (site.knows("x"), site.told()) == ((1, 1), [])

    def test_what_was_changed_on_the_way_is_refused(self) -> None:
        site = Site("b")
        good, other = said("x", 1, "b"), said("x", 2, "b", "c")
        forged = SignedNews(other.statement, good.certificate, good.signature)
        assert site.hear("b", forged) == "its signature is wrong"
        assert site.knows("x") is None

    def test_news_of_this_site_that_it_never_said_is_refused(self) -> None:
        site = Site("b")
        before = site.knows("a")
        assert site.hear("b", said("a", NUMBER_MAX, "b", boot=NUMBER_MAX, by="b"))
        site.tick(SPACING_S)
        assert site.knows("a") == before

    def test_older_news_that_is_repeated_changes_nothing(self) -> None:
        site = Site("b", "c")
        site.hear("b", said("x", 5, "b"))
        site.told()
        for number in range(5):
            assert site.hear("b", said("x", number, "b", "c")) == ""
        assert (site.knows("x"), site.told()) == ((1, 5), [])

    @pytest.mark.parametrize(
        "statement",
        [
            b"",
            b"[]",
            b"\xff",
            b'{"site":"x","boot":1,"number":1}',
            b'{"site":"X Y","boot":1,"number":1,"links":[]}',
            b'{"site":"x","boot":-1,"number":1,"links":[]}',
            b'{"site":"x","boot":1,"number":9223372036854775808,"links":[]}',
            b'{"site":"x","boot":1,"number":1e300,"links":[]}',
            b'{"site":"x","boot":1,"number":1,"links":[{"peer":"b c","up":true}]}',
            b'{"site":"x","boot":1,"number":1,"links":[{"peer":"b","up":true},{"peer":"b","up":false}]}',
            b"[" * 100_000,
            b'{"site":"x","boot":1,"number":1,"links":['
            + b",".join(b'{"peer":"p%d","up":true}' % number for number in range(LINKS_MAX + 1))
            + b"]}",
        ],
        ids=range(12),
    )
    def test_what_cannot_be_is_refused(self, statement: bytes) -> None:
        site = Site("b")
        signed = NamedNotary("x").sign(statement)
        assert signed is not None
        with pytest.raises(Refusal):
            site.hear("b", signed)
        assert set(site.spreading.known) == {"a"}

    def test_what_is_said_beyond_what_this_version_knows_is_passed_on_as_it_was_signed(self) -> None:
        site = Site("b", "c")
        site.router.take()
        newer = NamedNotary("x").sign(b'{"site":"x","boot":1,"number":1,"links":[],"weather":["t"]}')
        assert newer is not None
        assert site.hear("b", newer) == ""
        (told,) = [d.news.signed for d in site.router.take() if isinstance(d, TellNews)]
        assert told == newer

    def test_a_peer_may_have_only_so_many_signatures_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "CHECKS_AT_ONCE", 3.0)
        site = Site("b", "c")
        forged = [site.hear("b", said(f"x{number}", 1, by="b")) for number in range(5)]
        assert forged[:3] == ["it is signed by another site"] * 3
        assert forged[3:] == ["it tells more than it may"] * 2
        assert site.hear("c", said("y", 1)) == ""
        site.tick(1.0)
        assert site.hear("b", said("z", 1)) == ""

    def test_a_site_may_say_something_only_so_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 3.0)
        site = Site("b")
        heard = [site.hear("b", said("x", number)) for number in range(5)]
        assert heard == ["", "", "", *["its site says something more often than it may"] * 2]
        assert site.hear("b", said("y", 1)) == ""
        site.tick(1.0)
        assert site.hear("b", said("x", 9)) == ""

    def test_what_is_long_counts_as_several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 7.0)
        site = Site("b")
        many = [f"p{number}" for number in range(500)]
        assert 3 < said("x", 0, *many).size / PIECE_BYTES < 5
        heard = [site.hear("b", said("x", number, *many)) for number in range(3)]
        assert heard == ["", "", "its site says something more often than it may"]

    def test_the_longest_that_can_be_is_taken(self) -> None:
        site = Site("b")
        statement = b'{"site":"x","boot":1,"number":1,"links":[]}'.ljust(STATEMENT_BYTES_MAX)
        certificate, signature = bytes(CERTIFICATE_BYTES_MAX), bytes(SIGNATURE_BYTES_MAX)
        site.notary.believes_all = True
        assert site.hear("b", SignedNews(statement, certificate, signature)) == ""

    def test_what_others_forge_in_its_name_keeps_no_site_from_speaking(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 3.0)
        site = Site("b", "c")
        for number in range(50):
            assert site.hear("b", said("x", number, by="b"))
        assert site.hear("c", said("x", 1)) == ""

    def test_there_are_only_so_many_sites(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spreading, "SITES_MAX", 3)
        site = Site("b")
        assert [bool(site.hear("b", said(f"x{number}", 1))) for number in range(4)] == [
            False,
            False,
            True,
            True,
        ]
        assert site.hear("b", said("x0", 2)) == ""

    def test_all_news_takes_only_so_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        site = Site("b")
        small, large = said("x", 1, "b"), said("y", 1, *(f"p{number}" for number in range(100)))
        monkeypatch.setattr(spreading, "BYTES_MAX", 2 * small.size + site.spreading._held._bytes)
        assert site.hear("b", small) == ""
        assert site.hear("b", large) == "no more sites, or no more bytes, are remembered"
        assert site.hear("b", said("x", 2, "b")) == ""
        assert site.spreading._held._bytes == sum(one.signed.size for one in site.spreading.known.values())

    def test_a_peer_that_claims_to_have_everything_is_bounded(self) -> None:
        site = Site("b")
        whole = [NewsVersion(f"x{number}", 1, 1) for number in range(2 * news_allowances.SITES_MAX - 1)]
        site.spreading.hear_known(site.now, "b", whole, more=True)
        with pytest.raises(Refusal):
            site.spreading.hear_known(site.now, "b", [NewsVersion("y", 1, 1)], more=True)

    def test_a_peer_has_no_news_of_what_is_no_server(self) -> None:
        site = Site("b")
        with pytest.raises(Refusal):
            site.spreading.hear_known(site.now, "b", [NewsVersion("no server", 1, 1)], more=False)


class TestWants:
    def test_those_that_come_with_news_that_came_before_without_them_are_passed_on(self) -> None:
        site, buckets = Site("b", "c"), wanted("weather")
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
        site = Site("b", "c")
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
        site, before = Site("b"), wanted("weather")
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
        site = Site("b", "c", "d")
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
        site, buckets = Site("b", "c"), wanted("weather")
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
        site = Site("b")
        ((leaf,), hidden) = msgspec.msgpack.decode(buckets[0].data)
        longer = msgspec.msgpack.encode([[leaf], hidden, bytes(10_000)])
        news = said("x", 1, wants=buckets)
        assert site.spreading.hear(site.now, "b", news, 0.0, [NumberedBucket(buckets[0].index, longer)]) == ""
        assert site.who_wants("weather") == {"x"}

    def test_one_peer_that_forges_names_keeps_nothing_from_being_asked_of_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(missed, "MISSED_MAX", 5)
        site = Site("b", "c")
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
        site, buckets = Site("b", "c"), wanted("weather")
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
        site, buckets = Site("b", "c"), wanted("weather")
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
        site = Site("b")
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
        site = Site("b")
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
        site, seconds = Site("b", "c"), 300
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
        same = Site("b")
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
        site, buckets = Site("b"), wanted(*(f"t{number}" for number in range(50)))
        refused = site.spreading.hear(site.now, "b", said("x", 1, wants=buckets), 0.0, buckets)
        assert refused == "it tells more wants than it may"
        assert site.knows("x") == (1, 1)

    def test_who_tells_what_a_site_has_not_said_takes_nothing_from_that_site(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        buckets = wanted("weather")
        monkeypatch.setattr(news_allowances, "SITE_WANTS_AT_ONCE", float(len(buckets[0].data)))
        monkeypatch.setattr(news_allowances, "SITE_WANTS_PER_S", 0.0)
        site, forged = Site("b", "c"), wanted("weathez")
        forged = [NumberedBucket(buckets[0].index, forged[0].data)]
        site.hear("b", said("x", 1, "b", wants=buckets))
        for _ in range(5):
            assert site.spreading.hear_wants(site.now, "b", "x", (1, 1), forged) == spreading.UNSIGNED
        assert site.spreading.hear_wants(site.now, "c", "x", (1, 1), buckets) == ""
        assert site.who_wants("weather") == {"x"}

    def test_a_site_that_is_forgotten_wants_nothing(self) -> None:
        site, buckets = Site("b"), wanted("weather")
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
        site, buckets = Site("b", "c"), wanted("weather")
        site.told_to("c")
        for number in (1, 3):
            site.spreading.hear(site.now, "b", said("x", number, wants=buckets), 0.0, buckets)
            assert [told.buckets for told in site.told_to("c")] == [tuple(buckets)]
            site.hear("b", said("x", number + 1))
            assert [told.buckets for told in site.told_to("c")] == [()]

    def test_what_a_site_wants_that_was_forgotten_is_told_when_it_comes_back(self) -> None:
        site, buckets = Site("b", "c"), wanted("weather")
        for number in (1, 2):
            site.spreading.hear(site.now, "b", said("x", number, wants=buckets), 0.0, buckets)
            told = [d.buckets for d in site.router.take() if isinstance(d, TellNews) and d.peer == "c"]
            assert tuple(buckets) in told
            site.tick(KEPT_S + 1.0)
            assert site.knows("x") is None

    def test_news_of_the_form_before_is_read(self) -> None:
        site = Site("b")
        signed = NamedNotary("x").sign(b'{"site":"x","boot":1,"number":1,"links":[{"peer":"b","up":true}]}')
        assert signed is not None
        assert site.hear("b", signed) == ""
        assert not site.spreading.wants.tells("x")


class TestComingBack:
    def test_a_site_restored_from_a_backup_goes_on_above_what_it_had_said(self) -> None:
        site = Site("b", boot=6)
        assert "backup" in site.hear("b", said("a", 40, "b", "c", boot=9))
        site.tick(SPACING_S)
        version = site.knows("a")
        assert version is not None
        assert version > (9, 40)
        assert ("b", "a") in site.told()

    def test_a_site_goes_on_above_the_greatest_number(self) -> None:
        site = Site("b")
        site.hear("b", said("a", NUMBER_MAX, "b", boot=9))
        site.tick(SPACING_S)
        assert site.knows("a") == (10, 1)

    def test_a_site_whose_key_has_said_the_last_that_can_be_said_is_silent_and_lives(self) -> None:
        site = Site("b")
        site.said()
        site.hear("b", said("a", NUMBER_MAX, "b", boot=NUMBER_MAX))
        site.tick(SPACING_S)
        assert site.said() == []
        site.tick(EVERY_S)

    def test_a_start_goes_on_above_what_the_store_has(self) -> None:
        before = Site("b")
        own = before.spreading.known["a"]
        after = Router("a", 1, SETTINGS, lambda: 1_700_000_000_000)
        after.federation.spreading.restore(own)
        after.federation.set_peer("b", PeerRules())
        after.federation.spreading.set_notary(NamedNotary("a"))
        after.federation.link_up("b")
        after.timing.tick(1.0)
        assert after.federation.spreading.known["a"].statement.version > own.statement.version

    def test_what_the_store_has_is_looked_at_before_it_is_believed(self) -> None:
        router = Router("a", 2, SETTINGS, lambda: 1_700_000_000_000)
        for signed in (said("x", 1), said("y", 1, by="z")):
            known = KnownNews(read_statement(signed.statement), signed, 0.0, "b")
            router.federation.spreading.restore(known)
        refused = router.federation.spreading.set_notary(NamedNotary("a"))
        assert [one for one, _ in refused] == ["y"]
        assert set(router.federation.spreading.known) == {"x"}
        assert DiscardNews("y") in router.take()

    def test_who_was_not_trusted_for_a_while_is_asked_for_and_ever_less_often(self) -> None:
        site = Site("b", "c")
        site.notary.distrusted.add("x")
        assert site.hear("c", said("x", 1)) == "its certificate is revoked"
        asked = []
        site.router.take()
        for _ in range(200):
            site.tick(60.0)
            asked.append([(peer, one.site) for peer, one in site.asked()])
        assert [minute for minute, one in enumerate(asked, 1) if one == [("c", "x")]][:4] == [1, 3, 7, 15]
        assert asked.count([]) == 190
        site.notary.distrusted.clear()
        site.spreading.set_notary(site.notary)
        site.tick(60.0)
        assert [(peer, one.site) for peer, one in site.asked()] == [("c", "x")]
        site.hear("c", said("x", 1))
        site.tick(3_600.0)
        assert [one for one in site.asked() if one[1].site == "x"] == []

    def test_who_is_doubted_is_asked_for(self) -> None:
        site = Site("b", "c")
        site.hear("c", said("x", 1))
        site.notary.distrusted.add("x")
        site.spreading.set_notary(site.notary)
        site.notary.distrusted.clear()
        site.spreading.set_notary(site.notary)
        site.router.take()
        site.tick(60.0)
        assert [(peer, one.site) for peer, one in site.asked()] == [("b", "x"), ("c", "x")]

    def test_who_is_trusted_no_more_is_forgotten(self) -> None:
        site = Site("b")
        site.hear("b", said("x", 1))
        site.notary.distrusted.add("x")
        assert site.spreading.set_notary(site.notary) == [("x", "its certificate is revoked")]
        assert site.knows("x") is None
        assert site.hear("b", said("x", 2)) == "its certificate is revoked"


class TestForgetting:
    def test_a_site_of_which_nothing_comes_is_forgotten(self) -> None:
        site = Site("b")
        site.hear("b", said("x", 1))
        site.tick(KEPT_S - 1.0)
        assert site.knows("x") == (1, 1)
        site.tick(2.0)
        assert site.knows("x") is None
        assert site.knows("a") is not None
        assert DiscardNews("x") in site.router.take()

    def test_its_age_comes_with_it(self) -> None:
        site = Site("b")
        site.hear("b", said("x", 1), age_s=KEPT_S - 10.0)
        site.tick(9.0)
        assert site.knows("x") == (1, 1)
        site.tick(2.0)
        assert site.knows("x") is None

    def test_what_is_too_old_does_not_come_back(self) -> None:
        site = Site("b", "c")
        site.told()
        assert site.hear("b", said("x", 1), age_s=KEPT_S + 1.0) == ""
        assert (site.knows("x"), site.told()) == (None, [])

    def test_who_says_that_it_is_old_is_corrected_by_who_says_that_it_is_young(self) -> None:
        site = Site("b", "c")
        site.hear("b", said("x", 1), age_s=KEPT_S - 10.0)
        site.hear("c", said("x", 1), age_s=5.0)
        site.tick(100.0)
        assert site.knows("x") == (1, 1)


def knowledge(sites: Federation, name: str) -> dict[str, Version]:
    known = sites.routers[name].federation.spreading.known
    return {site: one.statement.version for site, one in known.items()}


def what_is_known_of(sites: Federation, name: str) -> dict[str, bool]:
    known = sites.routers[name].federation.spreading.known[name]
    return {link.peer: link.up for link in known.statement.links}


def assert_agreed(sites: Federation, within: set[str]) -> None:
    """All of these know the latest of each other, and that is so."""
    for site in within:
        assert what_is_known_of(sites, site) == {
            peer: (site, peer) in sites.links for peer in sites.routers[site].federation.outlook.peers
        }
        for other in within:
            assert knowledge(sites, other)[site] == knowledge(sites, site)[site]


@settings(max_examples=60, deadline=None)
@given(graph=graphs(12), seed=st.integers(0, 2**32))
def test_in_any_graph_all_hear_of_all_and_each_piece_crosses_a_link_once_in_each_direction(
    graph: set[tuple[str, str]], seed: int
) -> None:
    sites = Federation(graph, seed)
    sites.begin_news()
    sites.settle()
    for _ in range(3):
        sites.pass_time(SPACING_S)
        sites.settle()
    for site in sites.names:
        assert_agreed(sites, sites.ball(site, -1))
    assert len(sites.news_carried) == len(set(sites.news_carried))


@settings(max_examples=60, deadline=None)
@given(graph=graphs(12), seed=st.integers(0, 2**32))
def test_after_links_were_cut_in_the_middle_of_it_all_agree(graph: set[tuple[str, str]], seed: int) -> None:
    chance = random.Random(seed)
    sites = Federation(graph, seed)
    sites.begin_news()
    down: set[tuple[str, str]] = set()
    for _ in range(20):
        sites.settle(at_most=chance.randrange(30))
        a, b = chance.choice(sorted(graph))
        if (a, b) in down:
            sites.join(a, b)
            down.discard((a, b))
        else:
            sites.cut(a, b)
            down.add((a, b))
        sites.pass_time(chance.choice((0.0, 0.5, SPACING_S)))
    for _ in range(3):
        sites.settle()
        sites.pass_time(SPACING_S)
    for site in sites.names:
        if len(sites.ball(site, -1)) > 1:
            assert_agreed(sites, sites.ball(site, -1))
    for a, b in sorted(down):
        sites.join(a, b)
    for _ in range(3):
        sites.settle()
        sites.pass_time(SPACING_S)
    sites.settle()
    for site in sites.names:
        assert_agreed(sites, sites.ball(site, -1))
