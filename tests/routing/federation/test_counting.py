"""Receipts where the way that a copy took is lost for good: sites are asked how many have it there.

o --- a --- t
|           |
b --- c ----+
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from routing.federation import counting
from routing.peering.copies import Answered
from routing.peering.counts import CountsAsked, CountsTold, SiteCounts
from tests.routing.federation.test_destinations import know_all
from tests.routing.federation.test_destinations_counted import ticked
from tests.support.sites import RouterFederation
from tests.support.stored_sites import StoredFederation
from tests.support.wants import unsubscribe

LINKS = {("o", "a"), ("a", "t"), ("o", "b"), ("b", "c"), ("c", "t")}


class AskingFederation(RouterFederation):
    """Keeps what sites ask and tell each other of counts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.told: list[tuple[str, str, CountsAsked | CountsTold]] = []
        super().__init__(*args, **options)

    def _arrive(self, one: str, other: str, unit: Any) -> None:
        if isinstance(told := getattr(unit, "told", None), (CountsAsked, CountsTold)):
            self.told.append((one, other, told))
        super()._arrive(one, other, unit)


def subscribed(*sites: str, besides: Collection[tuple[str, str]] = ()) -> AskingFederation:
    """Some subscribe, and the publisher at o waits for receipts; there are links `besides`."""
    federation = AskingFederation({*LINKS, *besides})
    for site in sites:
        federation.subscribe(site)
    federation.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(federation)
    return federation


def be_heard_of(federation: RouterFederation, site: str, *, by: str) -> None:
    """A site subscribes, of which one peer alone has heard so far."""
    federation.subscribe(site, "another")
    federation.settle()
    federation.subscribe(site)
    told = federation.control[site, by]
    while told:
        federation._arrive(site, by, told.popleft())
        federation.take(by)


def carry(federation: RouterFederation, *links: tuple[str, str]) -> None:
    """The messages on these, one link after the other, and nothing else."""
    for one, other in links:
        while federation.bulk[one, other]:
            federation._arrive(one, other, federation.bulk[one, other].pop(0))
            federation.take(other)


def publish_without(federation: RouterFederation, one: str, other: str) -> None:
    """What goes over one link of a message for all is lost on it."""
    federation.publish("o", depth=-1, receipt="ALL")
    while not federation.bulk[one, other]:
        federation.settle(1)
    federation.bulk[one, other].clear()
    federation.settle()
    federation.commit("t", "m")


def lose(federation: RouterFederation, *links: tuple[str, str]) -> None:
    """These are lost, which all hear of that can."""
    for one, other in links:
        federation.cut(one, other)
    federation.settle()
    ticked(federation, 0.5)


def smuids(federation: RouterFederation) -> list[str]:
    """Of what waits at t."""
    state = federation.routers["t"]._state
    return [copy.smuid for copy in state.crossing.by_id.values()]


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
@pytest.mark.parametrize("lost", [[("o", "a")], [("o", "a"), ("a", "t")]])
def test_who_has_it_is_counted_though_the_way_that_it_came_by_is_lost(
    mode: str, lost: list[tuple[str, str]]
) -> None:
    federation = subscribed("t")
    federation.publish("o", delivery=mode, depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, *lost)
    federation.commit("t", "m")
    federation.settle()
    assert federation.receipts == []
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["1/1"]


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_what_was_counted_is_remembered_where_the_next_site_has_it_on_disk_and_is_lost(mode: str) -> None:
    federation = subscribed("t")
    federation.publish("o", delivery=mode, depth=-1, receipt="ALL")
    federation.settle()
    federation.cut("o", "a")
    federation.commit("t", "m")
    federation.settle()
    [query] = federation.routers["t"].receipts.answers["a"]
    federation.routers["t"].receipts.answered("a", query)
    lose(federation, ("a", "t"))
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["1/1"]


def test_what_was_counted_is_remembered_though_the_copy_comes_again() -> None:
    """To e it was to go from a, and goes over t, which had it before, and was done with it."""
    federation = subscribed("t", "e", besides=[("a", "e"), ("t", "e")])
    publish_without(federation, "a", "e")
    while smuids(federation):
        federation.settle(1)
        federation.control["a", "o"].clear()
    lose(federation, ("o", "a"), ("a", "t"), ("a", "e"))
    federation.commit("e", "m")
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["2/2"]


