"""Which clocks are said to have been set: only those whose own logs tell it, or leave room for it."""

from collections.abc import Iterable
from typing import Any

import pytest

from routing.trace.clockfit import FittedClock, Segment
from routing.trace.epochs import FOREVER_US
from routing.trace.jumps import OTHERS_MIN, Jump, claimed, proven, set_far, table
from tests.support.hop_logs import WrittenLogs, records_frame

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
NOON_US = 1_763_726_400_000_000
NEIGHBOURS = 2
"""Too few to tell by themselves."""


def beats(server: str, shown_us: Iterable[int], first: int = 1, boot: int = 1) -> list[tuple[Any, ...]]:
    return [(server, boot, first + number, NOON_US + us) for number, us in enumerate(shown_us)]


def each_minute(first: int, last: int, ahead_us: int = 0) -> list[int]:
    return [minute * MINUTE_US + ahead_us for minute in range(first, last)]


LOGS = [
    *beats("set back", [*each_minute(0, 90), *each_minute(90, 180, -HOUR_US)]),
    *beats("set on", [*each_minute(0, 90), *each_minute(90, 180, HOUR_US)]),
    *beats("never set", each_minute(0, 300)),
    *beats("set while it was down", each_minute(0, 90)),
    *beats("set while it was down", each_minute(240, 300), first=91, boot=2),
    *beats("set in a gap", each_minute(0, 90)),
    *beats("set in a gap", each_minute(190, 300, HOUR_US), first=191),
    # so many numbers do not last two hours longer
    *beats("set by more than a gap lasts", each_minute(0, 90)),
    *beats("set by more than a gap lasts", each_minute(92, 180, 2 * HOUR_US), first=93),
]


@pytest.fixture(scope="module")
def records(spark: Any) -> Any:
    columns = "server string, boot long, record long, time_us long"
    # logs that were shipped twice
    return spark.createDataFrame([*LOGS, *LOGS[:50]], columns).localCheckpoint()


def claim(server: str, by_us: int, others: int = NEIGHBOURS) -> Jump:
    return Jump(server, NOON_US, by_us, 5_000.0, others)


def test_the_log_of_the_clock_itself_proves_it_or_excludes_it(records: Any) -> None:
    told = [
        claim("set back", -HOUR_US),
        # in the order of its times those before it was set back come later
        claim("set back", HOUR_US),
        claim("set on", HOUR_US),
        claim("set by more than a gap lasts", 2 * HOUR_US),
    ]
    not_told = [
        claim("never set", HOUR_US, others=100),
        claim("never set", -HOUR_US, others=100),
        claim("set on", -HOUR_US, others=100),
        claim("set on", 3 * HOUR_US, others=100),
        claim("set while it was down", HOUR_US),
        claim("set in a gap", HOUR_US),
        claim("its log is absent", HOUR_US, others=100),
    ]
    assert proven([*told, *not_told], records) == told


def test_three_others_tell_of_a_small_one_that_its_log_leaves_room_for(records: Any) -> None:
    small = claim("never set", 5_000_000, OTHERS_MIN)
    far = [claim("set while it was down", HOUR_US, 100), claim("set in a gap", HOUR_US, 100)]
    assert proven([small, *far, claim("never set", 5_000_000, OTHERS_MIN - 1)], records) == [small]


def test_who_was_set_by_far_its_log_tells_before_any_neighbour_is_asked(records: Any) -> None:
    servers = {row[0] for row in LOGS}
    assert set_far(records, servers) == {"set back", "set on", "set by more than a gap lasts"}
    assert set_far(records, servers - {"set on"}) == {"set back", "set by more than a gap lasts"}


def test_a_jump_is_where_a_clock_goes_on_elsewhere_and_not_where_it_is_known_again(spark: Any) -> None:
    later, end = NOON_US + HOUR_US, NOON_US + 2 * HOUR_US

    def clock(server: str, *parts: tuple[int, int, float], is_torn: bool = False) -> FittedClock:
        segments = (Segment(first, last, NOON_US, us, 0.0, 10.0) for first, last, us in parts)
        return FittedClock(server, tuple(segments), 7, is_torn)

    clocks = [
        clock("set", (-FOREVER_US, NOON_US, 100.0), (later, FOREVER_US, -5e6 + 100.0)),
        clock("known again", (-FOREVER_US, NOON_US, 100.0), (later, FOREVER_US, 90.0)),
        clock("known late", (later, FOREVER_US, 7e6)),
        # or its neighbour was: others do not tell which
        clock("torn", (-FOREVER_US, NOON_US, 100.0), (later, FOREVER_US, -5e6 + 100.0), is_torn=True),
        # ten parts in a million ahead of what is right, all the time
        FittedClock(
            "drifts",
            (
                Segment(NOON_US - HOUR_US, NOON_US, NOON_US, 0.0, 10.0, 10.0),
                Segment(end, FOREVER_US, end, 72_000.0, 10.0, 10.0),
            ),
        ),
    ]
    found = claimed(clocks)
    assert found == [Jump("set", later, -5e6, 20.0, 7), Jump("torn", later, -5e6, 20.0, 0)]
    assert [tuple(row) for row in table(spark, found[:1]).collect()] == [
        (
            "set",
            later,
            "it was set: times from here on are ahead of those before by -5.000 s, give or take 0.0 ms",
        )
    ]


def test_of_a_server_that_numbers_anew_no_record_tells_that_its_clock_was_set(spark: Any) -> None:
    """By their numbers the records of its second life go on where its first life was shorter."""
    from routing.trace import coverage

    logs = WrittenLogs()
    for life, count in enumerate((5, 10)):
        logs.last["anew"] = 0
        for _ in range(count):
            logs.write("anew", "heartbeat")
            logs.records[-1].time_us += life * HOUR_US
    read = records_frame(spark, logs.records)
    twice = coverage.numbered_twice(coverage.words(read), read)
    claims = [claim("anew", HOUR_US)]
    assert (set_far(read, {"anew"}), proven(claims, read)) == ({"anew"}, claims)
    ordered = coverage.ordered(read, twice)
    assert (set_far(ordered, {"anew"}), proven(claims, ordered)) == (set(), [])
