"""What the jobs make of single copies: handed back, widened, removed on the way, with and without their logs.

All messages stand in one set of logs, which goes through the jobs once.
"""

from typing import Any

import pytest

from routing.hops import HopRecord
from routing.trace import proof
from tests.support.copies_in_logs import FAR_US, HELD, ORIGINS, smuid, written
from tests.support.fates import balance_state
from tests.support.found_in_logs import Found, found
from tests.support.hop_logs import WrittenLogs, records_frame


@pytest.fixture(scope="module")
def jobs(spark: Any) -> Found:
    return found(spark, written())


def test_the_jobs_and_the_judge_of_single_logs_say_the_same_of_every_copy(jobs: Found) -> None:
    of_copies: dict[tuple[str, str], list[HopRecord]] = {}
    for record in written():
        if record.smuid:
            of_copies.setdefault((record.server, record.smuid), []).append(record)
    judged = {
        (server, smuid): balance_state(proof.judged(records, jobs.logs[server]))
        for (server, smuid), records in of_copies.items()
    }
    assert set(judged.values()) == {"finished", "held", "gone", "log missing"}
    assert judged == {key: jobs.states[key] for key in judged}


def test_a_copy_that_was_handed_back_is_held_once_more(jobs: Found) -> None:
    for how in ("handed back", "home early"):
        name = smuid(how)
        assert ("a", name) in jobs.held
        custody = jobs.custody[name]
        assert (custody["state"], custody["custodian"], custody["custodians"]) == ("held", "a", 1)


@pytest.mark.parametrize(
    ("name", "custodian"),
    [
        ("handed back and read", "a"),
        ("handed back and on", "c"),
        ("home early and read", "a"),
        ("unanswered", "b"),
    ],
)
def test_who_has_finished_a_message_is_its_only_custodian(jobs: Found, name: str, custodian: str) -> None:
    custody = jobs.custody[smuid(name)]
    assert (custody["custodian"], custody["custodians"]) == (custodian, 1)


def test_a_removal_that_meets_a_handover_makes_no_second_custodian(jobs: Found) -> None:
    assert jobs.custody[smuid("removed on the way")]["custodians"] <= 1


@pytest.mark.parametrize("name", ["to and fro with one number", "on after the end of the log"])
def test_a_handover_that_no_log_tells_of_makes_no_second_custodian(jobs: Found, name: str) -> None:
    assert jobs.custody[smuid(name, ORIGINS.get(name, "a"))]["custodians"] == 1


@pytest.mark.parametrize("name", ["held by two", "split at home"])
def test_a_copy_that_was_handed_to_two_has_two_custodians(jobs: Found, name: str) -> None:
    assert jobs.custody[smuid(name)]["custodians"] == 2


def test_each_crossing_of_a_link_is_a_hop(jobs: Found) -> None:
    name = smuid("to and fro")
    hops = jobs.routes[name]["hops"]
    assert sorted((hop["from"], hop["to"], hop["crossing"]) for hop in hops) == [
        ("a", "b", 1),
        ("a", "b", 2),
        ("b", "a", 1),
    ]
    assert all(hop["sent_logged"] and hop["received_logged"] for hop in hops)
    assert (jobs.custody[name]["custodian"], jobs.custody[name]["custodians"]) == ("b", 1)


def test_crossings_that_their_sender_does_not_number_are_still_those_that_came(jobs: Found) -> None:
    hops = jobs.routes[smuid("to and fro with one number")]["hops"]
    came = {(hop["from"], hop["to"]) for hop in hops if hop["received_logged"]}
    assert came == {("a", "b"), ("b", "a")}
    assert sum(hop["received_logged"] for hop in hops) == 4


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("without guarantee", ["accepted"]),
        ("without guarantee, of before", ["accepted"]),
        ("lost without guarantee", ["sent"]),
    ],
)
def test_an_unguaranteed_copy_is_one_hop_and_has_travelled_if_its_receiver_says_so(
    jobs: Found, name: str, kinds: list[str]
) -> None:
    assert [hop["kind"] for hop in jobs.routes[smuid(name)]["hops"]] == kinds


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("without guarantee", "finished"),
        ("lost on a link", "gone"),
        ("last without guarantee", "handed over"),
    ],
)
def test_an_unguaranteed_copy_is_gone_where_a_later_one_of_its_link_came_and_it_did_not(
    jobs: Found, name: str, state: str
) -> None:
    assert jobs.custody[smuid(name)]["state"] == state


