"""What peers ask and tell of counts that they should not, or too often; sites as in `test_counting`."""

import pytest

from routing.errors import Refusal
from routing.federation import counting
from routing.peering.counts import SMUIDS_MAX, CountsAsked, CountsTold, SiteCounts, check_counts
from tests.routing.federation.test_counting import lose, smuids, subscribed
from tests.routing.federation.test_destinations_counted import ticked


def test_what_is_told_of_others_than_were_asked_counts_for_nobody() -> None:
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"))
    [smuid] = smuids(federation)
    hear = federation.routers["o"].federation.counting.hear
    hear(federation.now, "b", CountsTold("o", ("c", "b"), {smuid: SiteCounts(5, 5)}))
    hear(federation.now, "b", CountsTold("o", ("t", "b"), {smuid + "0": SiteCounts(5, 5)}))
    hear(federation.now, "b", CountsTold("o", ("t", "o", "b"), {smuid: SiteCounts(5, 5)}))
    federation.take("o")
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["1/1"]


def test_who_has_not_been_asked_is_not_heard_and_a_last_word_stays() -> None:
    federation = subscribed("b", "t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    [smuid] = smuids(federation)
    hear = federation.routers["o"].federation.counting.hear
    hear(federation.now, "b", CountsTold("o", ("t", "b"), {smuid: SiteCounts(9, 9)}))
    lose(federation, ("o", "a"))
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    hear(federation.now, "b", CountsTold("o", ("t", "b"), {smuid: SiteCounts(1, 0, open=True)}))
    federation.commit("b", "m")
    ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == ["2/2"]


def test_of_a_message_that_another_has_published_a_site_is_told_nothing() -> None:
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    federation.routers["t"].federation.counting.hear(
        federation.now, "c", CountsAsked("t", ("c",), (*smuids(federation),))
    )
    assert federation.routers["t"].take() == []


def test_a_peer_is_heard_only_so_often() -> None:
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    [smuid] = smuids(federation)
    hear = federation.routers["t"].federation.counting.hear
    asked = CountsAsked("t", ("o", "a"), (smuid,) * SMUIDS_MAX)
    for _ in range(int(counting.SMUIDS_AT_ONCE)):
        hear(federation.now, "a", asked)
    answers = len(federation.routers["t"].take())
    assert 0 < answers <= counting.SMUIDS_AT_ONCE / SMUIDS_MAX
    hear(federation.now, "c", CountsAsked("t", ("o", "b", "c"), (smuid,)))
    assert len(federation.routers["t"].take()) == 1


@pytest.mark.parametrize(
    "told",
    [
        CountsAsked("o", ("b", "c"), ()),
        CountsAsked("no server", ("b",), ()),
        CountsAsked("o", ("no server", "b"), ()),
        CountsAsked("o", ("b",), ("no smuid",)),
        CountsTold("o", ("b",), {"no smuid": SiteCounts(1, 1)}),
        CountsTold("o", ("b",), {"t/1-1-1": SiteCounts(1, 2)}),
    ],
)
def test_what_no_honest_peer_says_is_refused(told: CountsAsked | CountsTold) -> None:
    with pytest.raises(Refusal):
        check_counts(told, "b")
