"""What is said where logs simply end, each at another moment, as where they are fetched once a day.

Each case has servers of its own, and all go through the jobs at once.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.found_in_logs import Found, found
from tests.support.hop_logs import READER, WrittenLogs


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


CASES: Final[dict[str, Callable[[Case], None]]] = {
    "went on": it_went_on_from_a_log_that_ends_before_it_came,
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
