"""A route as a tree and as OTLP JSON."""

import io
from typing import Any

from rich.console import Console

from routing.trace.journal import otlp, tree
from routing.trace.show import plain, route_tree

SMUID = "a/019aa5d72900-1-1"


def hop(sender: str, receiver: str, kind: str = "accepted", **changes: Any) -> dict[str, Any]:
    base = {
        "from": sender,
        "to": receiver,
        "attempt": 1,
        "crossing": 1,
        "kind": kind,
        "level": 1,
        "sent_us": 1_000_000,
        "received_us": 1_400_000,
        "acked_us": 1_020_000,
        "delay_raw_us": 400_000,
        "sent_at_us": 1_000_000,
        "received_at_us": 1_010_000,
        "delay_us": 10_000,
        "sent_logged": True,
        "received_logged": True,
    }
    return base | changes


def copy(server: str, **changes: Any) -> dict[str, Any]:
    base = {"server": server, "state": "finished", "begun_us": 1_400_000, "ended_us": 1_500_000, "level": 1}
    return base | changes


def route(hops: list[dict[str, Any]], copies: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    base = {
        "smuid": SMUID,
        "birth_us": 1_000_000,
        "origin": "a",
        "topic": "plant.state",
        "mode": "ALL",
        "hops": hops,
        "copies": copies,
        "missing": [],
        "truncated": False,
        "receipt_x": None,
        "receipt_y": None,
        "committed": 1,
    }
    return base | changes


def printed(found: dict[str, Any]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(route_tree(found))
    return console.export_text()


def test_servers_hang_below_whom_they_accepted_it_from() -> None:
    (root,), loose = tree(
        route([hop("a", "b"), hop("b", "c"), hop("a", "c", "duplicate")], [copy("a"), copy("b"), copy("c")])
    )
    assert root.server == "a"
    assert [stop.server for stop in root.onward] == ["b"]
    assert [stop.server for stop in root.onward[0].onward] == ["c"]
    assert [h["to"] for h in root.rejected] == ["c"]
    assert loose == []


def test_a_server_reached_in_an_unknown_way_is_a_root_of_its_own() -> None:
    roots, _ = tree(route([hop("a", "b")], [copy("a"), copy("b"), copy("z")]))
    assert [root.server for root in roots] == ["a", "z"]


def test_one_proof_from_hops_is_a_way_and_two_are_not() -> None:
    one = route([hop("a", "b", "passed")], [copy("a"), copy("b")])
    (root,), _ = tree(one)
    assert [(stop.server, stop.sure) for stop in root.onward] == [("b", False)]
    two = route(
        [hop("a", "c"), hop("a", "b", "passed"), hop("c", "b", "passed")], [copy("a"), copy("b"), copy("c")]
    )
    roots, _ = tree(two)
    assert [root.server for root in roots] == ["a", "b"]


def test_logs_that_contradict_each_other_in_a_ring_end() -> None:
    roots, _ = tree(route([hop("b", "c"), hop("c", "b")], [copy("a"), copy("b"), copy("c")]))
    assert "a" in {root.server for root in roots}


def test_a_message_that_was_handed_back_is_shown_as_the_tree_of_first_arrivals() -> None:
    hops = [
        hop("c", "a", level=3),
        hop("b", "c", level=2),
        hop("c", "b", level=3),
        hop("a", "b", level=1),
    ]
    found = route(hops, [copy("a"), copy("b"), copy("c")])
    (root,), loose = tree(found)
    assert [stop.server for stop in root.onward] == ["b"]
    assert [stop.server for stop in root.onward[0].onward] == ["c"]
    assert {h["to"] for h in root.onward[0].onward[0].rejected} == {"a", "b"}
    assert loose == []
    assert "-> a handed back" in printed(found)
    spans = [
        span
        for resource in otlp(found)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert [span["name"] for span in spans if span["parentSpanId"] == ""] == ["plant.state at a"]


def test_an_unknown_delay_is_printed_as_unknown() -> None:
    text = printed(route([hop("a", "b", delay_us=None)], [copy("a"), copy("b")], missing=["b"]))
    assert "b after unknown" in text
    assert "not known: what became of the copies at b" in text


def test_control_characters_and_markup_do_not_reach_the_terminal() -> None:
    text = printed(route([], [copy("a")], topic="\x1b]0;owned\x07[red]x"))
    assert "\x1b]" not in text
    assert "\\x1b]0;owned\\x07[red]x" in text
    assert plain(None).plain == "-"


def test_otlp_has_a_span_for_each_copy_and_hop_in_one_trace() -> None:
    found = otlp(route([hop("a", "b")], [copy("a", begun_us=990_000), copy("b")]))
    spans = {
        span["name"]: span
        for resource in found["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    assert len({span["traceId"] for span in spans.values()}) == 1
    origin, sent, arrived = spans["plant.state at a"], spans["a to b"], spans["plant.state at b"]
    assert origin["parentSpanId"] == ""
    assert sent["parentSpanId"] == origin["spanId"]
    assert arrived["parentSpanId"] == sent["spanId"]
    assert int(sent["endTimeUnixNano"]) - int(sent["startTimeUnixNano"]) == 10_000_000
    # b's clock is 390 ms ahead: its span is moved to where the hop arrived.
    assert int(arrived["startTimeUnixNano"]) == 1_010_000_000
