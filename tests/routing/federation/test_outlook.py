"""Where a message would go is where it goes."""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.federation.obstacles import WORDS, Obstacle
from routing.federation.outlook import Way
from routing.message import DeliveryMode
from routing.peering.copies import PeerRules
from tests.support.examples import examples
from tests.support.sites import RouterFederation

CHAIN = {("a", "b"), ("b", "c"), ("c", "d")}


@st.composite
def graphs(draw: st.DrawFn) -> set[tuple[str, str]]:
    """Connected, of two to eight sites."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 8)))]
    links = {tuple(sorted((name, draw(st.sampled_from(names[:n]))))) for n, name in enumerate(names) if n}
    more = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda two: two[0] < two[1])
    return links | set(draw(st.lists(more, max_size=6)))  # type: ignore[return-value] # pairs, sorted


def walk(federation: RouterFederation, start: str, mode: DeliveryMode, depth: int) -> set[str]:
    """The sites that a probe comes to, going on wherever the outlook says that a message would."""
    reached: dict[str, int] = {}
    waiting: list[tuple[str, int, tuple[str, ...]]] = [(start, depth, ())]
    while waiting:
        site, left, hops = waiting.pop()
        if site in hops or (site in reached and reached[site] != -1 and -1 != left <= reached[site]):
            continue
        if reached.get(site) == -1:
            continue
        reached[site] = left
        for way in federation.routers[site].federation.outlook.ways("t", mode, left, hops):
            if way.depth is not None:
                waiting.append((way.peer, way.depth, (*hops, site)))
    return set(reached)


@settings(max_examples=examples(30), deadline=None)
@given(graphs(), st.integers(-1, 4), st.data())
def test_a_probe_comes_to_every_site_that_a_message_is_delivered_at(
    links: set[tuple[str, str]], depth: int, data: st.DataObject
) -> None:
    federation = RouterFederation(links, seed=data.draw(st.integers(0, 99)))
    readers = data.draw(st.sets(st.sampled_from(federation.names), min_size=1))
    for site in readers:
        federation.subscribe(site)
    federation.settle()
    start = data.draw(st.sampled_from(federation.names))
    reached = walk(federation, start, "ALL", depth)
    federation.publish(start, depth=depth)
    federation.settle()
    assert {site for site, _ in federation.delivered} == readers & reached
    assert reached <= federation.ball(start, depth)


def outlook(
    federation: RouterFederation, site: str, depth: int = -1, mode: DeliveryMode = "ALL", *hops: str
) -> list[Way]:
    return federation.routers[site].federation.outlook.ways("t", mode, depth, hops)


def why_not(federation: RouterFederation, site: str, depth: int = -1, *hops: str) -> dict[str, str]:
    return {way.peer: way.why for way in outlook(federation, site, depth, "ALL", *hops)}


def test_programs_have_a_word_for_all_that_keeps_a_message_from_a_peer_and_people_have_more() -> None:
    assert WORDS.keys() == set(get_args(Obstacle))
    assert len(set(WORDS.values())) == len(WORDS)


def test_each_peer_has_a_reason_why_nothing_goes_there() -> None:
    federation = RouterFederation(CHAIN)
    unknown = "the link has just come up: what is wanted there is not known yet"
    assert why_not(federation, "b") == {"a": unknown, "c": unknown}
    federation.settle()
    assert why_not(federation, "b") == {"a": "nobody there wants it", "c": "nobody there wants it"}
    federation.subscribe("d")
    federation.settle()
    assert outlook(federation, "b", 2) == [Way("a", None, "unwanted"), Way("c", 1)]
    assert why_not(federation, "b", 1)["c"] == "who wants it there is 2 links away, further than its Depth"
    assert why_not(federation, "b", 0)["c"] == "its Depth ends here"
    assert why_not(federation, "b", -1, "a")["a"] == "it has come from there"
    assert why_not(federation, "b", -1, "a", "c")["a"] == "it has been there"
    federation.cut("b", "c")
    assert why_not(federation, "b")["c"] == "the link is down"


def test_of_a_link_that_is_down_only_what_was_told_is_known() -> None:
    federation = RouterFederation(CHAIN)
    federation.cut("b", "c")
    assert why_not(federation, "b")["c"] == (
        "the link is down, and has not been up: what is wanted there is not known"
    )
    federation.join("b", "c")
    federation.settle()
    federation.cut("b", "c")
    assert why_not(federation, "b")["c"] == "the link is down, and when it was up nobody there wanted it"


def test_the_rules_of_a_link_hold_for_probes() -> None:
    federation = RouterFederation(CHAIN)
    federation.subscribe("c")
    federation.settle()
    federation.routers["b"].federation.set_peer("c", PeerRules(allow_out=("other.#",)))
    assert why_not(federation, "b")["c"] == "the rules of the link forbid it"


def test_a_link_that_floods_is_a_way_whoever_wants_it() -> None:
    federation = RouterFederation(CHAIN, flood=True)
    assert outlook(federation, "b", 1) == [Way("a", 0), Way("c", 0)]


def test_a_message_of_mode_one_goes_one_way_the_nearest() -> None:
    federation = RouterFederation({("a", "b"), ("a", "c"), ("c", "d")})
    federation.subscribe("b")
    federation.subscribe("d")
    federation.settle()
    assert outlook(federation, "a", -1, "ONE")[1].why == "b is as near or nearer"
    assert outlook(federation, "a", -1, "ONE") == [Way("b", -1), Way("c", None, "nearer", "b")]


def test_a_reply_goes_to_its_server_however_far() -> None:
    federation = RouterFederation(CHAIN)
    federation.settle()
    found = federation.routers["a"].federation.outlook.ways("ada:desk@d", "ALL", 0, ())
    assert found == [Way("b", -1)]
