"""The way of a message from what its sites say: the tree, its times, and what is not known."""

from typing import Any

import msgspec
import pytest

from daemon.control.journey import NESTED_MAX, journey
from daemon.control.reports import PassedOver, Report, Unanswered
from daemon.hops.coverage import Gap
from daemon.hops.examine import Findings, moment
from daemon.hops.reader import Skipped
from daemon.operating.journeys import Journey
from routing.fate import judge
from routing.hops import HopRecord
from tests.support.journeys import shape

SMUID = "a/01a1fe3aed21-1-1"
T0 = 1_795_000_000_000_000


def record(server: str, event: str, at_us: int, **fields: Any) -> HopRecord:
    return HopRecord(
        version=1,
        server=server,
        boot=1,
        record=1,
        time_us=T0 + at_us,
        event=event,  # type: ignore[arg-type] # an Event
        smuid=SMUID,
        topic="t",
        **fields,
    )


def handed(server: str, peer: str, stamps: tuple[int, int, int, int], **fields: Any) -> HopRecord:
    """A peer took it; sent, came, answered, answer came, each by the clock of who wrote it.

    The record is written 20 ms after that.
    """
    sent, came, answered, back = stamps
    return record(
        server,
        "forwarded",
        back + 20_000,
        peer=peer,
        outcome="accepted",
        sent_us=T0 + sent,
        peer_received_us=T0 + came,
        peer_sent_us=T0 + answered,
        acknowledged_us=T0 + back,
        **fields,
    )


def report(at: str, *records: HopRecord, source: str = "", **fields: Any) -> Report:
    findings = Findings(
        smuid=SMUID,
        state="unknown",
        verdict="nothing is known",
        covered=fields.pop("covered", True),
        fate=judge(list(records), 1) if records else None,
        records=list(records),
        unread=fields.pop("unread", Skipped()),
        left_out=fields.pop("left_out", 0),
        gaps=fields.pop("gaps", []),
    )
    return Report(at=at, source=source, outcome="reached", topic="t", findings=findings, **fields)


def told(*reports: Report, unanswered: tuple[Unanswered, ...] = ()) -> Journey:
    return journey(SMUID, reports, unanswered)


def gaps(way: Journey) -> dict[str, str]:
    return {gap.server: gap.why for gap in way.gaps}


def test_each_site_stands_behind_the_one_that_it_had_the_message_from() -> None:
    way = told(
        report("c", record("c", "received", 30, peer="b")),
        report("a", record("a", "published", 0)),
        report("d", record("d", "received", 20, peer="a")),
        report("b", record("b", "received", 10, peer="a"), record("b", "duplicate", 40, peer="d")),
    )
    assert shape(way.began) == ("a", [("b", [("c", [])]), ("d", [])])
    assert way.began is not None
    assert way.began.beyond[0].again == ["d: duplicate"]
    assert (way.topic, way.apart, way.gaps) == ("t", [], [])


def test_times_are_corrected_by_what_the_acknowledgements_tell_of_the_clocks() -> None:
    # b's clock is 1 s ahead, c's is 2 s behind b's; each link takes 5 ms in both directions.
    way = told(
        report("a", record("a", "published", 0), handed("a", "b", (1_000, 1_006_000, 1_007_000, 12_000))),
        report(
            "b",
            record("b", "received", 1_006_000, peer="a"),
            handed("b", "c", (1_008_000, -987_000, -986_000, 1_019_000)),
        ),
        report("c", record("c", "received", -987_000, peer="b")),
    )
    [b] = way.began.beyond  # type: ignore[union-attr] # there is one
    [c] = b.beyond
    assert (b.link_us, b.after_us) == (5_000, 6_000)
    assert (c.link_us, c.after_us) == (5_000, 13_000)
    assert c.came_us == T0 - 987_000


def test_an_acknowledgement_that_came_again_tells_of_the_clocks_and_not_of_the_link() -> None:
    # The first one was lost; the second attempt was a duplicate. b's clock is 1 s ahead.
    again = handed("a", "b", (50_000, 1_055_000, 1_056_000, 61_000))
    again.outcome = "duplicate"
    way = told(
        report("a", record("a", "published", 0), again),
        report("b", record("b", "received", 1_006_000, peer="a")),
    )
    [b] = way.began.beyond  # type: ignore[union-attr] # there is one
    assert (b.link_us, b.after_us) == (None, 6_000)


@pytest.mark.parametrize("outcome", ["accepted", "duplicate"])
def test_a_log_that_does_not_say_when_the_acknowledgement_came_tells_no_times(outcome: Any) -> None:
    earlier = handed("a", "b", (1_000, 6_000, 7_000, 12_000))
    earlier.acknowledged_us, earlier.outcome = 0, outcome
    way = told(
        report("a", record("a", "published", 0), earlier),
        report("b", record("b", "received", 6_000, peer="a")),
    )
    [b] = way.began.beyond  # type: ignore[union-attr] # there is one
    assert (b.link_us, b.after_us, b.came_us) == (None, None, T0 + 6_000)


