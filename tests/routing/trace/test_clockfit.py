"""Clocks from the fastest hops, without Spark."""

from dataclasses import replace

import pytest

from routing.trace import clockfit
from routing.trace.clockfit import WINDOW_US, FittedClock, Minimum, Segment, fit
from routing.trace.epochs import FOREVER_US


def both_ways(a: str, b: str, ahead_us: int, way_us: int = 5_000, window: int = 0) -> Minimum:
    """`b` is `ahead_us` ahead of `a`, and each way takes `way_us`."""
    return Minimum(a, b, window, 100, way_us + ahead_us, way_us - ahead_us)


def offsets(clocks: list[FittedClock]) -> dict[str, float]:
    return {clock.server: clock.segments[0].offset_us for clock in clocks}


def flat(server: str) -> FittedClock:
    return FittedClock(server, (Segment(-FOREVER_US, FOREVER_US, 0, 0.0, 0.0, 0.0),))


def test_the_median_clock_is_taken_as_right() -> None:
    found = offsets(
        fit([both_ways("a", "b", 300_000), both_ways("b", "c", -300_000), both_ways("c", "d", 0)])
    )
    assert {name: round(us) for name, us in found.items()} == {"a": 0, "b": 300_000, "c": 0, "d": 0}


def test_a_day_off_is_an_offset_like_any_other() -> None:
    day_us = 86_400_000_000
    found = offsets(fit([both_ways("a", "b", day_us), both_ways("a", "c", 0)]))
    assert round(found["b"] - found["a"]) == day_us


def test_a_server_heard_in_one_direction_only_stays_unknown() -> None:
    found = fit([both_ways("a", "b", 10), Minimum("a", "quiet", 0, 50, 4_000, None)])
    assert {clock.server for clock in found} == {"a", "b"}


def test_a_link_that_disagrees_counts_little() -> None:
    names = "abcdefg"
    minima = [both_ways(a, b, 0) for i, a in enumerate(names) for b in names[i + 1 :]]
    wrong = minima[3]
    minima[3] = both_ways(wrong.sender, wrong.receiver, 4_000, way_us=5_000)
    assert max(map(abs, offsets(fit(minima)).values())) < 500


def test_clocks_that_contradict_each_other_are_unknown_and_those_of_others_are_not() -> None:
    """One of three was set by an hour, and each link was heard on one side of that alone."""
    hour_us = 3_600_000_000
    torn = [both_ways("a", "b", 0), both_ways("b", "c", 0), both_ways("a", "c", hour_us)]
    found = offsets(fit([*torn, both_ways("x", "y", 10)]))
    assert found.keys() == {"x", "y"}


def test_what_drifts_by_more_than_clocks_do_is_unknown() -> None:
    minima = [
        minimum
        for window in (1000, 1001)
        for minimum in (
            both_ways("a", "b", (window - 1000) * 36_000_000, window=window),
            both_ways("a", "c", 0, window=window),
            both_ways("a", "d", 0, window=window),
        )
    ]
    found = fit(minima, [flat(name) for name in "abcd"])
    assert "b" not in {clock.server for clock in found}


def test_two_federations_do_not_meet() -> None:
    found = offsets(fit([both_ways("a", "b", 100), both_ways("x", "y", 900_000)]))
    assert round(found["b"] - found["a"]) == 100
    assert round(found["y"] - found["x"]) == 900_000


def test_drift_is_a_line_through_the_windows() -> None:
    hour_drift_us = 8e-6 * WINDOW_US
    minima = [
        minimum
        for window in range(1000, 1010)
        for minimum in (
            both_ways("a", "b", round(hour_drift_us * (window - 1000)), window=window),
            both_ways("a", "c", 0, window=window),
        )
    ]
    (drifting,) = [clock for clock in fit(minima, [flat(name) for name in "abc"]) if clock.server == "b"]
    (part,) = drifting.segments
    assert abs(part.drift_ppm - 8) < 0.1
    assert abs(part.error_at(1009.5 * WINDOW_US) - 9 * hour_drift_us) < 100


def test_around_a_jump_the_clock_is_unknown_and_right_on_both_sides() -> None:
    jump_us = 5_000_000
    minima = []
    for window in range(1000, 1012):
        ahead = jump_us if window > 1005 else 0
        if window == 1005:
            minima.append(Minimum("a", "b", window, 100, 5_000, 5_000 - jump_us))
        else:
            minima.append(both_ways("a", "b", ahead, window=window))
        minima.append(both_ways("a", "c", 0, window=window))
    (jumped,) = [clock for clock in fit(minima, [flat(name) for name in "abc"]) if clock.server == "b"]
    before, after = jumped.segments
    assert before.until_us <= 1005 * WINDOW_US
    assert after.from_us >= 1006 * WINDOW_US + jump_us
    assert round(before.offset_us) == 0
    assert round(after.offset_us) == jump_us


