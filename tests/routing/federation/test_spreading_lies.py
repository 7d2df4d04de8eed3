"""News of sites: what is refused, and how much of it a peer, or a site, may tell."""

import pytest

from routing.errors import Refusal
from routing.federation import held_news, news_allowances
from routing.federation.saying import PIECE_BYTES, SPACING_S
from routing.numbers import NUMBER_MAX
from routing.peering.decisions import (
    TellNews,
)
from routing.peering.news import (
    CERTIFICATE_BYTES_MAX,
    LINKS_MAX,
    SIGNATURE_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    NewsVersion,
    SignedNews,
)
from tests.support.news_site import NewsSite
from tests.support.notary import NamedNotary, said


class TestLies:
    def test_what_another_has_signed_is_refused_and_goes_no_further(self) -> None:
        site = NewsSite("b", "c")
        site.hear("b", said("x", 1, "b"))
        site.told()
        assert site.hear("b", said("x", 2, "b", "c", by="b")) == "it is signed by another site"
        assert (site.knows("x"), site.told()) == ((1, 1), [])

    def test_what_was_changed_on_the_way_is_refused(self) -> None:
        site = NewsSite("b")
        good, other = said("x", 1, "b"), said("x", 2, "b", "c")
        forged = SignedNews(other.statement, good.certificate, good.signature)
        assert site.hear("b", forged) == "its signature is wrong"
        assert site.knows("x") is None

    def test_news_of_this_site_that_it_never_said_is_refused(self) -> None:
        site = NewsSite("b")
        before = site.knows("a")
        assert site.hear("b", said("a", NUMBER_MAX, "b", boot=NUMBER_MAX, by="b"))
        site.tick(SPACING_S)
        assert site.knows("a") == before

    def test_older_news_that_is_repeated_changes_nothing(self) -> None:
        site = NewsSite("b", "c")
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
        site = NewsSite("b")
        signed = NamedNotary("x").sign(statement)
        assert signed is not None
        with pytest.raises(Refusal):
            site.hear("b", signed)
        assert set(site.spreading.known) == {"a"}

    def test_what_is_said_beyond_what_this_version_knows_is_passed_on_as_it_was_signed(self) -> None:
        site = NewsSite("b", "c")
        site.router.take()
        newer = NamedNotary("x").sign(b'{"site":"x","boot":1,"number":1,"links":[],"weather":["t"]}')
        assert newer is not None
        assert site.hear("b", newer) == ""
        (told,) = [d.news.signed for d in site.router.take() if isinstance(d, TellNews)]
        assert told == newer

    def test_a_peer_may_have_only_so_many_signatures_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "CHECKS_AT_ONCE", 3.0)
        site = NewsSite("b", "c")
        forged = [site.hear("b", said(f"x{number}", 1, by="b")) for number in range(5)]
        assert forged[:3] == ["it is signed by another site"] * 3
        assert forged[3:] == ["it tells more than it may"] * 2
        assert site.hear("c", said("y", 1)) == ""
        site.tick(1.0)
        assert site.hear("b", said("z", 1)) == ""

    def test_a_site_may_say_something_only_so_often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 3.0)
        site = NewsSite("b")
        heard = [site.hear("b", said("x", number)) for number in range(5)]
        assert heard == ["", "", "", *["its site says something more often than it may"] * 2]
        assert site.hear("b", said("y", 1)) == ""
        site.tick(1.0)
        assert site.hear("b", said("x", 9)) == ""

    def test_what_is_long_counts_as_several(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 7.0)
        site = NewsSite("b")
        many = [f"p{number}" for number in range(500)]
        assert 3 < said("x", 0, *many).size / PIECE_BYTES < 5
        heard = [site.hear("b", said("x", number, *many)) for number in range(3)]
        assert heard == ["", "", "its site says something more often than it may"]

    def test_the_longest_that_can_be_is_taken(self) -> None:
        site = NewsSite("b")
        statement = b'{"site":"x","boot":1,"number":1,"links":[]}'.ljust(STATEMENT_BYTES_MAX)
        certificate, signature = bytes(CERTIFICATE_BYTES_MAX), bytes(SIGNATURE_BYTES_MAX)
        site.notary.believes_all = True
        assert site.hear("b", SignedNews(statement, certificate, signature)) == ""

    def test_what_others_forge_in_its_name_keeps_no_site_from_speaking(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(news_allowances, "SAID_AT_ONCE", 3.0)
        site = NewsSite("b", "c")
        for number in range(50):
            assert site.hear("b", said("x", number, by="b"))
        assert site.hear("c", said("x", 1)) == ""

    def test_there_are_only_so_many_sites(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(held_news, "SITES_MAX", 3)
        site = NewsSite("b")
        assert [bool(site.hear("b", said(f"x{number}", 1))) for number in range(4)] == [
            False,
            False,
            True,
            True,
        ]
        assert site.hear("b", said("x0", 2)) == ""

    def test_all_news_takes_only_so_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        site = NewsSite("b")
        small, large = said("x", 1, "b"), said("y", 1, *(f"p{number}" for number in range(100)))
        monkeypatch.setattr(held_news, "BYTES_MAX", 2 * small.size + site.spreading._held._bytes)
        assert site.hear("b", small) == ""
        assert site.hear("b", large) == "no more sites, or no more bytes, are remembered"
        assert site.hear("b", said("x", 2, "b")) == ""
        assert site.spreading._held._bytes == sum(one.signed.size for one in site.spreading.known.values())

    def test_a_peer_that_claims_to_have_everything_is_bounded(self) -> None:
        site = NewsSite("b")
        whole = [NewsVersion(f"x{number}", 1, 1) for number in range(2 * news_allowances.SITES_MAX - 1)]
        site.spreading.hear_known(site.now, "b", whole, more=True)
        with pytest.raises(Refusal):
            site.spreading.hear_known(site.now, "b", [NewsVersion("y", 1, 1)], more=True)

    def test_a_peer_has_no_news_of_what_is_no_server(self) -> None:
        site = NewsSite("b")
        with pytest.raises(Refusal):
            site.spreading.hear_known(site.now, "b", [NewsVersion("no server", 1, 1)], more=False)
