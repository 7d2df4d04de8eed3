"""What a link is said to have lost: what lies within the logs of both its ends, and nothing else.

Each case has a link of its own. All cases go through the jobs at once.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import pytest

from tests.support.hop_logs import ANSWERED, READER, WrittenLogs, records_frame

LOOSE: Final = {"mode": "ONE", "guarantee": False}

NUMBERS: Final = count(1)


class Link:
    """Copies that go from a sender to a receiver."""

    def __init__(self, logs: WrittenLogs, name: str) -> None:
        self.logs, self.sender, self.receiver = logs, f"{name}.from", f"{name}.to"
        self.boot = 1
        logs.write(self.sender, "heartbeat")

    def lives(self) -> None:
        """The receiver writes a heartbeat."""
        self.logs.write(self.receiver, "heartbeat")
        self.logs.records[-1].boot = self.boot

    def comes(self, event: str, smuid: str, **fields: Any) -> None:
        self.logs.write(self.receiver, event, smuid, peer=self.sender, hops=(self.sender,), due=0, **fields)
        self.logs.records[-1].boot = self.boot

    def repeated(self, outcome: str, *, logged: bool = True) -> None:
        """A guaranteed copy, the second attempt of which is answered."""
        smuid = f"{self.sender}/019aa5d72900-1-{next(NUMBERS):x}"
        self.logs.write(self.sender, "published", smuid, due=0)
        if logged:
            self.comes("received" if outcome == "accepted" else outcome, smuid, attempt=2)
        answer = ANSWERED | {"outcome": outcome}
        self.logs.write(self.sender, "forwarded", smuid, peer=self.receiver, attempt=2, final=True, **answer)

    def loose(self, *, logged: bool = True, **fields: Any) -> str:
        """An unguaranteed copy is handed over, which its receiver has a record of, or not."""
        smuid = f"{self.sender}/019aa5d72900-1-{next(NUMBERS):x}"
        handed = {"peer": self.receiver, "attempt": 1, "crossing": 1, "final": True}
        self.logs.write(self.sender, "published", smuid, depth=-1, due=1, **LOOSE, **fields)
        self.logs.write(self.sender, "forwarded", smuid, **handed, **LOOSE, **fields)
        if logged:
            self.comes("received", smuid, attempt=1, **LOOSE, **fields)
            reader = f"{READER}@{self.receiver}"
            self.logs.write(self.receiver, "delivered", smuid, subscription=reader, final=True, **LOOSE)
            self.logs.records[-1].boot = self.boot
        return smuid


def the_first_attempt_did_not_come(link: Link) -> None:
    link.lives()
    link.repeated("accepted")


def the_first_attempt_came_before_the_log_begins(link: Link) -> None:
    link.logs.last[link.receiver] = 499
    link.repeated("duplicate")


def all_attempts_came_after_the_end_of_the_log(link: Link) -> None:
    link.lives()
    link.repeated("accepted", logged=False)


def the_last_one_is_answered_after_the_end_of_the_senders_log(link: Link) -> None:
    """It says nothing of the one before, nor does one that went again with more depth."""
    the_first_attempt_did_not_come(link)
    for again in ("duplicate", "depth"):
        smuid = f"{link.sender}/019aa5d72900-1-{next(NUMBERS):x}"
        link.logs.write(link.sender, "published", smuid, due=0)
        link.comes("received", smuid, attempt=1)
        link.comes(again, smuid, attempt=2)
    link.logs.write(link.sender, "forwarded", smuid, peer=link.receiver, attempt=1, **ANSWERED)


def the_first_attempt_came_and_was_not_answered(link: Link) -> None:
    smuid = f"{link.sender}/019aa5d72900-1-{next(NUMBERS):x}"
    link.logs.write(link.sender, "published", smuid, due=0)
    link.comes("received", smuid, attempt=1)
    link.comes("duplicate", smuid, attempt=3)
    answer = ANSWERED | {"outcome": "duplicate"}
    link.logs.write(link.sender, "forwarded", smuid, peer=link.receiver, attempt=3, final=True, **answer)


def a_loose_one_between_two_that_came(link: Link) -> None:
    link.loose()
    link.loose(logged=False)
    link.loose()


def a_loose_one_before_all_that_came(link: Link) -> None:
    link.lives()
    link.loose(logged=False)
    link.loose()


def a_loose_one_at_the_end_of_the_log(link: Link) -> None:
    link.loose()
    link.loose(logged=False)


def a_loose_one_that_a_kill_took_with_its_record(link: Link) -> None:
    link.loose()
    link.boot = 2
    link.loose(logged=False)
    link.loose()


def a_loose_one_that_more_urgent_ones_may_have_overtaken(link: Link) -> None:
    link.loose(priority=9)
    link.loose(logged=False)
    link.loose(priority=9)


CASES: Final[dict[str, tuple[Callable[[Link], None], int | None]]] = {
    "first": (the_first_attempt_did_not_come, 1),
    "retention": (the_first_attempt_came_before_the_log_begins, None),
    "end": (all_attempts_came_after_the_end_of_the_log, 0),
    "open": (the_last_one_is_answered_after_the_end_of_the_senders_log, 1),
    "unanswered": (the_first_attempt_came_and_was_not_answered, 1),
    "loose": (a_loose_one_between_two_that_came, 1),
    "loose.first": (a_loose_one_before_all_that_came, 0),
    "loose.last": (a_loose_one_at_the_end_of_the_log, 0),
    "loose.killed": (a_loose_one_that_a_kill_took_with_its_record, 0),
    "loose.overtaken": (a_loose_one_that_more_urgent_ones_may_have_overtaken, 0),
}
"""By the name of the link: what goes over it, and how many attempts it is said to have lost."""


@pytest.fixture(scope="module")
def said(spark: Any) -> tuple[dict[str, tuple[int | None, int | None, int | None]], set[str]]:
    """Of each link the attempts that it lost, those unanswered, and how many were made again; and of which
    senders a message is gone.
    """
    from routing.trace import clocks, coverage, custody, facts, links, routes, vanished

    logs = WrittenLogs()
    cases = {name: Link(logs, name) for name in CASES}
    for name, (happens, _) in CASES.items():
        happens(cases[name])
        logs.write(cases[name].sender, "heartbeat")
        cases[name].lives()
    read = records_frame(spark, logs.records)
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
    paired = facts.facts(read).localCheckpoint()
    made = routes.routes(paired, clocks.segments_frame(spark, []), covered).localCheckpoint()
    hops = facts.hops(paired).withColumn("kind", links.kind_name())
    gone = vanished.proven_vanished(hops, read, covered)
    lost = {
        row["from"]: (row.lost, row.unanswered, row.retries)
        for row in links.links(routes.hop_rows(made), covered, gone).collect()
    }
    found = custody.custody(made, gone).where("state = 'gone'").collect()
    return lost, {row.origin for row in found}


@pytest.mark.parametrize("name", CASES)
def test_a_link_has_lost_what_lies_within_the_logs_of_both_ends_and_has_not_come(
    said: tuple[dict[str, tuple[int | None, int | None, int | None]], set[str]], name: str
) -> None:
    lost, gone = said
    assert lost[f"{name}.from"][0] == CASES[name][1]
    assert (f"{name}.from" in gone) is (name == "loose")


def test_an_attempt_that_came_is_unanswered_where_a_later_one_was_answered(
    said: tuple[dict[str, tuple[int | None, int | None, int | None]], set[str]],
) -> None:
    lost, _ = said
    assert {name for name in CASES if lost[f"{name}.from"][1]} == {"unanswered"}
    assert lost["unanswered.from"][1] == 1


def test_what_has_no_guarantee_is_lost_and_never_sent_again(
    said: tuple[dict[str, tuple[int | None, int | None, int | None]], set[str]],
) -> None:
    lost, _ = said
    assert lost["first.from"] == (1, 0, 1)
    assert lost["loose.from"] == (1, 0, 0)
