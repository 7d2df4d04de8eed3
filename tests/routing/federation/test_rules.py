"""The rules of a link: which topics cross, and how far what comes may go on."""

from typing import Any

import pytest

from routing.peering.copies import PeerRules
from routing.peering.decisions import TellRemoved
from tests.support.sites import RouterFederation

CHAIN = {("a.x", "b.x"), ("b.x", "c.x"), ("c.x", "d.x")}


def chain(**rules: object) -> RouterFederation:
    """Four sites in a row, all of which want `t`; the second one has rules for the first one."""
    sites = RouterFederation(CHAIN)
    sites.routers["b.x"].federation.set_peer("a.x", PeerRules(**rules))  # type: ignore[arg-type] # its fields
    for name in sites.names:
        sites.subscribe(name)
    sites.settle()
    return sites


def reached(sites: RouterFederation, **headers: Any) -> list[str]:
    """The sites that deliver a message of the first one."""
    sites.publish("a.x", **headers)
    sites.settle()
    return sorted(site for site, _ in sites.delivered)


@pytest.mark.parametrize(
    ("depth", "depth_max", "sites"),
    [
        (-1, -1, ["a.x", "b.x", "c.x", "d.x"]),
        (-1, 1, ["a.x", "b.x", "c.x"]),
        (-1, 0, ["a.x", "b.x"]),
        (9, 1, ["a.x", "b.x", "c.x"]),
        (2, 1, ["a.x", "b.x", "c.x"]),
        (1, 1, ["a.x", "b.x"]),
    ],
)
def test_what_may_go_further_than_a_peer_is_allowed_goes_so_far(
    depth: int, depth_max: int, sites: list[str]
) -> None:
    assert reached(chain(depth_max=depth_max), depth=depth) == sites


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_a_topic_that_may_not_come_is_taken_by_nobody_beyond(mode: str) -> None:
    assert reached(chain(allow_in=("other.#",)), depth=-1, delivery=mode) == ["a.x"]


def test_what_a_peer_sends_though_it_may_not_come_is_taken_by_nobody() -> None:
    sites = chain(allow_in=("other.#",))
    sites.routers["a.x"].federation.set_peer("b.x", PeerRules(flood=True))
    assert reached(sites, depth=-1) == ["a.x"]
    assert sites.transfers == 1


def test_a_topic_that_may_not_go_is_not_sent() -> None:
    sites = chain(allow_out=("other.#",))
    sites.publish("d.x", depth=-1)
    sites.settle()
    assert sorted(site for site, _ in sites.delivered) == ["b.x", "c.x", "d.x"]


def test_a_reply_goes_to_its_server_whatever_the_rules() -> None:
    sites = chain(allow_in=(), allow_out=(), depth_max=0)
    reply_to = "x:desk@d.x"
    sites.subscribe("d.x", reply_to, "desk")
    sites.publish("a.x", "reply", topic=reply_to)
    sites.settle()
    assert sites.delivered["d.x", "reply"] == 1


def removed(sites: RouterFederation, site: str, at: str, topic: str = "t") -> bool:
    """Whether what one site says to be removed, the one message of another one, is gone there."""
    router = sites.routers[at]
    [entry] = router._state.entries.values()
    told = TellRemoved(at, entry.smuid(at), topic)
    sites._arrive(site, at, told)
    sites.take(at)
    return not router._state.entries


@pytest.mark.parametrize(
    ("rule", "depth", "topic", "gone"),
    [
        ({}, 1, "t", True),
        ({"allow_in": ("other.#",)}, 1, "t", False),
        ({"allow_in": ("other.#",)}, 1, "other.one", False),
        ({}, 0, "t", False),
    ],
    ids=["it may", "its topic may not come", "it is of another topic", "it never left"],
)
def test_what_a_peer_may_not_send_it_may_not_remove(
    rule: dict[str, object], depth: int, topic: str, *, gone: bool
) -> None:
    sites = chain(**rule)
    sites.publish("b.x", depth=depth, timeout_s=float("inf"))
    assert removed(sites, "a.x", "b.x", topic) is gone


def rules(sites: RouterFederation, site: str, **peers: PeerRules) -> None:
    """These are the peers of a site from now on."""
    named = {f"{name}.x": each for name, each in peers.items()}
    sites.routers[site].federation.set_peers(sites.now, named)
    sites.take(site)
    sites.settle()


ALL = PeerRules()
NOTHING = PeerRules(allow_out=())


@pytest.mark.parametrize("mode", ["ALL", "ONE"])
def test_what_may_go_from_now_on_goes(mode: str) -> None:
    sites = RouterFederation({("a.x", "b.x")})
    sites.subscribe("b.x")
    rules(sites, "a.x", b=NOTHING)
    sites.publish("a.x", depth=1, delivery=mode, timeout_s=100.0)
    sites.settle()
    assert not sites.delivered
    rules(sites, "a.x", b=ALL)
    assert sites.delivered == {("b.x", "m"): 1}


def test_what_waits_for_a_peer_that_may_not_have_it_any_more_is_not_sent() -> None:
    sites = RouterFederation({("a.x", "b.x")})
    sites.subscribe("b.x")
    sites.settle()
    sites.cut("a.x", "b.x")
    sites.publish("a.x", depth=1, receipt="ALL", timeout_s=100.0)
    rules(sites, "a.x", b=NOTHING)
    sites.join("a.x", "b.x")
    sites.settle()
    assert not sites.delivered
    assert [record.receipt for _, record in sites.records_of("m", "receipt")] == ["0/0"]
    rules(sites, "a.x", b=ALL)
    assert sites.delivered == {("b.x", "m"): 1}


@pytest.mark.parametrize("waits", [False, True])
def test_who_is_made_a_peer_again_gets_what_is_still_alive(*, waits: bool) -> None:
    sites = RouterFederation({("a.x", "b.x")})
    sites.subscribe("b.x")
    sites.settle()
    if waits:
        sites.cut("a.x", "b.x")
    sites.publish("a.x", depth=1, timeout_s=float("inf"))
    sites.settle()
    transfers = sites.transfers
    if not waits:
        sites.cut("a.x", "b.x")
    rules(sites, "a.x")
    rules(sites, "a.x", b=ALL)
    sites.join("a.x", "b.x")
    sites.settle()
    assert sites.transfers == transfers + 1  # though it may have had it: it may be another by now
    assert sites.delivered == {("b.x", "m"): 1}