def test_a_clock_is_not_judged_by_the_drift_of_those_of_another_federation() -> None:
    """An hour's change of 50 ms may be drift as long as no drift of these clocks is known."""
    step_us = 50_000
    minima = [
        both_ways(a, "b", step_us if window > 1003 else 0, window=window)
        for window in range(1000, 1008)
        for a in "acde"
    ]
    base = [flat(name) for name in "abcde"]
    alone = fit(minima, base)
    drifting = FittedClock("y", (Segment(-FOREVER_US, FOREVER_US, 0, 0.0, 8.0, 0.0),))
    elsewhere = [both_ways("x", "y", 0, window=window) for window in range(1000, 1008)]
    beside = fit([*minima, *elsewhere], [*base, flat("x"), drifting])
    assert [clock for clock in beside if clock.server in "abcde"] == alone


def test_an_hour_in_which_a_clock_was_set_makes_its_later_stretch_no_surer() -> None:
    """All fast hops of that hour were before; after it one told where the clock was, within a second."""
    hour_us, doubt_us = 3_600_000_000, 1_100_000.0
    at_us = round(1000.3 * WINDOW_US)
    before = Segment(-FOREVER_US, at_us, 0, 0.0, 0.0, 10_000.0)
    after = Segment(at_us + hour_us, FOREVER_US, 0, hour_us + 1_076_000.0, 0.0, doubt_us)
    base = [flat("a"), flat("b"), flat("c"), FittedClock("set", (before, after))]

    def error_us(windows: range) -> float:
        minima = [both_ways(name, "set", 0, window=window) for window in windows for name in "abc"]
        (found,) = (clock for clock in fit(minima, base) if clock.server == "set")
        return found.segments[-1].error_us

    assert error_us(range(1000, 1001)) == doubt_us
    assert error_us(range(1000, 1004)) < 10_000


def test_a_stretch_of_a_clock_that_others_move_is_unknown_where_these_do_not_tell_of_it() -> None:
    """Before it was set only `near` was heard of it, which may have been set itself: it is no part of what
    three others tell later.
    """
    at_us = round(1000.3 * WINDOW_US)
    before = Segment(-FOREVER_US, at_us, 0, 30e6, 0.0, 10_000.0)
    after = Segment(at_us, FOREVER_US, 0, -30e6, 0.0, 10_000.0)
    base = [flat("a"), flat("b"), flat("c"), FittedClock("set", (before, after), 1, is_torn=True)]
    pairs = [("a", "b"), ("b", "c"), ("c", "set")]
    minima = [both_ways(*pair, 30_000_000 if "set" in pair else 0, window=1000) for pair in pairs]

    def stretches(others: int) -> list[Segment]:
        clocks = [*base[:3], replace(base[3], others=others)]
        (found,) = (clock for clock in fit(minima, clocks) if clock.server == "set")
        assert found.is_torn
        return list(found.segments)

    (known,) = stretches(others=1)
    assert known.from_us == at_us
    # where they were compared before the first stretch is as far from them as it was
    assert [part.from_us for part in stretches(others=3)] == [-FOREVER_US, at_us]


def test_thousands_of_peers_that_a_log_names_are_solved_as_the_tree_that_they_are() -> None:
    """With some links besides that make rings of it."""
    count = 3_000
    ahead_us = [number * 7_919 % 1_000_003 for number in range(count)]
    links = [(number // 2, number) for number in range(1, count)]
    rings = [(number, number + 1) for number in range(1, count - 1, 60)]
    found = offsets(fit([both_ways(f"s{a}", f"s{b}", ahead_us[b] - ahead_us[a]) for a, b in links + rings]))
    wrong_us = [
        found[f"s{number}"] - found["s0"] - (ahead_us[number] - ahead_us[0]) for number in range(count)
    ]
    assert max(map(abs, wrong_us)) < 1


def test_clocks_of_sites_that_are_tied_in_too_many_ways_are_unknown_and_those_of_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clockfit, "TIES_MAX", 1_000)
    meshed = [both_ways(f"s{a}", f"s{b}", 0) for a in range(20) for b in range(a)]
    apart = both_ways("x", "y", 10)
    assert offsets(fit([*meshed, apart])).keys() == {"x", "y"}
    hours = [replace(one, window=window) for one in (*meshed, apart) for window in (1000, 1001)]
    names = {name for one in meshed for name in (one.sender, one.receiver)}
    assert offsets(fit(hours, [flat(name) for name in sorted(names | {"x", "y"})])).keys() == {"x", "y"}


def test_the_drift_over_months_is_that_of_hours_all_over_them() -> None:
    hour_drift_us = 8e-6 * WINDOW_US
    minima = [
        both_ways("a", other, round(hour_drift_us * hour) if other == "b" else 0, window=1000 + hour)
        for hour in range(2_000)
        for other in ("b", "c")
    ]
    clocks = fit(minima, [flat(name) for name in "abc"])
    (part,) = next(clock for clock in clocks if clock.server == "b").segments
    assert abs(part.drift_ppm - 8) < 0.1
    assert abs(part.error_at((1000 + 1_999.5) * WINDOW_US) - 1_999 * hour_drift_us) < 1_000
