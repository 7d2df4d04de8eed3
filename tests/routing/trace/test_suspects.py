"""When a copy is said to be lost, or stuck: where that is proven, and not where it only looks so.

What is told here has servers of its own in each case. All cases go through the jobs at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from tests.support.hop_logs import READER, WrittenLogs, records_frame


class Suspects:
    """Copies that `set` has acknowledged to `a`, by a clock that is right only where its log is read."""

    def __init__(self, number: int) -> None:
        self.a, self.set = f"a{number}", f"set{number}"
        self.logs = WrittenLogs()
        self.count = 0
        self.lives()

    def lives(self) -> None:
        for _ in range(20):
            self.logs.write(self.set, "heartbeat")

    def started_at(self, number: int, boot: int) -> None:
        """What it has written from this number on is of this boot."""
        for record in self.logs.records:
            if record.server == self.set and record.record >= number:
                record.boot = boot

    def answered(self, *, stamp_us: int = 0, **fields: Any) -> str:
        """A copy of which only the acknowledgement tells."""
        self.count += 1
        name = f"{self.a}/019aa5d72900-1-{self.count:x}"
        at_us = stamp_us or 1_763_719_210_000_000 + self.count
        stamps = {"sent_us": 1, "peer_received_us": at_us, "peer_sent_us": at_us}
        answer = {"peer": self.set, "attempt": 1, "outcome": "accepted"}
        self.logs.write(self.a, "forwarded", name, **answer, **stamps, **fields)
        return name

    def taken(self, *, stamp_us: int = 0) -> str:
        """A copy that is in the log of `set`, too."""
        name = f"{self.a}/019aa5d72900-1-{self.count + 1:x}"
        self.logs.write(self.set, "received", name, peer=self.a, attempt=1, due=1, hops=(self.a,))
        self.logs.write(self.set, "committed", name, subscription=f"{READER}@{self.set}", final=True)
        return self.answered(stamp_us=stamp_us)


def a_copy_between_two_that_were_answered_where_all_numbers_are_there(case: Suspects) -> set[str]:
    case.taken()
    lost = case.answered()
    case.taken()
    return {lost}


def its_record_may_be_in_a_gap_whatever_the_clock_said(case: Suspects) -> set[str]:
    case.taken()
    case.logs.lose(case.set)
    case.answered()
    case.taken()
    return set()


def nothing_was_answered_before_or_after_it(case: Suspects) -> set[str]:
    case.answered()
    case.taken()
    case.answered()
    return set()


def copies_that_were_answered_together_prove_nothing_of_each_other(case: Suspects) -> set[str]:
    case.taken(stamp_us=1_763_719_210_000_000)
    case.answered(stamp_us=1_763_719_210_000_000)
    case.taken()
    return set()


def one_that_comes_again_tells_nothing_of_what_was_answered_before(
    case: Suspects, by_another_way: bool
) -> set[str]:
    case.taken()
    case.logs.lose(case.set)
    peer = f"b.{case.a}" if by_another_way else case.a
    roaming, hops = case.answered(mode="ONE", crossing=1), (case.a, case.set, peer)
    case.answered()
    case.logs.write(case.set, "received", roaming, peer=peer, mode="ONE", attempt=1, due=1, hops=hops)
    case.taken()
    return set()


def its_server_was_installed_anew(case: Suspects) -> set[str]:
    """It numbers its records from 1, and takes the number of one that was not read."""
    case.taken()
    case.answered()
    case.logs.last[case.set] = 0
    case.lives()
    case.lives()
    case.taken()
    return set()


def its_server_was_installed_anew_and_its_first_records_were_not_read(case: Suspects) -> set[str]:
    case.taken()
    case.answered()
    for record in case.logs.records:
        record.boot = 2
    for _ in range(3):
        case.lives()
    case.taken()
    return set()


def its_server_was_started_again(case: Suspects) -> set[str]:
    found = a_copy_between_two_that_were_answered_where_all_numbers_are_there(case)
    case.started_at(1, 0)
    case.started_at(10, 1)
    return found


def its_server_was_installed_anew_a_few_records_ago(case: Suspects) -> set[str]:
    """No number came twice, and it had been started more than once before."""
    case.taken()
    case.answered()
    case.started_at(1, 2)
    case.started_at(10, 3)
    case.taken()
    return set()


def its_server_was_installed_anew_and_its_numbers_reach_the_first_that_was_read_before(
    case: Suspects,
) -> set[str]:
    """No number came twice, all are of one boot, and the last records before it were not read."""
    case.logs.last[case.set] = 40
    case.taken()
    case.answered()
    case.logs.last[case.set] = 20
    case.taken()
    for _ in range(18):
        case.logs.write(case.set, "heartbeat")
    case.logs.last[case.set] = 42
    return set()


def its_sender_was_installed_anew_and_answers_of_its_second_life_have_the_numbers_around_it(
    case: Suspects,
) -> set[str]:
    """The record of the copy is in a gap, and there is none where those of the second life are."""
    for number in range(3):
        case.logs.last[case.a] = 1 + 2 * number
        if number == 1:
            case.logs.lose(case.set)
            case.answered()
        else:
            case.taken()
    case.lives()
    for number in range(2):
        case.logs.last[case.a] = 2 + 2 * number
        case.taken()
    for number in (1, 2, 4, 6):
        case.logs.last[case.a] = number - 1
        case.logs.write(case.a, "heartbeat")
    return set()


def a_receipt_counts_one_that_has_it_and_nobody_is_known_to(case: Suspects) -> set[str]:
    """Its server was restored from a backup, and its boot and numbers go on as if nothing had been."""
    lost = a_copy_between_two_that_were_answered_where_all_numbers_are_there(case)
    for name in lost:
        case.logs.write(case.a, "receipt", name, receipt="1/1")
    return set()


def a_receipt_counts_those_that_are_known_to_have_it(case: Suspects) -> set[str]:
    lost = a_copy_between_two_that_were_answered_where_all_numbers_are_there(case)
    for name in lost:
        case.logs.write(case.a, "committed", name, subscription=f"{READER}@{case.a}", attempt=1)
        case.logs.write(case.a, "receipt", name, receipt="1/2")
    return lost


def a_receipt_that_another_site_has_written_counts_for_nothing(case: Suspects) -> set[str]:
    case.taken()
    lost = case.answered()
    case.taken()
    case.logs.write(case.set, "receipt", lost, receipt="9/9")
    return {lost}


def its_server_was_restored_and_its_numbers_go_on_far_beyond(case: Suspects) -> set[str]:
    case.taken()
    case.answered()
    case.logs.last[case.set] += 1 << 50
    case.taken()
    return set()


LOST: Final[dict[str, Callable[[Suspects], set[str]]]] = {
    "between two that were answered": a_copy_between_two_that_were_answered_where_all_numbers_are_there,
    "in a gap": its_record_may_be_in_a_gap_whatever_the_clock_said,
    "nothing before or after": nothing_was_answered_before_or_after_it,
    "together": copies_that_were_answered_together_prove_nothing_of_each_other,
    "again by another way": partial(
        one_that_comes_again_tells_nothing_of_what_was_answered_before, by_another_way=True
    ),
    "again on the same link": partial(
        one_that_comes_again_tells_nothing_of_what_was_answered_before, by_another_way=False
    ),
    "anew": its_server_was_installed_anew,
    "anew, first records not read": its_server_was_installed_anew_and_its_first_records_were_not_read,
    "anew, a few records ago": its_server_was_installed_anew_a_few_records_ago,
    "anew, as far as it was read": (
        its_server_was_installed_anew_and_its_numbers_reach_the_first_that_was_read_before
    ),
    "started again": its_server_was_started_again,
    "sender anew": (its_sender_was_installed_anew_and_answers_of_its_second_life_have_the_numbers_around_it),
    "restored": its_server_was_restored_and_its_numbers_go_on_far_beyond,
    "had, says a receipt": a_receipt_counts_one_that_has_it_and_nobody_is_known_to,
    "had, says a receipt of another site": a_receipt_that_another_site_has_written_counts_for_nothing,
    "not had, says a receipt": a_receipt_counts_those_that_are_known_to_have_it,
}
"""Each tells of copies, and says which of them are lost."""


@pytest.fixture(scope="module")
def lost(spark: Any) -> dict[str, tuple[set[str], set[str]]]:
    """By the names of `LOST`: what the jobs find, and what there is to find."""
    from routing.trace import brackets, coverage, ends, facts

    cases = {name: Suspects(number) for number, name in enumerate(LOST, 1)}
    true = {name: LOST[name](case) for name, case in cases.items()}
    for case in cases.values():
        case.lives()
    read = records_frame(spark, [record for case in cases.values() for record in case.logs.records])
    words = coverage.words(read)
    twice = coverage.numbered_twice(words, read)
    gaps = coverage.gaps(words, twice=twice).localCheckpoint()
    covered = coverage.coverage(read, words, gaps, twice).localCheckpoint()
    copies = facts.copies(facts.facts(read, [case.set for case in cases.values()])).localCheckpoint()
    found = ends.states(copies, covered, brackets.proven_lost(copies, read, gaps, twice))
    said = [row.smuid for row in found.where("state = 'lost'").collect()]
    return {
        name: ({smuid for smuid in said if smuid.startswith(f"{case.a}/")}, true[name])
        for name, case in cases.items()
    }


@pytest.mark.parametrize("name", LOST)
def test_a_copy_is_lost_where_that_is_proven_alone(
    lost: dict[str, tuple[set[str], set[str]]], name: str
) -> None:
    found, true = lost[name]
    assert found == true


MINUTE_US = 60_000_000
DAY_MINUTES = 24 * 60


class Overdue:
    """A copy that is held, with a timeout of ten minutes, at a server with a heartbeat each minute."""

    def __init__(
        self,
        server: str,
        *,
        stated: bool = True,
        mode: str = "ALL",
        lasts_us: int = 10 * MINUTE_US,
        every_us: int = MINUTE_US,
    ) -> None:
        self.server = server
        self.logs = WrittenLogs()
        self.now_us = 1_763_719_200_000_000
        self.boot = 1
        self.lives(9, every_us)
        self.smuid = f"{server}/019aa5d72900-1-1"
        expires_us = self.now_us + lasts_us if stated else 0
        self.write("published", self.smuid, expires_us=expires_us, due=1, mode=mode)

    def write(self, event: str, smuid: str = "", **fields: Any) -> None:
        self.logs.write(self.server, event, smuid, **fields)
        self.logs.records[-1].time_us = self.now_us
        self.logs.records[-1].boot = self.boot

    def lives(self, heartbeats: int, every_us: int = MINUTE_US) -> None:
        for _ in range(heartbeats):
            self.now_us += every_us
            self.write("heartbeat")

    def reads(self, event: str, attempt: int = 1) -> None:
        """What becomes of its delivery."""
        self.write(event, self.smuid, subscription=f"{READER}@{self.server}", attempt=attempt)


def ran_on_beyond_its_timeout(held: Overdue) -> None:
    held.lives(20)


def a_long_timeout_has_ended_three_minutes_ago(held: Overdue) -> None:
    held.lives(2 * DAY_MINUTES + 3)


def a_long_timeout_has_ended_eight_minutes_ago(held: Overdue) -> None:
    held.lives(2 * DAY_MINUTES + 8)


def ran_on_for_more_than_a_day(held: Overdue) -> None:
    held.lives(25 * 60)


def a_subscriber_received_it(held: Overdue) -> None:
    held.reads("delivered")
    held.lives(20)


def a_subscriber_gave_it_back(held: Overdue) -> None:
    held.reads("delivered")
    held.reads("returned")
    held.lives(20)


def a_subscriber_received_it_again(held: Overdue) -> None:
    a_subscriber_gave_it_back(held)
    held.reads("delivered", 2)


def a_clock_that_was_set_forward(held: Overdue) -> None:
    held.lives(2)
    held.now_us += 60 * MINUTE_US
    held.lives(6)


def heartbeats_that_were_told_to_come_more_often_and_a_clock_that_was_set(held: Overdue) -> None:
    held.lives(8)
    held.lives(1, every_us=MINUTE_US // 12)
    held.now_us += 60 * MINUTE_US
    held.lives(8, every_us=MINUTE_US // 12)


def heartbeats_of_an_hour_that_were_told_to_come_more_often_and_a_clock_that_was_set(held: Overdue) -> None:
    held.lives(2)
    held.now_us += 59 * MINUTE_US
    held.lives(2)


def the_time_in_which_its_server_was_down(held: Overdue) -> None:
    held.lives(2)
    held.now_us += 60 * MINUTE_US
    held.boot = 2
    held.lives(2)


HELD: Final = {
    "ran": (ran_on_beyond_its_timeout, True),
    "ending": (a_long_timeout_has_ended_three_minutes_ago, False),
    "long": (a_long_timeout_has_ended_eight_minutes_ago, True),
    "default": (ran_on_for_more_than_a_day, False),
    "queue": (ran_on_for_more_than_a_day, False),
    "received": (a_subscriber_received_it, False),
    "returned": (a_subscriber_gave_it_back, True),
    "again": (a_subscriber_received_it_again, False),
    "set": (a_clock_that_was_set_forward, False),
    "hourly": (heartbeats_of_an_hour_that_were_told_to_come_more_often_and_a_clock_that_was_set, False),
    "often": (heartbeats_that_were_told_to_come_more_often_and_a_clock_that_was_set, False),
    "down": (the_time_in_which_its_server_was_down, False),
}
"""By server: what happened while it held a copy, and whether that makes the copy stuck."""

OTHERS: Final[dict[str, dict[str, Any]]] = {
    "ending": {"lasts_us": 2 * DAY_MINUTES * MINUTE_US},
    "long": {"lasts_us": 2 * DAY_MINUTES * MINUTE_US},
    "hourly": {"every_us": 60 * MINUTE_US},
    "default": {"stated": False},
    "queue": {"stated": False, "mode": "ONE"},
}
"""By server: what its copy is, where it is none of mode ALL with a timeout of ten minutes."""


@pytest.fixture(scope="module")
def stuck(spark: Any) -> set[str]:
    """The servers of `HELD` of which the jobs say so."""
    from routing.trace import coverage, ends, facts, overdue

    cases = {server: Overdue(server, **OTHERS.get(server, {})) for server in HELD}
    for server, (happens, _) in HELD.items():
        happens(cases[server])
    read = records_frame(spark, [record for case in cases.values() for record in case.logs.records])
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
    copies = ends.states(facts.copies(facts.facts(read)), covered)
    found = overdue.proven_overdue(copies, read)
    return set() if found is None else {row.server for row in found.collect()}


@pytest.mark.parametrize("server", HELD)
def test_a_copy_is_stuck_where_its_server_ran_on_beyond_its_timeout_alone(
    stuck: set[str], server: str
) -> None:
    assert (server in stuck) is HELD[server][1]
