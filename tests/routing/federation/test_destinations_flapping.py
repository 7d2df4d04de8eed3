"""A link that comes and goes: what a peer has already is not sent there once more."""

from typing import Any

from tests.routing.federation.test_destinations import know_all
from tests.support.sites import RouterFederation


class Counting(RouterFederation):
    """Counts the copies that come to sites between the first and the last."""

    bodies = 0

    def _arrive(self, one: str, other: str, unit: Any) -> None:
        self.bodies += isinstance(unit, tuple) and other != "d"
        super()._arrive(one, other, unit)


def test_a_link_that_comes_and_goes_does_not_send_all_that_waits_again_and_again() -> None:
    """What waits for d, which is there and takes nothing for now, is at b and c, e after the first time."""
    sites = Counting({("a", "b"), ("b", "d"), ("a", "c"), ("c", "e"), ("d", "e")})
    sites.subscribe("d")
    know_all(sites)
    for number in range(10):
        sites.publish("a", f"m{number}", depth=-1)
    while sites.bulk["a", "b"] or sites.bulk["b", "a"]:
        sites.settle(1)
    counts = []
    for _ in range(4):
        before = sites.bodies
        sites.cut("a", "b")
        for seconds in (3.0, 3.0):
            _carry_all_but_to_d(sites)
            sites.pass_time(seconds)
        sites.join("a", "b")
        for seconds in (3.0, 3.0):
            _carry_all_but_to_d(sites)
            sites.pass_time(seconds)
        counts.append(sites.bodies - before)
    assert counts[1:] == [0, 0, 0], counts


def test_who_holds_it_with_less_depth_is_sent_it_again() -> None:
    """a has it by p first, and by o only when b holds it."""
    sites = Counting({("o", "a"), ("o", "p"), ("a", "p"), ("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")})
    sites.subscribe("d")
    know_all(sites)
    sites.cut("o", "a")
    _pass(sites)
    sites.publish("o", depth=4)
    _pass(sites)
    sites.cut("a", "b")
    _pass(sites)
    sites.join("o", "a")
    _pass(sites)
    sites.join("a", "b")
    _pass(sites)
    sites.cut("a", "c")
    assert [arrival.depth for _, arrival in sites.bulk["a", "b"]] == [2]


def _pass(sites: RouterFederation) -> None:
    _carry_all_but_to_d(sites)
    for router in sites.routers.values():
        router.timing.tick(sites.now)
    sites.now += 3.0
    for name, router in sites.routers.items():
        router.timing.tick(sites.now)
        sites.take(name)
    _carry_all_but_to_d(sites)


def _carry_all_but_to_d(sites: RouterFederation) -> None:
    kept = {pair: sites.bulk[pair] for pair in list(sites.bulk) if pair[1] == "d"}
    while True:
        for pair, units in kept.items():
            if sites.bulk.get(pair) is not units and pair in sites.bulk:
                units += sites.bulk[pair]
        for pair in kept:
            if pair in sites.bulk:
                sites.bulk[pair] = []
        busy = any(sites.bulk.values()) or any(sites.control.values())
        if not busy:
            break
        sites.settle(1)
    for pair, units in kept.items():
        if pair in sites.bulk:
            sites.bulk[pair] = units
