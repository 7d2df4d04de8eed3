"""What is written of a copy with destinations, and when."""

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation

LEAVES = [f"leaf{number}" for number in range(20)]


def test_as_long_as_others_are_to_have_it_nothing_is_written_of_who_has_it() -> None:
    sites = RouterFederation({("a", "hub"), *(("hub", leaf) for leaf in LEAVES)})
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
    sites = RouterFederation({("a", "b"), ("b", "c"), ("b", "d")})
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
