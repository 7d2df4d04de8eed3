"""News of sites after a start, another store or a long silence: what is believed, and what is forgotten."""

from routing.federation.saying import EVERY_S, SPACING_S
from routing.numbers import NUMBER_MAX
from routing.peering.copies import PeerRules
from routing.peering.decisions import (
    DiscardNews,
)
from routing.peering.news import (
    KnownNews,
    read_statement,
)
from routing.router import Router
from tests.support.news_site import KEPT_S, NewsSite
from tests.support.notary import NamedNotary, said
from tests.support.sites import SETTINGS


class TestComingBack:
    def test_a_site_restored_from_a_backup_goes_on_above_what_it_had_said(self) -> None:
        site = NewsSite("b", boot=6)
        assert "backup" in site.hear("b", said("a", 40, "b", "c", boot=9))
        site.tick(SPACING_S)
        version = site.knows("a")
        assert version is not None
        assert version > (9, 40)
        assert ("b", "a") in site.told()

    def test_a_site_goes_on_above_the_greatest_number(self) -> None:
        site = NewsSite("b")
        site.hear("b", said("a", NUMBER_MAX, "b", boot=9))
        site.tick(SPACING_S)
        assert site.knows("a") == (10, 1)

    def test_a_site_whose_key_has_said_the_last_that_can_be_said_is_silent_and_lives(self) -> None:
        site = NewsSite("b")
        site.said()
        site.hear("b", said("a", NUMBER_MAX, "b", boot=NUMBER_MAX))
        site.tick(SPACING_S)
        assert site.said() == []
        site.tick(EVERY_S)

    def test_a_start_goes_on_above_what_the_store_has(self) -> None:
        before = NewsSite("b")
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
        site = NewsSite("b", "c")
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
        site = NewsSite("b", "c")
        site.hear("c", said("x", 1))
        site.notary.distrusted.add("x")
        site.spreading.set_notary(site.notary)
        site.notary.distrusted.clear()
        site.spreading.set_notary(site.notary)
        site.router.take()
        site.tick(60.0)
        assert [(peer, one.site) for peer, one in site.asked()] == [("b", "x"), ("c", "x")]

    def test_who_is_trusted_no_more_is_forgotten(self) -> None:
        site = NewsSite("b")
        site.hear("b", said("x", 1))
        site.notary.distrusted.add("x")
        assert site.spreading.set_notary(site.notary) == [("x", "its certificate is revoked")]
        assert site.knows("x") is None
        assert site.hear("b", said("x", 2)) == "its certificate is revoked"


class TestForgetting:
    def test_a_site_of_which_nothing_comes_is_forgotten(self) -> None:
        site = NewsSite("b")
        site.hear("b", said("x", 1))
        site.tick(KEPT_S - 1.0)
        assert site.knows("x") == (1, 1)
        site.tick(2.0)
        assert site.knows("x") is None
        assert site.knows("a") is not None
        assert DiscardNews("x") in site.router.take()

    def test_its_age_comes_with_it(self) -> None:
        site = NewsSite("b")
        site.hear("b", said("x", 1), age_s=KEPT_S - 10.0)
        site.tick(9.0)
        assert site.knows("x") == (1, 1)
        site.tick(2.0)
        assert site.knows("x") is None

    def test_what_is_too_old_does_not_come_back(self) -> None:
        site = NewsSite("b", "c")
        site.told()
        assert site.hear("b", said("x", 1), age_s=KEPT_S + 1.0) == ""
        assert (site.knows("x"), site.told()) == (None, [])

    def test_who_says_that_it_is_old_is_corrected_by_who_says_that_it_is_young(self) -> None:
        site = NewsSite("b", "c")
        site.hear("b", said("x", 1), age_s=KEPT_S - 10.0)
        site.hear("c", said("x", 1), age_s=5.0)
        site.tick(100.0)
        assert site.knows("x") == (1, 1)
