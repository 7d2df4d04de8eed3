"""Depth: the servers that deliver are exactly those within it, each once, in any graph and order."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.sites import RouterFederation


@st.composite
def graphs(draw: Any, most: int = 30) -> Any:
    count = draw(st.integers(2, most))
    names = [f"s{n:02}.x" for n in range(count)]
    tree = {(names[draw(st.integers(max(0, n - 4), n - 1))], names[n]) for n in range(1, count)}
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names))
    more = draw(st.sets(pairs, max_size=2 * count))
    return tree | {tuple(sorted(pair)) for pair in more if pair[0] != pair[1]}


@settings(max_examples=examples(50), deadline=None)
@given(graphs(), st.integers(0, 2**32), st.integers(-1, 6), st.data())
def test_without_pruning_exactly_the_sites_within_depth_take_it_each_once(
    links: set[tuple[str, str]], seed: int, depth: int, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed, flood=True)
    for name in sites.names:
        sites.subscribe(name)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.publish(origin, depth=depth)
    sites.settle()
    ball = sites.ball(origin, depth)
    assert {site: n for (site, _), n in sites.delivered.items()} == dict.fromkeys(ball, 1)
    taken = Counter(site for site, _ in sites.records_of("m", "received"))
    assert taken == dict.fromkeys(ball - {origin}, 1)


@settings(max_examples=examples(50), deadline=None)
@given(graphs(), st.integers(0, 2**32), st.integers(-1, 6), st.booleans(), st.integers(0, 300), st.data())
def test_exactly_the_subscribers_within_depth_get_it_each_once(
    links: set[tuple[str, str]], seed: int, depth: int, flood: Any, heard: Any, data: st.DataObject
) -> None:
    """Also where little of who wants it has been heard when it is published: what is told later pulls it."""
    sites = RouterFederation(links, seed, flood=flood)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    sites.settle(heard)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.publish(origin, depth=depth, timeout_s=100.0)
    sites.settle()
    due = sites.ball(origin, depth) & subscribed
    assert {site: n for (site, _), n in sites.delivered.items()} == dict.fromkeys(due, 1)


@settings(max_examples=examples(50), deadline=None)
@given(graphs(12), st.integers(0, 2**32), st.integers(-1, 4), st.sampled_from(["ONE", "ALL"]), st.data())
def test_a_receipt_counts_the_subscriptions_of_all_sites(
    links: set[tuple[str, str]], seed: int, depth: int, mode: Any, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.subscribe(origin, f"x:publisher@{origin}", channel="publisher")
    sites.settle()
    sites.publish(origin, depth=depth, receipt=mode)
    sites.settle()
    due = sites.ball(origin, depth) & subscribed
    for name in sorted(due):
        sites.commit(name, "m")
        sites.settle()
    if mode == "ALL" or not due:
        assert sites.receipts == [f"{len(due)}/{len(due)}"]
    else:
        assert [receipt.split("/")[0] for receipt in sites.receipts] == ["1"]
    assert set(sites.final_records("m").values()) <= {1}


@settings(max_examples=examples(50), deadline=None)
@given(graphs(12), st.integers(0, 2**32), st.integers(-1, 4), st.data())
def test_mode_one_reaches_one_subscription_of_all_within_depth(
    links: set[tuple[str, str]], seed: int, depth: int, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed)
    subscribed = data.draw(st.sets(st.sampled_from(sites.names)), label="subscribed")
    for name in sorted(subscribed):
        sites.subscribe(name)
    sites.settle()
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.publish(origin, depth=depth, delivery="ONE")
    sites.settle()
    due = sites.ball(origin, depth) & subscribed
    assert sum(sites.delivered.values()) == (1 if due else 0)
    assert {site for site, _ in sites.delivered} <= due


@settings(max_examples=examples(40), deadline=None)
@given(graphs(12), st.integers(0, 2**32), st.integers(0, 4), st.data())
def test_late_interest_pulls_what_is_still_alive_within_depth(
    links: set[tuple[str, str]], seed: int, depth: int, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed)
    origin = data.draw(st.sampled_from(sites.names), label="origin")
    sites.publish(origin, depth=depth, timeout_s=100.0)
    sites.settle()
    assert not sites.delivered
    late = data.draw(st.sampled_from(sites.names), label="late")
    sites.subscribe(late)
    sites.settle()
    assert dict(sites.delivered) == ({(late, "m"): 1} if late in sites.ball(origin, depth) else {})


@settings(max_examples=examples(40), deadline=None)
@given(graphs(8), st.integers(0, 2**32), st.data())
def test_after_a_partition_all_sites_hold_the_same_state_messages(
    links: set[tuple[str, str]], seed: int, data: st.DataObject
) -> None:
    sites = RouterFederation(links, seed)
    for name in sites.names:
        sites.subscribe(name)
    sites.settle()
    published: list[Any] = []
    for step in range(data.draw(st.integers(1, 6))):
        link = data.draw(st.sampled_from(sorted(links)))
        if data.draw(st.booleans()):
            (sites.cut if link in sites.links else sites.join)(*link)
        site = data.draw(st.sampled_from(sites.names))
        if bool(published) and data.draw(st.booleans()):
            smuid = data.draw(st.sampled_from(published))
            router = sites.routers[site]
            if router.federation.removing.entry_id(smuid) is not None:
                router.topics.remove(sites.now, sites.consumer(site, "c"), "t", smuid, None)
                sites.take(site)
        else:
            sites.publish(site, f"m{step}", depth=-1, timeout_s=float("inf"))
            published.append(next(m.smuid for m in sites.messages.values() if m.name == f"m{step}"))
        if data.draw(st.booleans()):
            sites.settle()
    for link in sorted(links):
        if link not in sites.links:
            sites.join(*link)
    sites.settle()
    held = [
        {entry.smuid(name) for entry in router._state.topic("t").kept}
        for name, router in sites.routers.items()
    ]
    assert all(each == held[0] for each in held)