def test_each_site_is_counted_once_whichever_way_it_says_so() -> None:
    """A and b have said so over the way of the copy, t cannot."""
    federation = subscribed("a", "b", "t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    for site in ("a", "b"):
        federation.commit(site, "m")
        federation.settle()
    lose(federation, ("o", "a"))
    federation.commit("t", "m")
    federation.settle()
    assert federation.receipts == []
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["3/3"]


def test_they_are_asked_again_until_they_have_said_their_last_word() -> None:
    federation = subscribed("b", "t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"))
    for _ in range(3):
        ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == []
    federation.commit("b", "m")
    ticked(federation, counting.FLAPPING_S)
    asked = len(federation.told)
    federation.commit("t", "m")
    ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == ["2/2"]
    assert {told.to for *_, told in federation.told[asked:]} == {"t", "o"}
    federation.told.clear()
    ticked(federation, counting.FLAPPING_S)
    assert not federation.told


def test_the_first_that_has_it_is_told_at_once_where_one_is_enough() -> None:
    federation = subscribed("a", "t")
    federation.publish("o", depth=-1, receipt="ONE")
    federation.settle()
    lose(federation, ("o", "a"))
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == ["1/2"]


def test_who_cannot_be_asked_is_waited_for_until_the_timeout_and_the_others_are_counted() -> None:
    """A is lost with all its links, and was to have it, too: nobody knows whether it does."""
    federation = subscribed("a", "t")
    federation.publish("o", depth=-1, receipt="ALL", timeout_s=60.0)
    federation.settle()
    lose(federation, ("o", "a"), ("a", "t"))
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == []
    assert {told.to for *_, told in federation.told} == {"t", "o"}
    ticked(federation, 60.0)
    assert federation.receipts == ["1/2"]


def test_who_cannot_be_asked_is_waited_for_though_nobody_has_told_of_it() -> None:
    """A is lost before it has said that somebody there is due to have it."""
    federation = subscribed("a", "t")
    federation.publish("o", depth=-1, receipt="ALL", timeout_s=60.0)
    while not federation.held.get(("t", "m")):
        federation.settle(1)
        federation.control["a", "o"].clear()
    lose(federation, ("o", "a"), ("a", "t"))
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    assert federation.receipts == []
    ticked(federation, 60.0)
    assert federation.receipts == ["1/1"]


def test_a_copy_that_has_gone_round_is_counted_there() -> None:
    """A has it and cannot pass it on; t hears nothing of the question until it comes over c."""
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    while not federation.bulk["a", "t"]:
        federation.settle(1)
    federation.cut("a", "t")
    lose(federation, ("o", "a"))
    ticked(federation, counting.AFTER_S)
    federation.commit("t", "m")
    federation.settle()
    ticked(federation, counting.FLAPPING_S)
    assert federation.delivered["t", "m"] == 1
    assert federation.receipts == ["1/1"]


