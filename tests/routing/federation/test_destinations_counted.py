"""Receipts of copies with destinations: who is counted does not hang on which copy comes first."""

from typing import Any

import msgspec
import pytest

from routing.federation import seen_through
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


def ticked(sites: RouterFederation, seconds: float) -> None:
    """So much later, and no minute is over."""
    sites.now += seconds
    for name, router in sites.routers.items():
        router.timing.tick(sites.now)
        sites.take(name)
    sites.settle()


def joined_late(sites: RouterFederation, wanting: str) -> None:
    """One comes to want what is held from before: it is late to all who hold it but o, where it began."""
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(sites)
    sites.publish("o", name="before", depth=-1, timeout_s=1e6)
    sites.settle()
    sites.subscribe(wanting)
    sites.settle()
    ticked(sites, 3.0)


def published(sites: RouterFederation, one: str, other: str) -> list[Any]:
    """Publish at o; what one site has sent to another for that is late."""
    sites.publish("o", depth=-1, timeout_s=1e6, receipt="ALL")
    while not sites.bulk[one, other]:
        sites.settle(1)
    late = list(sites.bulk[one, other])
    sites.bulk[one, other].clear()
    sites.settle()
    sites.cut("o", "a")
    sites.settle()
    ticked(sites, 3.0)
    return late


def told(sites: RouterFederation, *committing: str) -> list[str]:
    """All have it, and what is under way comes."""
    sites.settle()
    sites.join("o", "a")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    for name in committing:
        sites.commit(name, "m")
        sites.settle()
    sites.pass_time(3.0)
    assert {site: count for (site, name), count in sites.delivered.items() if name == "m"} == dict.fromkeys(
        committing, 1
    )
    return sites.receipts


@pytest.mark.parametrize("commits_before", [False, True])
def test_who_is_passed_by_a_copy_for_a_late_subscriber_first_is_counted(commits_before: bool) -> None:
    """D is due; b sends it on over d, for e, before what a has sent to d comes."""
    sites = RouterFederation({("o", "a"), ("a", "b"), ("a", "d"), ("b", "d"), ("d", "e")})
    for name in ("b", "d"):
        sites.subscribe(name)
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(sites)
    late = published(sites, "a", "d")
    sites.subscribe("e")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    if commits_before:
        for name in ("d", "e"):
            sites.commit(name, "m")
    sites.bulk["a", "d"] += late
    assert told(sites, "b", "d", "e") == ["2/2"]


@pytest.mark.parametrize("commits_before", [False, True])
def test_who_has_it_first_of_one_to_whom_he_is_late_is_counted(commits_before: bool) -> None:
    """Where it began he was known already; b, that is cut off from there, takes him for late."""
    sites = RouterFederation({("o", "a"), ("a", "b"), ("a", "d"), ("b", "d")})
    sites.subscribe("b")
    joined_late(sites, "d")
    late = published(sites, "a", "d")
    assert sites.delivered["d", "m"] == 1
    if commits_before:
        sites.commit("d", "m")
    sites.bulk["a", "d"] += late
    assert told(sites, "b", "d") == ["2/2"]


