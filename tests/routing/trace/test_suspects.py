"""When a copy is said to be lost, or stuck: where that is proven, and not where it only looks so."""

from typing import Any

import pytest

from tests.support.hop_logs import READER, WrittenLogs, records_frame


class Suspects:
    """Copies that `set` has acknowledged to `a`, by a clock that is right only where its log is read."""

    def __init__(self) -> None:
        self.logs = WrittenLogs()
        self.count = 0
        for _ in range(20):
            self.logs.write("set", "heartbeat")

    def answered(self, *, stamp_us: int = 0, **fields: Any) -> str:
        """A copy of which only the acknowledgement tells."""
        self.count += 1
        name = f"a/019aa5d72900-1-{self.count:x}"
        at_us = stamp_us or 1_763_719_210_000_000 + self.count
        stamps = {"sent_us": 1, "peer_received_us": at_us, "peer_sent_us": at_us}
        self.logs.write("a", "forwarded", name, peer="set", attempt=1, outcome="accepted", **stamps, **fields)
        return name

    def taken(self, *, stamp_us: int = 0) -> str:
        """A copy that is in the log of `set`, too."""
        name = f"a/019aa5d72900-1-{self.count + 1:x}"
        self.logs.write("set", "received", name, peer="a", attempt=1, due=1, hops=("a",))
        self.logs.write("set", "committed", name, subscription=f"{READER}@set", final=True)
        return self.answered(stamp_us=stamp_us)

    def lost(self, spark: Any) -> set[str]:
        from routing.trace import brackets, coverage, ends, facts

        for _ in range(20):
            self.logs.write("set", "heartbeat")
        read = records_frame(spark, self.logs.records)
        words = coverage.words(read)
        gaps = coverage.gaps(words).localCheckpoint()
        covered = coverage.coverage(read, words, gaps).localCheckpoint()
        copies = facts.copies(facts.facts(read, ["set"])).localCheckpoint()
        found = ends.states(copies, covered, brackets.proven_lost(copies, read, gaps))
        return {row.smuid for row in found.where("state = 'lost'").collect()}


def test_a_copy_is_lost_where_all_numbers_are_there_between_two_that_were_answered(spark: Any) -> None:
    suspects = Suspects()
    suspects.taken()
    lost = suspects.answered()
    suspects.taken()
    assert suspects.lost(spark) == {lost}


def test_a_copy_is_not_lost_where_its_record_may_be_in_a_gap_whatever_the_clock_said(spark: Any) -> None:
    suspects = Suspects()
    suspects.taken()
    suspects.logs.lose("set")
    suspects.answered()
    suspects.taken()
    assert suspects.lost(spark) == set()


def test_a_copy_is_not_lost_where_nothing_was_answered_before_or_after_it(spark: Any) -> None:
    suspects = Suspects()
    suspects.answered()
    suspects.taken()
    suspects.answered()
    assert suspects.lost(spark) == set()


def test_copies_that_were_answered_together_prove_nothing_of_each_other(spark: Any) -> None:
    suspects = Suspects()
    suspects.taken(stamp_us=1_763_719_210_000_000)
    suspects.answered(stamp_us=1_763_719_210_000_000)
    suspects.taken()
    assert suspects.lost(spark) == set()


@pytest.mark.parametrize("peer", ["b", "a"], ids=["by another way", "on the same link"])
def test_one_that_comes_again_tells_nothing_of_what_was_answered_before(spark: Any, peer: str) -> None:
    suspects = Suspects()
    suspects.taken()
    suspects.logs.lose("set")
    roaming, hops = suspects.answered(mode="ONE", crossing=1), ("a", "set", peer)
    suspects.answered()
    suspects.logs.write("set", "received", roaming, peer=peer, mode="ONE", attempt=1, due=1, hops=hops)
    suspects.taken()
    assert suspects.lost(spark) == set()


MINUTE_US = 60_000_000


class Overdue:
    """A copy with a timeout of ten minutes that is held, at a server with a heartbeat each minute."""

    def __init__(self) -> None:
        self.logs = WrittenLogs()
        self.now_us = 1_763_719_200_000_000
        self.boot = 1
        self.lives(3)
        self.write("published", "a/019aa5d72900-1-1", expires_us=self.now_us + 10 * MINUTE_US, due=1)

    def write(self, event: str, smuid: str = "", **fields: Any) -> None:
        self.logs.write("a", event, smuid, **fields)
        self.logs.records[-1].time_us = self.now_us
        self.logs.records[-1].boot = self.boot

    def lives(self, minutes: int) -> None:
        for _ in range(minutes):
            self.now_us += MINUTE_US
            self.write("heartbeat")

    def is_stuck(self, spark: Any) -> bool:
        from routing.trace import coverage, ends, facts, overdue

        read = records_frame(spark, self.logs.records)
        words = coverage.words(read)
        covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
        copies = ends.states(facts.copies(facts.facts(read)), covered)
        found = overdue.proven_overdue(copies, read)
        return found is not None and not found.isEmpty()


def test_a_copy_is_stuck_where_its_server_ran_on_beyond_its_timeout(spark: Any) -> None:
    held = Overdue()
    held.lives(20)
    assert held.is_stuck(spark)


def test_a_clock_that_was_set_forward_makes_no_copy_stuck(spark: Any) -> None:
    held = Overdue()
    held.lives(2)
    held.now_us += 60 * MINUTE_US
    held.lives(6)
    assert not held.is_stuck(spark)


def test_nor_does_the_time_in_which_its_server_was_down(spark: Any) -> None:
    held = Overdue()
    held.lives(2)
    held.now_us += 60 * MINUTE_US
    held.boot = 2
    held.lives(2)
    assert not held.is_stuck(spark)
