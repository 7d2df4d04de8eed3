"""What is said where logs simply end, each at another moment, as where they are fetched once a day.

Each case has servers of its own, and all go through the jobs at once.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.found_in_logs import Found, found
from tests.support.hop_logs import ANSWERED, READER, WrittenLogs


class Case:
    """A message of a federation of its own."""

    def __init__(self, number: int, logs: WrittenLogs) -> None:
        self.number, self.logs = number, logs
        self.smuid = f"{self.site('a')}/019aa5d72900-1-1"

    def site(self, name: str) -> str:
        return f"{name}{self.number}"

    def write(self, site: str, event: str, peer: str = "", hops: str = "", **fields: Any) -> None:
        """`hops` are the letters of sites."""
        linked = {"peer": self.site(peer), "attempt": fields.pop("attempt", 1)} if peer else {}
        path = {"hops": tuple(map(self.site, hops))} if hops else {}
        self.logs.write(self.site(site), event, self.smuid, **linked, **path, **fields)

    def lives(self, *sites: str) -> None:
        for site in sites:
            self.logs.write(self.site(site), "heartbeat")

    def reads(self, site: str, reader: str = READER, *, final: bool = True, **fields: Any) -> None:
        subscription = f"{reader}@{self.site(site)}"
        self.write(site, "committed", subscription=subscription, attempt=1, final=final, **fields)


def it_went_on_from_a_log_that_ends_before_it_came(case: Case) -> None:
    case.lives("e")
    case.write("a", "published", depth=2, due=0)
    case.write("d", "received", "e", "ae", due=1)
    case.reads("d")
    case.lives("d")


def a_receipt_counts_a_commit_after_the_end_of_its_log(case: Case) -> None:
    case.write("a", "published", depth=1, due=0, receipt="ALL")
    case.write("b", "received", "a", "a", due=1)
    case.lives("b")
    case.write("a", "forwarded", "b", **ANSWERED)
    case.write("a", "receipt", receipt="1/1", final=True)
    case.lives("a")


def _sent_again_with_more_depth_to_one_that_had_ended_it(case: Case, *, is_read: bool) -> None:
    """And from there to d, whose log ends before that; it is answered, and counted."""
    case.lives("d")
    case.write("a", "published", depth=3, due=0, receipt="ALL")
    for site in "bc":
        case.write(site, "received", "a", "a", due=0)
        case.write("a", "forwarded", site, final=site == "c", **ANSWERED)
    case.write("b", "expired", final=True)
    if is_read:
        case.write("b", "depth", "c", "ac", depth=2)
    case.lives("b")
    case.write("c", "forwarded", "b", final=True, **ANSWERED | {"outcome": "depth"})
    case.write("a", "receipt", receipt="1/1")
    case.lives("a", "c")


def a_receipt_counts_one_that_a_deeper_copy_reached_after_the_end_of_a_log(case: Case) -> None:
    _sent_again_with_more_depth_to_one_that_had_ended_it(case, is_read=False)


def a_receipt_counts_one_that_a_deeper_copy_reached_from_the_end_of_a_log_on(case: Case) -> None:
    _sent_again_with_more_depth_to_one_that_had_ended_it(case, is_read=True)


def a_receipt_counts_one_that_was_sent_it_before_its_timeout(case: Case) -> None:
    """It was under way when it expired here."""
    case.lives("b")
    case.write("a", "published", depth=1, due=0, receipt="ALL")
    case.write("a", "expired", final=True)
    case.write("a", "receipt", receipt="1/1")
    case.lives("a")


def it_was_overtaken_by_a_deeper_copy_after_the_end_of_a_log(case: Case) -> None:
    """So it was sent with the Hops of that one; the record of its answer is not there either."""
    case.write("a", "published", depth=4, due=0)
    case.write("b", "received", "a", "a", due=1)
    case.write("a", "forwarded", "b", **ANSWERED)
    case.write("c", "received", "a", "a", due=1)
    case.write("a", "forwarded", "c", final=True, **ANSWERED)
    case.lives("a", "b")
    case.reads("c", final=False)
    case.write("c", "forwarded", "b", final=True, **ANSWERED | {"outcome": "depth"})
    case.write("c", "loop", "b", "acb")
    case.lives("c")


def it_came_home_and_went_again_over_its_first_link_after_the_end_of_a_log(case: Case) -> None:
    """Who handed it back has that answered later, after it has come once more."""
    case.write("a", "published", mode="ONE", depth=-1, due=0)
    case.write("b", "received", "a", "a", mode="ONE", due=0)
    case.write("a", "forwarded", "b", mode="ONE", crossing=1, final=True, **ANSWERED)
    case.write("b", "received", "a", "aba", mode="ONE", due=1)
    case.reads("b", mode="ONE")
    case.lives("b")


CASES: Final[dict[str, Callable[[Case], None]]] = {
    "went on": it_went_on_from_a_log_that_ends_before_it_came,
    "commit": a_receipt_counts_a_commit_after_the_end_of_its_log,
    "deeper": a_receipt_counts_one_that_a_deeper_copy_reached_after_the_end_of_a_log,
    "deeper, read": a_receipt_counts_one_that_a_deeper_copy_reached_from_the_end_of_a_log_on,
    "expired": a_receipt_counts_one_that_was_sent_it_before_its_timeout,
    "overtaken": it_was_overtaken_by_a_deeper_copy_after_the_end_of_a_log,
    "home": it_came_home_and_went_again_over_its_first_link_after_the_end_of_a_log,
}


class Seen:
    """What the jobs say of each case."""

    def __init__(self, jobs: Found, cases: dict[str, Case]) -> None:
        self.jobs, self.cases = jobs, cases

    def missing(self, name: str) -> list[str]:
        """Of its route, the sites without their number."""
        missing = self.jobs.routes[self.cases[name].smuid]["missing"]
        return [site.removesuffix(str(self.cases[name].number)) for site in missing]


@pytest.fixture(scope="module")
def seen(spark: Any) -> Seen:
    logs = WrittenLogs()
    cases = {name: Case(number, logs) for number, name in enumerate(CASES, 1)}
    for name, happens in CASES.items():
        happens(cases[name])
    return Seen(found(spark, logs.records), cases)


def test_whoever_sent_a_copy_has_had_it_and_is_missing_where_no_log_tells_of_that(seen: Seen) -> None:
    assert seen.missing("went on") == ["e"]


@pytest.mark.parametrize("name", ["commit", "deeper", "deeper, read", "expired"])
def test_a_receipt_is_not_wrong_while_more_may_have_come_of_a_copy(seen: Seen, name: str) -> None:
    receipt = seen.jobs.receipts[seen.cases[name].smuid]
    assert (receipt["x"], receipt["had"], receipt["verdict"]) == (1, 0, "unknown")


def test_a_copy_that_came_back_has_looped_only_where_the_log_of_its_sender_goes_on(seen: Seen) -> None:
    assert not seen.jobs.looped


def test_who_may_have_had_a_message_back_has_made_no_second_custodian(seen: Seen) -> None:
    custody = seen.jobs.custody[seen.cases["home"].smuid]
    assert (custody["custodian"][0], custody["custodians"]) == ("b", 1)
