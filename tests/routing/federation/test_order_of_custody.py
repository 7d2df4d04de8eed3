"""Messages of mode ONE that wait keep the order of their arrival, whatever became of their handover."""

import pytest

from tests.support.sites import RouterFederation


def delivered(federation: RouterFederation, site: str) -> list[str]:
    """All that waits at a site, in the order in which a new reader gets it."""
    federation.delivered.clear()
    federation.subscribe(site, credit=100)
    return [name for _, name in federation.delivered]


@pytest.mark.parametrize("depths", [(0, -1, 0, -1, 0), (-1, 0, -1, 0, -1)])
def test_a_link_that_comes_up_changes_no_order(depths: tuple[int, ...]) -> None:
    federation = RouterFederation({("a", "b")})
    for number, depth in enumerate(depths):
        federation.publish("a", str(number), delivery="ONE", depth=depth)
    federation.cut("a", "b")
    federation.join("a", "b")
    federation.settle()
    assert delivered(federation, "a") == ["0", "1", "2", "3", "4"]


def test_what_a_peer_would_not_have_waits_where_it_was() -> None:
    federation = RouterFederation({("a", "b")})
    federation.subscribe("b")
    federation.settle()
    federation.publish("a", "0", delivery="ONE", depth=1)
    for number in (1, 2):
        federation.publish("a", str(number), delivery="ONE", depth=0)
    federation.routers["b"].federation.remove_peer("a", federation.now)  # it denies what is on its way
    federation.settle()
    assert delivered(federation, "a") == ["0", "1", "2"]


def test_what_is_on_its_way_to_a_peer_is_given_to_nobody_else() -> None:
    federation = RouterFederation({("a", "b")})
    for number, depth in enumerate((0, 1, 0)):
        federation.publish("a", str(number), delivery="ONE", depth=depth)
    federation.subscribe("b")
    federation.settle()
    assert federation.delivered == {("b", "1"): 1}
    assert delivered(federation, "a") == ["0", "2"]
