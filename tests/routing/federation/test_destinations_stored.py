"""What is written of a copy with destinations, and what comes of it after a start."""

import msgspec

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import Federation

LEAVES = [f"leaf{number}" for number in range(20)]


def test_as_long_as_others_are_to_have_it_nothing_is_written_of_who_has_it() -> None:
    sites = Federation({("a", "hub"), *(("hub", leaf) for leaf in LEAVES)})
    for leaf in LEAVES:
        sites.subscribe(leaf)
    know_all(sites)
    sites.rows.clear()
    sites.publish("a", depth=-1)
    sites.settle(2)
    assert (sites.rows["a"], sites.rows["hub"]) == (1, len(LEAVES))  # with what is sent
    sites.rows.clear()
    sites.settle()
    assert len(sites.delivered) == len(LEAVES)
    assert (sites.rows["a"], sites.rows["hub"]) == (1, 1)  # with its end
    for site in ("a", "hub"):
        assert not sites.routers[site].federation.outlook.copies


def test_who_has_it_while_others_are_away_is_written_within_a_minute() -> None:
    sites = Federation({("a", "b"), ("b", "c"), ("b", "d")})
    sites.subscribe("c")
    sites.subscribe("d")
    know_all(sites)
    sites.cut("b", "d")
    sites.settle()
    sites.publish("a", depth=-1)
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}
    sites.rows.clear()
    sites.pass_time(60.0)
    assert (sites.rows["a"], sites.rows["b"]) == (1, 1)
    sites.pass_time(60.0)
    assert (sites.rows["a"], sites.rows["b"]) == (1, 1)


def test_who_had_it_before_a_start_which_was_not_written_is_asked_for_again_and_has_it_once() -> None:
    sites = Federation({("a", "b"), ("b", "c"), ("b", "d")})
    sites.subscribe("c")
    sites.subscribe("d")
    know_all(sites)
    sites.cut("b", "d")
    sites.settle()
    sites.publish("a", depth=-1, receipt="ALL")
    [copy] = sites.routers["a"].federation.outlook.copies.values()
    destinations = {site: msgspec.structs.replace(open) for site, open in copy.destinations.items()}
    forward = msgspec.structs.replace(copy.forwards["b"])
    sites.settle()
    assert sites.delivered == {("c", "m"): 1}
    assert copy.is_stale
    # as it was stored
    copy.entry.due += len(destinations) + forward.unacknowledged
    copy.entry.due -= len(copy.destinations) + copy.forwards["b"].unacknowledged
    copy.destinations, copy.forwards["b"] = destinations, forward
    sites.cut("a", "b")
    sites.join("a", "b")
    sites.join("b", "d")
    sites.settle()
    assert sites.delivered == {("c", "m"): 1, ("d", "m"): 1}
    for name in "cd":
        sites.commit(name, "m")
    sites.settle()
    assert not any(router.federation.outlook.copies for router in sites.routers.values())
