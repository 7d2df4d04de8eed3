"""Clocks that were set by more than a minute, backward and forward."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from routing.trace.epochs import (
    BUCKET_US,
    FOREVER_US,
    MINUTE_US,
    STRETCHES_MAX,
    Epoch,
    Sighting,
    epochs,
    jumpers,
)
from tests.support.hop_logs import ANSWERED, WrittenLogs, records_frame

HOUR_US = 60 * MINUTE_US
NOON_US = 1_763_726_400_000_000
LATEST_US = NOON_US + 48 * HOUR_US
WAY_US = 5_000


def sighting(neighbour: str, clock_us: int, ahead_us: int) -> Sighting:
    """A hop that came when the clock showed `clock_us`, and was `ahead_us` ahead of the neighbour's."""
    bucket, there, back = round(ahead_us / BUCKET_US), WAY_US + ahead_us, WAY_US - ahead_us
    return Sighting("set", neighbour, clock_us // MINUTE_US, bucket, 1, there, back, 2 * WAY_US)


def heard(set_by_us: int, minutes: int = 480, set_after: int = 240) -> list[Epoch]:
    """A clock that is set once is heard by two neighbours, one of them an hour ahead."""
    seen = []
    for minute in range(minutes):
        ahead_us = set_by_us if minute >= set_after else 0
        clock_us = NOON_US + minute * MINUTE_US + 30_000_000 + ahead_us
        seen += [sighting("a", clock_us, ahead_us), sighting("b", clock_us, ahead_us - HOUR_US)]
    return epochs(seen, {"a": 0.0, "b": float(HOUR_US)})


@pytest.mark.parametrize("set_by_us", [61_000_000, 2 * HOUR_US])
def test_of_a_clock_that_was_set_forward_all_is_known(set_by_us: int) -> None:
    before, after = heard(set_by_us)
    jump_us = NOON_US + 240 * MINUTE_US
    assert (before.from_us, before.ahead_us) == (-FOREVER_US, 0)
    assert (after.until_us, after.ahead_us) == (FOREVER_US, set_by_us)
    assert jump_us - MINUTE_US <= before.until_us <= jump_us
    assert jump_us + set_by_us - MINUTE_US <= after.from_us <= jump_us + set_by_us


@pytest.mark.parametrize(("stretches", "known"), [(STRETCHES_MAX, STRETCHES_MAX), (STRETCHES_MAX + 1, 0)])
def test_a_clock_that_was_set_very_often_is_unknown(stretches: int, known: int) -> None:
    seen = []
    for number in range(stretches):
        ahead_us = 50_000_000 if number % 2 else 0
        clock_us = NOON_US + number * 10 * MINUTE_US
        seen += [sighting("a", clock_us + minute * MINUTE_US, ahead_us) for minute in range(5)]
    assert len(epochs(seen, {"a": 0.0})) == known


def test_times_that_came_twice_are_unknown() -> None:
    before, after = heard(-2 * HOUR_US)
    jump_us = NOON_US + 240 * MINUTE_US
    assert (before.ahead_us, after.ahead_us) == (0, -2 * HOUR_US)
    assert before.until_us <= jump_us - 2 * HOUR_US
    assert after.from_us >= jump_us


def test_neighbours_that_tell_two_things_tell_nothing() -> None:
    """Of the times that came twice one neighbour was heard in the first, and one in the second."""
    seen = []
    for minute in range(240):
        ahead_us, neighbour = (0, "a") if minute < 120 else (-2 * HOUR_US, "b")
        clock_us = NOON_US + minute * MINUTE_US + ahead_us
        seen += [sighting(neighbour, clock_us, ahead_us)]
        seen += [sighting("c", NOON_US + at * HOUR_US, 0 if at < 0 else -2 * HOUR_US) for at in (-5, 5)]
    found = epochs(seen, {"a": 0.0, "b": 0.0, "c": 0.0})
    assert {epoch.ahead_us for epoch in found} == {0, -2 * HOUR_US}


def test_a_clock_that_is_set_and_set_right_again_has_three_epochs() -> None:
    seen = []
    for minute in range(600):
        ahead_us = HOUR_US if 200 <= minute < 400 else 0
        seen.append(sighting("a", NOON_US + minute * MINUTE_US + ahead_us, ahead_us))
    found = epochs(seen, {"a": 0.0})
    assert [epoch.ahead_us for epoch in found] == [0, HOUR_US, 0]
    # set back by an hour: what was shown in the last one of the second epoch was shown again
    assert found[1].until_us <= NOON_US + 400 * MINUTE_US
    assert found[2].from_us >= NOON_US + 400 * MINUTE_US + HOUR_US


def test_of_a_clock_that_is_set_a_little_once_more_the_doubt_holds_both() -> None:
    """Set by a minute, and back by five seconds, as its neighbour `a` has seen, and `b` half of it."""
    minute_us, back_us = 60_000_000, 5_000_000
    seen = [sighting("a", NOON_US, 0), sighting("b", NOON_US, 0)]
    for minute, ahead_us in ((2, minute_us), (3, minute_us - back_us)):
        seen.append(sighting("a", NOON_US + minute * MINUTE_US, ahead_us))
        seen.append(sighting("b", NOON_US + minute * MINUTE_US, ahead_us + back_us // 2 * (minute - 2)))
    # `b` is known through this clock alone
    _, after = epochs(seen, {"a": 0.0, "b": -back_us / 4})
    for ahead_us in (minute_us, minute_us - back_us):
        assert abs(after.ahead_us - ahead_us) <= after.doubt_us


def test_of_one_whose_neighbours_saw_it_before_and_after_it_was_set_a_little_the_doubt_holds_both() -> None:
    seen = [sighting("a", NOON_US, 0)]
    seen += [sighting("a", NOON_US + HOUR_US, HOUR_US)]
    seen += [sighting("b", NOON_US + HOUR_US + MINUTE_US, HOUR_US - 5_000_000)]
    _, after = epochs(seen, {"a": 0.0, "b": 0.0})
    for ahead_us in (HOUR_US, HOUR_US - 5_000_000):
        assert abs(after.ahead_us - ahead_us) <= after.doubt_us


@pytest.mark.parametrize(
    ("links", "torn", "found"),
    [
        ({("a", "b"), ("b", "c"), ("a", "c")}, {("a", "b"), ("a", "c")}, {"a"}),
        ({("a", "b"), ("b", "c")}, {("a", "b"), ("b", "c")}, {"b"}),
        ({("a", "b"), ("b", "c")}, {("a", "b")}, {"a"}),
        # either a, which was silent towards d, or b and c
        ({("a", "b"), ("a", "c"), ("a", "d")}, {("a", "b"), ("a", "c")}, {"a", "b"}),
        ({("a", "b")}, {("a", "b")}, {"a", "b"}),
    ],
)
def test_the_clock_was_set_of_whom_most_links_say_so(
    links: set[tuple[str, str]], torn: set[tuple[str, str]], found: set[str]
) -> None:
    assert jumpers(links, torn) == found


def test_the_clock_was_set_whose_own_log_says_so_whatever_most_links_say() -> None:
    star = {("a", "b"), ("b", "c"), ("b", "d")}
    assert jumpers(star, star) == {"b"}
    assert jumpers(star, star, {"a", "c", "d"}) == {"a", "c", "d"}
    assert jumpers(star, star, {"a", "elsewhere"}) == {"a", "b"}


def test_of_as_many_torn_links_as_a_log_may_invent_all_are_explained() -> None:
    """To count them all anew for each that is explained would take minutes."""
    pairs = [(f"a{number}", f"b{number}") for number in range(20_000)]
    assert len(jumpers(pairs, pairs)) == 40_000
    chain = [(f"{number:05}", f"{number + 1:05}") for number in range(20_000)]
    found = jumpers(chain, chain)
    assert all(found.intersection(link) for link in chain)


class Federation:
    """What the clocks of the sites `a`, `b` and `c` show, in hops between them and in heartbeats.

    `sets`: by site when its clock was set, and by how much.
    """

    def __init__(self, **sets: tuple[int, int]) -> None:
        self.sets = sets

    def shown(self, site: str, true_us: int) -> int:
        set_at, by_us = self.sets.get(site, (0, 0))
        return true_us + (3 * HOUR_US if site == "c" else 0) + (by_us if true_us >= set_at else 0)

    def hops(self, spark: Any, links: Sequence[tuple[str, str]]) -> Any:
        random.seed(1)
        rows = []
        for number in range(960):
            sent = NOON_US + number * MINUTE_US // 2 + random.randrange(20_000_000)
            a, b = random.choice(links)[:: random.choice((1, -1))]
            received = sent + 5_000 + random.randrange(5_000)
            answered = received + 1_000
            acked = answered + 5_000 + random.randrange(5_000)
            stamps = zip((a, b, b, a), (sent, received, answered, acked), strict=True)
            rows.append((f"{number}", a, b, 1, *(self.shown(*stamp) for stamp in stamps), 1, 1, False))
        columns = "smuid string, `from` string, `to` string, attempt int, sent_us long, received_us long, "
        columns += "answered_us long, acked_us long, arrival int, outcome int, unguaranteed boolean"
        return spark.createDataFrame(rows, columns).localCheckpoint()

    def records(self, spark: Any) -> Any:
        rows = [
            (site, 1, minute, self.shown(site, NOON_US + minute * MINUTE_US))
            for site in "abc"
            for minute in range(480)
        ]
        return spark.createDataFrame(rows, "server string, boot long, record long, time_us long")


@pytest.mark.parametrize("set_by_us", [90_000_000, -90_000_000, 2 * HOUR_US, -2 * HOUR_US])
def test_a_clock_that_was_set_is_right_before_and_after(spark: Any, set_by_us: int) -> None:
    """`b` stands between `a` and `c`, which hear of each other through it alone."""
    from routing.trace import clocks

    federation = Federation(b=(NOON_US + 4 * HOUR_US, set_by_us))
    hops = federation.hops(spark, [("a", "b"), ("b", "c")])
    found = clocks.measured(hops, federation.records(spark), LATEST_US)
    by_name = {clock.server: clock.segments for clock in found}
    assert by_name.keys() == {"a", "b", "c"}
    assert len(by_name["b"]) == 2
    corrected = clocks.corrected(hops, clocks.segments_frame(spark, found)).collect()
    delays = [row.delay_us for row in corrected if row.delay_us is not None]
    assert all(0 < delay < 20_000 for delay in delays)
    came_twice = max(-set_by_us, 0) / (8 * HOUR_US) * 2
    assert len(delays) / len(hops.collect()) > 1 - came_twice - 0.3


def test_of_three_two_that_were_set_are_named_and_not_the_third(spark: Any) -> None:
    from routing.trace import clocks, jumps

    federation = Federation(a=(NOON_US + 2 * HOUR_US, -HOUR_US), b=(NOON_US + 4 * HOUR_US, -HOUR_US))
    hops, records = federation.hops(spark, [("a", "b"), ("b", "c"), ("a", "c")]), federation.records(spark)
    claims = jumps.claimed(clocks.measured(hops, records, LATEST_US))
    assert {(one.server, round(one.by_us / HOUR_US)) for one in claims} == {("a", -1), ("b", -1)}
    assert jumps.proven(claims, records) == claims


def test_a_link_of_a_server_to_itself_that_an_earlier_run_kept_is_none(spark: Any) -> None:
    from routing.trace import clocks

    federation = Federation()
    hops = federation.hops(spark, [("a", "b"), ("a", "a")])
    found = clocks.measured(hops, federation.records(spark), LATEST_US)
    assert {clock.server for clock in found} == {"a", "b"}


@pytest.mark.parametrize("no_time_us", [1_000, LATEST_US + 1])
def test_a_clock_that_shows_no_time_is_unknown_and_moves_no_others(spark: Any, no_time_us: int) -> None:
    from routing.trace import clocks

    federation = Federation(b=(0, no_time_us - NOON_US))
    hops = federation.hops(spark, [("a", "b"), ("a", "c")])
    found = clocks.measured(hops, federation.records(spark), LATEST_US)
    offsets = {clock.server: clock.segments[0].offset_us for clock in found}
    assert offsets.keys() == {"a", "c"}
    assert round((offsets["c"] - offsets["a"]) / HOUR_US, 3) == 3


def test_a_hop_was_acknowledged_when_the_answer_came(spark: Any) -> None:
    """Its record may be written much later; logs of earlier versions tell nothing else."""
    from routing.trace import facts

    logs = WrittenLogs()
    came_us = logs.now_us - 20_000
    logs.write(
        "a", "forwarded", "a/019aa5d72900-1-1", peer="b", attempt=1, **ANSWERED, acknowledged_us=came_us
    )
    written_us = logs.now_us
    logs.write("a", "forwarded", "a/019aa5d72900-1-2", peer="b", attempt=1, **ANSWERED)
    hops = facts.hops(facts.facts(records_frame(spark, logs.records)))
    assert {row.smuid: row.acked_us for row in hops.select("smuid", "acked_us").collect()} == {
        "a/019aa5d72900-1-1": came_us,
        "a/019aa5d72900-1-2": written_us,
    }
