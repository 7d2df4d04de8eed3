"""A route as a tree and as OTLP JSON."""

import io
from typing import Any

import pytest
from rich.console import Console

from routing.trace.arrivals import FROM_HOPS, NOT_ALONE
from routing.trace.journal import otlp, outline, tree
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
    assert [(stop.server, stop.doubt) for stop in root.onward] == [("b", FROM_HOPS)]
    two = route(
        [hop("a", "c"), hop("a", "b", "passed"), hop("c", "b", "passed")], [copy("a"), copy("b"), copy("c")]
    )
    roots, _ = tree(two)
    assert [root.server for root in roots] == ["a", "b"]


def test_logs_that_contradict_each_other_in_a_ring_end_and_all_of_it_is_shown() -> None:
    found = route([hop("b", "c"), hop("c", "b")], [copy("a"), copy("b"), copy("c")])
    roots, _ = tree(found)
    assert [(root.server, [stop.server for stop in root.onward]) for root in roots] == [
        ("a", []),
        ("c", ["b"]),
    ]
    assert "how it came here is not known:" in printed(found)


TO_AND_FRO = [
    hop("a", "b", level=None, received_logged=False, received_us=1_005_000),
    hop("c", "b", level=3, received_us=2_000_000, sent_us=1_900_000, sent_at_us=1_900_000),
    hop("b", "c", level=2, sent_us=1_500_000, sent_at_us=1_500_000),
]
"""Of mode ONE, from a to b, on to c and back to b, whose log has only its second coming."""
OF_LATER_HOPS = hop("a", "b", "passed", attempt=0, level=1, sent_us=None, sent_at_us=None, received_us=None)


@pytest.mark.parametrize(
    "hops",
    [
        [*TO_AND_FRO, OF_LATER_HOPS],
        TO_AND_FRO,
        [TO_AND_FRO[1], OF_LATER_HOPS | {"crossing": 1}, TO_AND_FRO[2]],
        [TO_AND_FRO[0] | {"sent_at_us": None}, OF_LATER_HOPS, TO_AND_FRO[1] | {"level": None}, TO_AND_FRO[2]],
    ],
    ids=["answered and passed", "answered", "passed", "no time"],
)
def test_one_that_comes_again_hangs_where_it_came_first_though_that_record_is_missing(
    hops: list[dict[str, Any]],
) -> None:
    copies = [copy("a", begun_us=990_000), copy("b", begun_us=2_000_000, ended_us=1_510_000), copy("c")]
    found = route(hops, copies, mode="ONE")
    shown = [line for line in printed(found).splitlines()[1:] if line.strip()]
    indents = [len(line) - len(line.lstrip(" │├└─")) for line in shown]
    assert [line.lstrip(" │├└─").split(" ")[0] for line in shown] == ["a", "b", "c", "->"]
    assert indents == sorted(set(indents))
    assert shown[3].endswith("-> b handed back")
    assert [line["depth"] for line in outline(found, 9)] == [0, 1, 2, 3]
    spans = {
        span["spanId"]: span
        for resource in otlp(found)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    for span in spans.values():
        above = [span["name"]]
        while span["parentSpanId"]:
            span = spans[span["parentSpanId"]]
            assert span["name"] not in above
            above.append(span["name"])
        assert above[-1] == "plant.state at a"


def test_that_it_came_first_is_told_by_later_hops_where_nothing_tells_how_it_left() -> None:
    hops = [TO_AND_FRO[0] | {"sent_us": None, "sent_at_us": None}, OF_LATER_HOPS, TO_AND_FRO[1]]
    roots, _ = tree(route(hops, [copy("a"), copy("b"), copy("c")], mode="ONE"))
    assert [(root.server, [stop.server for stop in root.onward]) for root in roots] == [
        ("a", ["b"]),
        ("c", []),
    ]


def test_another_way_before_that_is_said_to_be_possible() -> None:
    hops = [hop("a", "d"), hop("a", "b", level=None), hop("d", "b", level=2)]
    (root,), _ = tree(route(hops, [copy("a"), copy("b"), copy("d")]))
    assert [(stop.server, stop.doubt) for stop in root.onward] == [("d", "")]
    assert [(stop.server, stop.doubt) for stop in root.onward[0].onward] == [("b", NOT_ALONE)]


def test_a_span_hangs_below_what_there_is_of_what_led_to_it() -> None:
    hops = [hop("a", "b", sent_us=None, sent_at_us=None), hop("b", "c"), hop("d", "e", sent_us=None)]
    hops[2]["sent_at_us"] = None
    found = otlp(route(hops, [copy("a"), copy("b", begun_us=None), copy("c"), copy("e")]))
    spans = {
        span["name"]: span
        for resource in found["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    assert spans["b to c"]["parentSpanId"] == spans["plant.state at a"]["spanId"]
    assert spans["plant.state at c"]["parentSpanId"] == spans["b to c"]["spanId"]
    assert spans["plant.state at e"]["parentSpanId"] == ""


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
    assert "not known: what became of the copy at b" in text


def test_what_is_proven_to_be_lost_is_not_said_to_be_unknown() -> None:
    copies = [copy("a"), copy("b", state="lost"), copy("c", state="unknown"), copy("d", state="log missing")]
    text = printed(route([hop("a", "b")], copies, missing=["b", "c", "d"]))
    assert "proven: the copy at b was lost\n" in text
    assert "not known: what became of the copies at c, d\n" in text


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
