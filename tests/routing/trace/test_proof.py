"""What is proven of each copy of a message, in sentences."""

from typing import Any

from routing.hops import HopRecord
from routing.trace.proof import hop_records, proofs

SMUID = "a.example/019aa5d72900-1-1"


def row(server: str, number: int, event: str, **fields: Any) -> dict[str, Any]:
    """A record as the table has it: other columns beside it, and null where nothing was said."""
    known = {"version": 1, "server": server, "boot": 1, "record": number, "time_us": 1_763_719_200_000_000}
    return known | {"event": event, "smuid": SMUID, "topic": "t", "due": None, "birth_us": 1} | fields


ROWS = [
    row("a.example", 8, "published", account="ada:desk@a.example"),
    row("a.example", 9, "forwarded", peer="b.example", outcome="accepted", final=True),
    row("c.example", 5, "received", peer="b.example", hops=["a.example", "b.example"]),
]
LOGS = {
    "a.example": {"log": "whole", "complete_from": 1, "missing": 0},
    "b.example": {"log": "whole", "complete_from": 1, "missing": 0},
    "c.example": {"log": "gaps", "complete_from": 7, "missing": 2},
}


def said(*copies: tuple[str, str]) -> list[tuple[str, str, str]]:
    route = {"copies": [{"server": server, "state": state} for server, state in copies]}
    return [(one.server, one.state, one.sentence) for one in proofs(route, hop_records(ROWS), LOGS)]


def test_rows_are_records_by_server_each_once() -> None:
    found = hop_records([*ROWS, ROWS[0]]).by_server
    assert {server: [record.record for record in records] for server, records in found.items()} == {
        "a.example": [8, 9],
        "c.example": [5],
    }
    assert isinstance(found["a.example"][0], HopRecord)


def test_what_is_lost_comes_first_and_says_who_had_acknowledged_it_and_why_it_is_not_merely_missing() -> None:
    first, *others = said(("a.example", "finished"), ("c.example", "log missing"), ("b.example", "lost"))
    assert first == (
        "b.example",
        "lost",
        "b.example has acknowledged it to a.example, 2025-11-21T10:00:00.000+00:00 by the clock of a.example"
        " (its record 9). Of the log of b.example no record is missing between those of what it answered"
        " before and after, and none of them is of this message: it was lost there.",
    )
    assert [state for _, state, _ in others] == ["log missing", "finished"]


def test_the_words_of_a_copy_with_records_are_those_of_why() -> None:
    [(_, _, sentence)] = said(("a.example", "finished"))
    assert sentence == (
        "Published by ada:desk@a.example. Handed on 0 ms later to b.example, whose log has what came of it."
    )


def test_what_is_held_is_so_at_the_end_of_its_log_for_others_may_know_more() -> None:
    rows = [
        row("a.example", 8, "published"),
        row("b.example", 7, "received", peer="a.example"),
        row("b.example", 8, "delivered", subscription="bob:desk@b.example"),
    ]
    logs = {name: log | {"last_us": 1_763_719_260_000_000} for name, log in LOGS.items()}
    copies = [{"server": name, "state": "held"} for name in ("a.example", "b.example")]
    ended = "Held at the end of its log, 2025-11-21T10:01:00.000+00:00: "
    assert [one.sentence for one in proofs({"copies": copies}, hop_records(rows), logs)] == [
        f"Published. {ended}nobody is known to have it yet.",
        f"Received from a.example. {ended}delivered to bob:desk@b.example and not committed yet.",
    ]


def test_what_may_be_in_a_gap_is_not_known() -> None:
    [(_, _, sentence)] = said(("c.example", "log missing"))
    assert sentence.startswith(
        "Received from b.example. What became of it is not known: 2 records of its log are missing."
    )


def test_of_who_called_it_a_duplicate_that_is_said() -> None:
    rows = [row("a.example", 9, "forwarded", peer="b.example", outcome="duplicate")]
    found = proofs({"copies": [{"server": "b.example", "state": "log missing"}]}, hop_records(rows), {})
    assert found[0].sentence == (
        "b.example has called it a duplicate to a.example, 2025-11-21T10:00:00.000+00:00 by the clock of"
        " a.example (its record 9); what became of it is not known: its log was not read."
    )


def test_of_an_absent_log_others_tell() -> None:
    found = proofs({"copies": [{"server": "b.example", "state": "log missing"}]}, hop_records(ROWS), {})
    assert found[0].sentence.endswith("what became of it is not known: its log was not read.")


def test_records_that_an_earlier_version_believed_are_passed_over_and_said_to_be() -> None:
    wrong = [
        row("a.example", 10, "expired", mode="BOTH", final=True),
        row("b.example", 7, "published", due=-1),
        row("b.example", 8, "received", hops=["a.example", None]),
        row("c.example", 6, "expired", depth=-7, final=True),
        row("d.example", 1, "duplicate", peer="c.example", sent_us=-1),
    ]
    copies = [("a.example", "finished"), ("b.example", "finished"), ("c.example", "finished")]
    route = {"copies": [{"server": server, "state": state} for server, state in copies]}
    found = {one.server: one for one in proofs(route, hop_records([*ROWS, *wrong]), {})}
    assert found["a.example"].sentence.endswith(
        " whose log has what came of it. Passed over: 1 record of it here holds what no record can."
    )
    assert found["b.example"].sentence.endswith(
        "; what became of it is not known: 2 records of it here hold what no record can."
    )
    assert "What became of it is not known: 1 record of it here" in found["c.example"].sentence
    assert (found["d.example"].state, found["d.example"].sentence) == (
        "unknown",
        "Whether it was here is not known: 1 record of it here holds what no record can.",
    )