@pytest.mark.parametrize("commits_before", [False, True])
def test_who_has_it_over_a_site_that_was_asked_before_without_a_receipt_is_counted(
    commits_before: bool,
) -> None:
    sites = RouterFederation({("o", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")})
    sites.subscribe("b")
    joined_late(sites, "d")
    late = published(sites, "a", "c")
    assert sites.delivered["d", "m"] == 1
    if commits_before:
        sites.commit("d", "m")
        sites.settle()
    sites.bulk["a", "c"] += late
    assert told(sites, "b", "d") == ["2/2"]


def test_a_site_that_has_it_no_more_asks_those_that_nobody_asked_to_count() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")})
    sites.subscribe("c")
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL")
    while not sites.bulk["a", "b"]:
        sites.settle(1)
    late = list(sites.bulk["a", "b"])
    [(id, sent)] = late
    sites.bulk["a", "b"] = [(id, msgspec.structs.replace(sent, query=0))]
    while sites.delivered != {("c", "m"): 1}:
        sites.settle(1)
    sites.commit("c", "m")
    sites.bulk["b", "a"].clear()
    while sites.routers["b"].federation.outlook.copies:
        sites.settle(1)
    sites.bulk["a", "b"] += late
    sites.settle()
    assert sites.receipts == ["1/1"]
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


def test_who_is_late_is_counted_by_nobody() -> None:
    sites = RouterFederation({("o", "a"), ("a", "b"), ("b", "c")})
    sites.subscribe("b")
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(sites)
    sites.publish("o", depth=-1, timeout_s=1e6, receipt="ALL")
    sites.settle()
    sites.subscribe("c")
    sites.settle()
    sites.pass_time(3.0)
    sites.settle()
    assert told(sites, "b", "c") == ["1/1"]


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("steps", range(24))
def test_a_question_that_is_repeated_is_answered_once(
    steps: int, forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the site in between has passed the copy on, and has ended its own, before it is repeated.

    It may have forgotten since, as after a start, who has it.
    """
    if forgets:
        monkeypatch.setattr(seen_through, "COPIES_MAX", 0)
    sites = RouterFederation({("a", "b"), ("b", "c")}, steps)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    sites.subscribe("c")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL")
    sites.settle(steps)
    sites.cut("a", "b")
    sites.settle()
    sites.join("a", "b")
    sites.settle()
    assert sites.receipts == []
    sites.commit("c", "m")
    sites.settle()
    assert sites.receipts == ["1/1"]
    assert sites.delivered["c", "m"] == 1
    assert set(sites.final_records("m").values()) == {1}
    assert not any(router.federation.outlook.copies for router in sites.routers.values())


def test_a_question_stays_asked_though_others_come_to_want_it_meanwhile() -> None:
    """Both have to go over a link that is down; who came later is not counted."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d"), ("a", "x"), ("x", "y"), ("b", "y")}, 0)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    sites.subscribe("c")
    know_all(sites)
    sites.cut("a", "b")
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("a", depth=2, receipt="ALL", timeout_s=1_000.0)
    sites.subscribe("d")
    sites.pass_time(3.0)
    sites.settle()
    assert not sites.delivered
    sites.join("a", "b")
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}
    assert sites.receipts == []
    for name in "dc":
        sites.commit(name, "m")
        sites.settle()
    assert sites.receipts == ["1/1"]


def test_no_receipt_waits_for_who_wants_it_later() -> None:
    sites = RouterFederation({("a", "b"), ("b", "c")}, 0)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    sites.subscribe("b")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL", timeout_s=1_000.0)
    sites.settle()
    sites.subscribe("c")
    sites.pass_time(1.0)
    copies = sites.routers["b"].federation.outlook.copies
    while not any(copy.destinations for copy in copies.values()):
        sites.settle(1)
    sites.cut("b", "c")
    sites.settle()
    sites.commit("b", "m")
    sites.settle()
    assert sites.receipts == ["1/1"]


def passed_by(sites: RouterFederation, one: str, other: str, word: str) -> list[Any]:
    """Settle until a site has told another this; what is under way between the two is taken off."""
    control = sites.control[one, other]
    while not any(getattr(unit, "word", "") == word for unit in control):
        sites.settle(1)
    units = list(control)
    control.clear()
    return units