def test_without_the_stamps_no_time_is_guessed() -> None:
    way = told(
        report("a", record("a", "published", 0)),
        report("b", record("b", "received", 10, peer="a")),
    )
    [b] = way.began.beyond  # type: ignore[union-attr] # there is one
    assert (b.link_us, b.after_us) == (None, None)


def test_a_site_that_took_it_and_did_not_answer_stands_in_the_tree_and_is_a_gap() -> None:
    way = told(
        report("a", record("a", "published", 0), handed("a", "b", (0, 10, 20, 30)), asked=("b",)),
        unanswered=(Unanswered("a", "b"),),
    )
    assert shape(way.began) == ("a", [("b", [])])
    assert gaps(way) == {"b": "no report came, though a asked it"}


def test_a_site_without_a_log_between_two_others_leaves_what_is_behind_it_apart() -> None:
    way = told(
        report("a", record("a", "published", 0)),
        report("c", record("c", "received", 20, peer="b")),
        unanswered=(Unanswered("a", "b"),),
    )
    assert shape(way.began) == ("a", [])
    assert [shape(stop) for stop in way.apart] == [("c", [])]


def test_why_a_site_was_not_asked_is_a_gap_unless_another_asked_it() -> None:
    way = told(
        report(
            "a",
            record("a", "published", 0),
            passed_over=(PassedOver("b", "the link is down"), PassedOver("c", "the link is down")),
        ),
        report("c", source="d"),
    )
    assert gaps(way) == {"b": "a could not ask it: the link is down"}
    assert way.never == ["c"]


def test_a_log_that_says_less_than_others_know_is_a_gap() -> None:
    way = told(
        report("a", record("a", "published", 0), handed("a", "b", (0, 10, 20, 30))),
        report("b"),
        report("c", covered=False),
        report("d", record("d", "received", 5, peer="a"), unread=Skipped(bad=2)),
        report("e", record("e", "received", 5, peer="a"), left_out=7),
        report("f", record("f", "committed", 5, subscription="x:y@f"), covered=False),
    )
    assert gaps(way) == {
        "b": "its log has no record of it, though a handed the message to it",
        "c": "nothing is known",
        "d": "part of its log could not be read (2 lines or files)",
        "e": "its log has 7 more records of it; ask there",
        "f": "its log no longer has the beginning, and tells of the message from " + moment(T0 + 5) + " on",
    }


def test_a_site_that_was_busy_or_denied_the_answer_is_a_gap() -> None:
    way = told(
        report("a", record("a", "published", 0)),
        Report(at="b", source="a", outcome="busy"),
        Report(at="c", source="a", outcome="denied", reason="the rules forbid it"),
        Report(at="d", source="c", outcome="duplicate"),
    )
    assert gaps(way) == {"b": "it answered: busy", "c": "the rules forbid it"}


def test_a_message_that_went_to_and_fro_is_one_tree() -> None:
    way = told(
        report("a", record("a", "published", 0), record("a", "received", 20, peer="b")),
        report("b", record("b", "received", 10, peer="a")),
    )
    assert shape(way.began) == ("a", [("b", [])])
    assert way.began is not None
    assert way.began.again == ["b: received"]


def test_logs_that_contradict_one_another_end_no_search() -> None:
    way = told(
        report("a", record("a", "received", 0, peer="b")),
        report("b", record("b", "received", 10, peer="a")),
    )
    assert way.began is None
    assert sorted(stop.server for stop in way.apart) == ["a", "b"]


def test_nothing_is_known_of_a_message_that_nobody_had() -> None:
    way = told(report("a"), report("b"))
    assert (way.began, way.never, way.gaps) == (None, ["a", "b"], [])


def test_a_site_whose_log_lacks_records_that_might_tell_more_is_a_gap() -> None:
    lost = Gap(first=2, last=8, after_us=T0, before_us=None, boot=None)
    found = told(report("a", record("a", "published", 0), gaps=[lost]))
    assert [(gap.server, gap.why) for gap in found.gaps] == [
        ("a", "its log lacks 7 of its records, which might tell more")
    ]


@pytest.mark.parametrize("event", ["duplicate", "loop"])
def test_a_site_whose_log_does_not_tell_what_became_of_it_is_a_gap(event: str) -> None:
    way = told(report("a", record("a", "published", 0)), report("b", record("b", event, 30, peer="a")))
    assert gaps(way) == {"b": "its log does not tell what became of it there"}


def test_a_way_over_more_sites_than_can_be_nested_has_all_of_them() -> None:
    count = 20 * NESTED_MAX
    first = report("s0", record("s0", "published", 0))
    others = (report(f"s{at}", record(f"s{at}", "received", at, peer=f"s{at - 1}")) for at in range(1, count))
    way = msgspec.json.decode(msgspec.json.encode(told(first, *others)), type=Journey)
    assert way.began is not None
    seen, waiting = [], [way.began]
    while waiting:
        stop = waiting.pop()
        seen.append((stop.server, stop.source))
        waiting += stop.beyond
    assert sorted(seen) == sorted((f"s{at}", f"s{at - 1}" if at else "") for at in range(count))
    assert (way.apart, way.gaps) == ([], [])
