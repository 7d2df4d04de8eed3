"""Receipts of copies with destinations: who is counted does not hang on which copy comes first."""

from typing import Any

import msgspec
import pytest

from routing.federation import seen_through
from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation


def ticked(sites: Federation, seconds: float) -> None:
    """So much later, and no minute is over."""
    sites.now += seconds
    for name, router in sites.routers.items():
        router.timing.tick(sites.now)
        sites.take(name)
    sites.settle()


def joined_late(sites: Federation, wanting: str) -> None:
    """One comes to want what is held from before: it is late to all who hold it but o, where it began."""
    sites.subscribe("o", "x:publisher@o", channel="publisher")
    know_all(sites)
    sites.publish("o", name="before", depth=-1, timeout_s=1e6)
    sites.settle()
    sites.subscribe(wanting)
    sites.settle()
    ticked(sites, 3.0)


def published(sites: Federation, one: str, other: str) -> list[Any]:
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


def told(sites: Federation, *committing: str) -> list[str]:
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
    sites = Federation({("o", "a"), ("a", "b"), ("a", "d"), ("b", "d"), ("d", "e")})
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
    sites = Federation({("o", "a"), ("a", "b"), ("a", "d"), ("b", "d")})
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
    sites = Federation({("o", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")})
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
    sites = Federation({("a", "b"), ("b", "c")})
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
    sites = Federation({("o", "a"), ("a", "b"), ("b", "c")})
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
    sites = Federation({("a", "b"), ("b", "c")}, steps)
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
    """Where both have to go over a link that is down: they are repeated as one."""
    sites = Federation({("a", "b"), ("b", "c"), ("b", "d"), ("a", "x"), ("x", "y"), ("b", "y")}, 0)
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
    assert sites.receipts == ["2/2"]


def test_no_receipt_waits_for_who_wants_it_later() -> None:
    sites = Federation({("a", "b"), ("b", "c")}, 0)
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