def test_one_that_has_come_back_is_counted_where_it_began() -> None:
    """It was handed to a, which lost it to t, who left; back it came over c and b."""
    federation = subscribed("t")
    federation.publish("o", delivery="ONE", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"), ("a", "t"))
    federation.subscribe("o", accepts="ONE")
    unsubscribe(federation, "t")
    federation.settle()
    ticked(federation, 1.0)
    federation.commit("o", "m")
    ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == ["1/1"]


def test_one_that_has_come_back_is_counted_where_it_was_handed_on_before() -> None:
    """T had it first, and says that it has it no more; c had it then, and hands it back to t."""
    federation = subscribed("t")
    federation.publish("o", delivery="ONE", depth=-1, receipt="ALL")
    federation.settle()
    federation.subscribe("c", accepts="ONE")
    unsubscribe(federation, "t")
    federation.settle()
    lose(federation, ("o", "a"), ("a", "t"))
    ticked(federation, counting.FLAPPING_S)
    federation.subscribe("t", accepts="ONE")
    unsubscribe(federation, "c")
    federation.settle()
    federation.commit("t", "m")
    assert federation.receipts == []
    ticked(federation, 2 * counting.FLAPPING_S)
    assert federation.receipts == ["1/1"]


def test_where_no_link_has_changed_nobody_is_asked() -> None:
    federation = subscribed("a", "t")
    ticked(federation, counting.FLAPPING_S)
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    for _ in range(10):
        ticked(federation, counting.FLAPPING_S)
    assert not federation.told
    for site in ("a", "t"):
        federation.commit(site, "m")
    federation.settle()
    assert federation.receipts == ["2/2"]


def test_of_what_was_published_since_links_have_changed_nobody_is_asked() -> None:
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"))
    [before] = smuids(federation)
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    ticked(federation, counting.FLAPPING_S)
    assert {smuid for *_, told in federation.told for smuid in told.smuids} == {before}


def test_a_peer_that_knows_nothing_of_it_is_not_asked_or_told() -> None:
    federation = subscribed("t")
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"))
    federation.routers["o"].federation.link_down("b")
    federation.routers["o"].federation.link_up("b", knows_destinations=True, wants_from_news=True)
    federation.take("o")
    federation.commit("t", "m")
    ticked(federation, counting.FLAPPING_S)
    assert not federation.told


def test_an_answer_that_comes_when_no_peer_owes_one_any_more_closes_nothing() -> None:
    """A was handed it, and would not have it; while there is no other peer, o has it."""
    federation = subscribed("t")
    federation.publish("o", delivery="ONE", depth=-1, receipt="ALL")
    [(id, _)] = federation.bulk["o", "a"]
    federation.bulk["o", "a"].clear()
    lose(federation, ("a", "t"))
    for _ in range(2):
        ticked(federation, counting.AFTER_S)
    federation.cut("o", "b")
    router = federation.routers["o"]
    [smuid] = [copy.smuid for copy in router.federation.outlook.copies.values()]
    router.federation.acknowledged(federation.now, "a", id, Answered("denied"))
    told = CountsTold("o", ("t", "b"), {smuid: SiteCounts(1, 0)})
    router.federation.counting.hear(federation.now, "b", told)
    federation.take("o")
    federation.settle()
    assert federation.receipts == []
    federation.join("o", "b")
    federation.settle()
    federation.commit("t", "m")
    federation.settle()
    assert federation.receipts == ["1/1"]


def test_a_site_that_has_started_again_asks_all_and_takes_none_of_them_for_all(tmp_path: Path) -> None:
    """It knows whom a message was for only as far as they were still to have it: b had it, t did not.

    What b has said of that is lost, and then the link with it. E has come later, so it is not counted.
    """
    federation = StoredFederation(tmp_path, {*LINKS, ("t", "e")})
    for site in ("b", "t"):
        federation.subscribe(site)
    federation.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(federation)
    lose(federation, ("a", "t"), ("c", "t"))
    federation.publish("o", depth=-1, receipt="ALL", timeout_s=1e6)
    while any((*federation.bulk.values(), *federation.control.values())):
        federation.settle(1)
        federation.control["b", "o"].clear()
    federation.pass_time(60.0)  # that b has it is stored
    federation.kill("o")
    federation.start("o", "a")
    for site in ("a", "c"):
        federation.join(site, "t")
    federation.subscribe("o", "x:publisher@o", channel="publisher")
    federation.subscribe("e")
    for _ in range(2):
        federation.settle()
        federation.pass_time(3.0)
    federation.settle()
    assert federation.delivered["e", "m"] == 1
    for site in ("t", "e"):
        federation.commit(site, "m")
    ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == []
    federation.commit("b", "m")
    ticked(federation, counting.FLAPPING_S)
    ticked(federation, 1e6)
    federation.close()
    assert federation.receipts == ["2/2"]


def test_what_sites_have_said_last_outlives_a_start_of_the_site_that_waits_for_one_of_its_own(
    tmp_path: Path,
) -> None:
    federation = StoredFederation(tmp_path, LINKS)
    federation.subscribe("t")
    federation.subscribe("o")
    federation.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(federation)
    federation.publish("o", depth=-1, receipt="ALL")
    federation.settle()
    lose(federation, ("o", "a"))
    federation.commit("t", "m")
    ticked(federation, counting.AFTER_S)
    federation.kill("o")
    federation.start("o", "b")
    federation.subscribe("o", "x:publisher@o", channel="publisher")
    federation.subscribe("o")
    federation.settle()
    federation.commit("o", "m")
    federation.settle()
    federation.close()
    assert federation.receipts == ["2/2"]


def test_what_was_counted_is_known_while_others_beyond_are_waited_for_and_the_copy_comes_again() -> None:
    """T has it and waits for e when it comes again, for g."""
    federation = subscribed("t", "e", "g", besides=[("t", "e"), ("a", "g"), ("t", "g")])
    publish_without(federation, "a", "g")
    federation.settle()
    lose(federation, ("o", "a"), ("a", "t"), ("a", "g"))
    ticked(federation, counting.AFTER_S)
    federation.commit("e", "m")
    federation.commit("g", "m")
    federation.settle()
    ticked(federation, counting.FLAPPING_S)
    assert federation.receipts == ["3/3"]


def test_who_is_known_to_a_site_on_the_way_alone_is_waited_for_where_a_link_goes_that_none_needs() -> None:
    """A has heard of e, which has come a moment before, and o has not."""
    federation = subscribed("t", besides=[("a", "e")])
    be_heard_of(federation, "e", by="a")
    federation.publish("o", depth=-1, receipt="ALL")
    carry(federation, ("o", "a"))
    federation.settle()
    lose(federation, ("b", "c"))
    federation.commit("t", "m")
    federation.settle()
    for _ in range(2):
        ticked(federation, counting.AFTER_S)
    assert federation.receipts == []
    assert federation.told
    federation.commit("e", "m")
    federation.settle()
    assert federation.receipts == ["2/2"]


def lose_the_answer_of_c(federation: RouterFederation, *done: str) -> None:
    """All have the message; b is lost, and does not say that c is done with it, too, as others are."""
    federation.cut("o", "b")
    for site in done:
        federation.commit(site, "m")
    federation.settle()
    federation.commit("c", "m")
    lose(federation, ("o", "b"), ("b", "c"))
    for _ in range(3):
        ticked(federation, counting.FLAPPING_S)


def test_who_is_known_to_a_site_on_the_way_alone_is_asked_where_the_answers_of_others_are_lost() -> None:
    """T alone has heard of e."""
    federation = subscribed("t", "c", besides=[("t", "e")])
    be_heard_of(federation, "e", by="t")
    federation.publish("o", depth=-1, receipt="ALL")
    carry(federation, ("o", "a"), ("a", "t"), ("o", "b"), ("b", "c"))
    federation.settle()
    lose_the_answer_of_c(federation, "t", "e")
    assert federation.receipts == ["3/3"]


def test_who_is_known_to_a_site_on_the_way_alone_is_waited_for_whoever_else_answers_after_it() -> None:
    """A alone has heard of e. On the way to g is j, far off."""
    federation = subscribed(
        "t", "c", "g", besides=[("a", "e"), ("o", "h"), ("h", "i"), ("i", "j"), ("j", "g")]
    )
    be_heard_of(federation, "e", by="a")
    federation.publish("o", depth=-1, receipt="ALL")
    carry(federation, ("o", "a"), ("a", "t"), ("a", "e"), ("o", "b"), ("b", "c"))
    federation.settle()
    lose_the_answer_of_c(federation, "t", "g")
    answers = [told for *_, told in federation.told if isinstance(told, CountsTold)]
    assert any(told.hops[0] == "e" for told in answers), "it has been asked"
    assert federation.receipts == []
    federation.commit("e", "m")
    federation.settle()
    ticked(federation, counting.AGAIN_S_MAX)
    assert federation.receipts == ["4/4"]


def test_who_came_later_is_not_waited_for_where_the_answers_of_others_are_lost() -> None:
    """T alone has heard of e; then x subscribes, too, and has it, and does not acknowledge."""
    federation = subscribed("t", "c", besides=[("t", "e"), ("t", "x")])
    be_heard_of(federation, "e", by="t")
    federation.publish("o", depth=-1, receipt="ALL", timeout_s=1e6)
    carry(federation, ("o", "a"), ("a", "t"), ("o", "b"), ("b", "c"))
    federation.settle()
    federation.subscribe("x")
    federation.settle()
    ticked(federation, 3.0)
    federation.settle()
    lose_the_answer_of_c(federation, "t", "e")
    assert federation.delivered["x", "m"] == 1
    assert federation.receipts == ["3/3"]