def test_what_ended_twice_is_named_and_not_what_may_have_begun_again_in_a_gap(jobs: Found) -> None:
    assert jobs.twice == {smuid("ended twice")}


def test_a_copy_that_left_once_or_twice_is_not_said_to_have_an_end(jobs: Found) -> None:
    assert jobs.states["torn", smuid("first visit in a gap")] == "log missing"
    assert jobs.states["torn", smuid("first visit in a gap, and read")] == "finished"


def test_what_left_twice_and_is_home_before_the_second_is_answered_is_held(jobs: Found) -> None:
    assert jobs.states["a", smuid("home again early")] == "held"
    assert jobs.states["a", smuid("home again early and on")] == "finished"
    assert jobs.states["c", smuid("home again early and on")] == "held"


@pytest.mark.parametrize("name", ["read at home early", "on from home early", "gone on from home"])
def test_what_ended_at_home_has_ended_though_the_answer_to_its_leaving_comes_later(
    jobs: Found, name: str
) -> None:
    assert jobs.states["a", smuid(name)] == "finished"


def test_the_servers_agree_with_their_records(jobs: Found) -> None:
    assert {server: jobs.holdings[server] for server in ("a", "b", "c")} == dict.fromkeys("abc", "agrees")


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("receipt ONE counts few", "right"),
        ("receipt ALL counts few", "wrong"),
        ("receipt ALL counts few at its end", "unknown"),
        ("receipt ALL counts few, without a stated end", "unknown"),
        ("receipt ALL counts few, clock set back", "unknown"),
        ("receipt ALL counts few, within two minutes", "unknown"),
        ("receipt of unknown kind", "unknown"),
        ("receipt after a removal", "unknown"),
        ("receipt without guarantee", "right"),
        ("receipt without guarantee, acknowledged", "right"),
        ("receipt without guarantee, early", "unknown"),
        ("receipt of what was never read", "wrong"),
        ("receipt of a copy elsewhere", "unknown"),
        ("receipt of a deeper copy elsewhere", "unknown"),
    ],
)
def test_a_receipt_is_held_to_what_it_was_asked_for(jobs: Found, name: str, verdict: str) -> None:
    assert jobs.receipts[smuid(name, ORIGINS.get(name, "a"))]["verdict"] == verdict


def test_a_receipt_that_knows_of_a_commit_in_a_gap_is_not_wrong(jobs: Found) -> None:
    assert jobs.receipts[smuid("commit in a gap", "torn")]["verdict"] == "unknown"


def test_an_origin_whose_log_lost_all_of_a_message_is_missing_in_its_route(jobs: Found) -> None:
    route = jobs.routes[smuid("origin in a gap", "torn")]
    assert (route["state"], route["missing"]) == ("partial", ["torn"])
    assert jobs.missing == 1


@pytest.mark.parametrize(
    "name",
    ["receipt of a copy elsewhere", "receipt of a deeper copy elsewhere", "handed to one that had it"],
)
def test_who_says_that_it_had_a_message_before_has_a_copy_of_which_nothing_is_known(
    jobs: Found, name: str
) -> None:
    assert jobs.states["elsewhere", smuid(name)] == "log missing"
    route = jobs.routes[smuid(name)]
    assert (route["state"], route["missing"]) == ("partial", ["elsewhere"])


def test_what_was_handed_to_one_that_had_it_is_where_a_log_is_missing(jobs: Found) -> None:
    custody = jobs.custody[smuid("handed to one that had it")]
    assert (custody["state"], custody["custodians"]) == ("log missing", 0)