def test_who_is_to_be_counted_is_so_though_it_has_come_without_a_question_and_the_question_is_lost() -> None:
    """D says that e has it, as c asked without a question, while c asks with one; that is lost."""
    sites = RouterFederation({("o", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("d", "e")})
    sites.subscribe("b")
    joined_late(sites, "e")
    sites.publish("o", depth=-1, timeout_s=1e6, receipt="ALL")
    while not sites.bulk["a", "c"]:
        sites.settle(1)
    late = list(sites.bulk["a", "c"])
    sites.bulk["a", "c"].clear()
    sites.cut("o", "a")
    sites.settle()
    sites.now += 3.0
    for name, router in sites.routers.items():
        router.timing.tick(sites.now)
        sites.take(name)
    arrived = passed_by(sites, "d", "c", "arrived")
    for unit in late:
        sites._arrive("a", "c", unit)
    sites.take("c")
    assert sites.bulk["c", "d"]
    for unit in arrived:
        sites._arrive("d", "c", unit)
    sites.take("c")
    sites.cut("c", "d")
    sites.settle()
    sites.join("c", "d")
    assert told(sites, "b", "e") == ["2/2"]


@pytest.mark.parametrize("is_answered_before", [False, True])
def test_of_two_questions_each_is_repeated_for_its_own_destinations(*, is_answered_before: bool) -> None:
    """The first is lost, the second has come: it is being answered, or has been for good."""
    sites = RouterFederation(
        {("o", "a"), ("a", "x"), ("a", "y"), ("x", "b"), ("y", "b"), ("b", "c"), ("b", "d")}
    )
    for name in "cd":
        sites.subscribe(name)
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(sites)
    sites.cut("a", "y")
    sites.pass_time(3.0)
    sites.settle()
    sites.publish("o", depth=-1, receipt="ALL")
    while not sites.bulk["a", "x"]:
        sites.settle(1)
    [(id, both)] = sites.bulk["a", "x"]
    # as two would have come, for one each
    copy = sites.routers["a"].federation.outlook.copies[id]
    sites.bulk["a", "x"] = []
    forwarding = sites.routers["a"].federation.forwarding
    copy.destinations["d"].via = ""
    [pending] = sites.routers["a"].federation._receipts._pending.values()
    query = forwarding.send_for(copy, "x", ["d"], counted=True)
    copy.destinations["d"].via = "x"
    sites.routers["a"].federation._receipts.ask(pending, [query])
    sites.take("a")
    assert [unit[1].destinations for unit in sites.bulk["a", "x"]] == [("d",)]
    assert both.query != query
    sites.bulk["x", "a"].clear()
    while not sites.delivered["d", "m"]:
        sites.settle(1)
    if is_answered_before:
        sites.commit("d", "m")
    while sites.bulk["x", "a"] or any(queue for queue in sites.control.values()):
        sites.bulk["x", "a"].clear()
        sites.settle(1)
    sites.cut("a", "x")
    sites.settle()
    sites.join("a", "x")
    sites.settle()
    assert sites.delivered["c", "m"] == 1
    assert sites.receipts == []
    for name in "cd":
        sites.commit(name, "m")
        sites.settle()
    assert sites.receipts == ["2/2"]


def test_a_question_for_a_copy_that_has_ended_is_answered_when_the_timeout_ends() -> None:
    """C had it without; the question comes for d, too, which has it then, and does not finish it."""
    sites = RouterFederation({("a", "b"), ("b", "c"), ("c", "d")})
    for name in "cd":
        sites.subscribe(name)
    sites.subscribe("a", "x:publisher@a", channel="publisher")
    know_all(sites)
    sites.publish("a", depth=-1, receipt="ALL")
    while not sites.bulk["b", "c"]:
        sites.settle(1)
    [(id, sent)] = sites.bulk["b", "c"]
    sites.bulk["b", "c"] = [(id, msgspec.structs.replace(sent, query=0, destinations=("c",)))]
    while not sites.delivered["c", "m"]:
        sites.settle(1)
    sites.commit("c", "m")
    assert not sites.routers["c"].federation.outlook.copies
    sites.cut("a", "b")
    sites.bulk["b", "c"] = [(id, sent)]
    sites.settle()
    assert sites.delivered["d", "m"] == 1
    assert not sites.routers["c"].federation.outlook.copies
    sites.cut("c", "d")
    [pending] = sites.routers["c"].federation._receipts._pending.values()
    assert (pending.query, pending.have) == (sent.query, 1)
    sites.pass_time(pending.entry.deadline - sites.now + 1.0)
    assert not sites.routers["c"].federation._receipts._pending
    assert sites.routers["c"].federation._receipts.answers["b"][sent.query][1] == 1