def test_a_duplicate_is_a_copy_where_nobody_tells_of_another_but_of_what_was_removed(spark: Any) -> None:
    logs = WrittenLogs()
    for server in ("a", "c"):
        logs.write(server, "heartbeat")
    names = {reason: f"a/019aa5d72900-1-{number}" for number, reason in enumerate(("", "removed"))}
    for reason, name in names.items():
        logs.write("a", "published", name, due=0)
        logs.write("c", "duplicate", name, peer="a", attempt=2, hops=("a",), reason=reason)
        logs.write("a", "forwarded", name, peer="c", attempt=2, outcome="duplicate", final=True)
    for server in ("a", "c"):
        logs.write(server, "heartbeat")
    jobs = found(spark, logs.records)
    assert jobs.states["c", names[""]] == "unknown"
    assert jobs.routes[names[""]]["state"] == "partial"
    assert ("c", names["removed"]) not in jobs.states
    assert jobs.routes[names["removed"]]["state"] == "complete"


@pytest.mark.parametrize(("server", "state"), [("torn", "log missing"), ("short", "unknown")])
def test_who_turned_away_what_was_removed_may_have_had_it_in_records_that_were_not_read(
    spark: Any, server: str, state: str
) -> None:
    """It was received and read there; its sender, who got no answer, was told at the second attempt."""
    logs = WrittenLogs()
    name = "a/019aa5d72900-1-1"
    logs.read_by_all(name, 1, receipt="ALL", expires_us=FAR_US)
    if server == "torn":
        logs.write(server, "heartbeat")
    logs.lose(server)
    logs.write(server, "duplicate", name, peer="a", attempt=2, hops=("a",), reason="removed")
    logs.write("a", "forwarded", name, peer=server, attempt=2, outcome="duplicate")
    logs.write("a", "receipt", name, receipt="2/2")
    for each in ("a", server):
        logs.write(each, "heartbeat")
    jobs = found(spark, logs.records)
    assert jobs.states[server, name] == state
    assert jobs.routes[name]["missing"] == [server]


@pytest.fixture(scope="module")
def verdicts(spark: Any) -> dict[str, str]:
    """Of all servers of `HELD`, from one run."""
    from routing.trace import balance, coverage, ends, facts

    logs = WrittenLogs()
    for server, (happens, stated, _) in HELD.items():
        happens(logs, server, stated)
    read = records_frame(spark, logs.records)
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
    copies = ends.states(facts.copies(facts.facts(read)), covered)
    return {row.server: row.verdict for row in balance.holdings(copies, covered, read).collect()}


@pytest.mark.parametrize("server", HELD)
def test_a_copy_that_begins_again_is_held_at_a_heartbeat_as_often_as_it_may_be(
    verdicts: dict[str, str], server: str
) -> None:
    assert verdicts[server] == HELD[server][2]


def test_who_sent_a_copy_in_a_ring_is_known_where_its_own_log_was_read(spark: Any) -> None:
    """What it sent may have been overtaken by a deeper copy, whose Hops it then carries.

    What has no guarantee ends where it comes back to, which is nothing to report.
    """
    from routing.trace import anomalies, clocks, coverage, facts, routes

    name = "b/019aa5d72900-1-fd"
    logs = WrittenLogs()
    for server in ("b", "c"):
        logs.write(server, "heartbeat")
    logs.write("b", "published", name, due=1)
    logs.write("c", "received", name, peer="b", attempt=1, hops=("b",), due=1)
    for sender in ("c", "absent"):
        logs.write("b", "loop", name, peer=sender, attempt=1, hops=("b", sender))
    logs.write("c", "forwarded", name, peer="b", attempt=1, outcome="loop")
    loose = "b/019aa5d72900-1-fc"
    logs.write("b", "published", loose, due=1, guarantee=False)
    logs.write("c", "received", loose, peer="b", attempt=1, hops=("b",), due=1, guarantee=False)
    logs.write("b", "loop", loose, peer="c", attempt=1, hops=("b", "c"), guarantee=False)
    logs.write("c", "forwarded", loose, peer="b", attempt=1, outcome="loop", guarantee=False)
    read = records_frame(spark, logs.records)
    words = coverage.words(read)
    covered = coverage.coverage(read, words, coverage.gaps(words)).localCheckpoint()
    paired = facts.facts(read, ["absent"])
    made = routes.routes(paired, clocks.segments_frame(spark, []), covered).withColumn("day", routes.day())
    looped = anomalies._of_routes(made).where("kind = 'looped'").collect()
    came_back = "1 copy came back to a server in its Hops"
    assert [(row.smuid, row.server, row.peer, row.detail) for row in looped] == [(name, "b", "c", came_back)]
