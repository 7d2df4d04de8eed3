"""What the records of one message mean, in words."""

from typing import Any

import pytest

from routing.fate import judge
from routing.hops import HopRecord
from tests.support.fates import balance_state

ADA = "ada:desk@alpha.example"
BOB = "bob:desk@alpha.example"
EVE = "eve:desk@alpha.example"


def records(*events: dict[str, Any], boot: int = 1) -> list[HopRecord]:
    """One record for each event, a millisecond after another."""
    return [
        HopRecord(
            **{
                "version": 1, "server": "alpha.example", "boot": boot, "record": number,
                "time_us": 1_000 * number, "smuid": "alpha.example/1-1-1", "topic": "news", **event,
            }
        )
        for number, event in enumerate(events, 1)
    ]  # fmt: skip


def published(**fields: object) -> dict[str, object]:
    return {"event": "published", "account": ADA, **fields}


def delivered(to: str, attempt: int = 1, **fields: object) -> dict[str, object]:
    return {"event": "delivered", "subscription": to, "attempt": attempt, **fields}


def committed(by: str, **fields: object) -> dict[str, object]:
    return {"event": "committed", "subscription": by, **fields}


def returned(by: str, reason: str = "") -> dict[str, object]:
    return {"event": "returned", "subscription": by, "reason": reason}


def answered(peer: str, outcome: str = "accepted", **fields: object) -> dict[str, object]:
    return {"event": "forwarded", "peer": peer, "outcome": outcome, **fields}


def handed_to_beta(**fields: object) -> dict[str, object]:
    return {"event": "forwarded", "peer": "beta.example", "mode": "ONE", "final": True, **fields}


def back_from_beta(**fields: object) -> dict[str, object]:
    return {"event": "received", "peer": "beta.example", "mode": "ONE", **fields}


def arrived(peer: str, *sites: str, **fields: object) -> dict[str, object]:
    return {"event": "arrived", "peer": peer, "destinations": sites, **fields}


@pytest.mark.parametrize(
    ("events", "state", "verdict"),
    [
        ([published()], "waiting", f"Published by {ADA}. Still held: nobody is known to have it yet."),
        (
            [published(), delivered(BOB)],
            "waiting",
            f"Published by {ADA}. Still held: delivered to {BOB} and not committed yet.",
        ),
        (
            [published(), delivered(BOB, pattern="news.#")],
            "waiting",
            f"Published by {ADA}. Still held: delivered to {BOB} (by news.#) and not committed yet.",
        ),
        (
            [
                published(),
                delivered(BOB, pattern="#"),
                returned(BOB, "forbidden") | {"pattern": "#"},
                delivered(BOB),
                committed(BOB, final=True),
            ],
            "committed",
            f"Published by {ADA}. Finished 4 ms later: committed by {BOB}.",
        ),
        (
            [published(), delivered(BOB), returned(BOB, "lock timed out")],
            "waiting",
            f"Published by {ADA}. Still held: it came back from {BOB} (lock timed out).",
        ),
        (
            [published(), delivered(BOB), delivered(EVE), committed(BOB)],
            "waiting",
            f"Published by {ADA}. Still held: delivered to {EVE} and not committed yet."
            f" Committed by {BOB} so far.",
        ),
        (
            [published(), delivered(BOB), committed(BOB)],
            "waiting",
            f"Published by {ADA}. Still held for others, or for those who come. Committed by {BOB} so far.",
        ),
        (
            [published(), delivered(BOB), committed(BOB, final=True), {"event": "receipt", "receipt": "1/1"}],
            "committed",
            f"Published by {ADA}. Finished 2 ms later: committed by {BOB}.",
        ),
        (
            [published(), delivered(BOB), delivered(EVE), committed(BOB), committed(EVE, final=True)],
            "committed",
            f"Published by {ADA}. Finished 4 ms later: committed by 2 subscriptions.",
        ),
        (
            [published(guarantee=False), delivered(BOB, final=True, guarantee=False)],
            "delivered",
            f"Published by {ADA}. Delivered 1 ms later to {BOB}, without a guarantee.",
        ),
        (
            [published(), {"event": "expired", "final": True}],
            "expired",
            f"Published by {ADA}. Expired 1 ms later: its timeout ended.",
        ),
        (
            [
                published(),
                delivered(BOB),
                committed(BOB),
                {"event": "expired", "final": True, "reason": "due to nobody"},
            ],
            "unwanted",
            f"Published by {ADA}. Ended 3 ms later, as it was due to nobody. Committed by {BOB} before.",
        ),
        (
            [published(), {"event": "removed", "final": True}],
            "removed",
            f"Published by {ADA}. Removed 1 ms later.",
        ),
        (
            [published(), delivered(BOB), {"event": "dead", "final": True, "reason": "9 deliveries failed"}],
            "dead",
            f"Published by {ADA}. Given up 2 ms later and moved to the topic dead.news: 9 deliveries failed.",
        ),
        (
            [
                published(guarantee=False),
                {"event": "dropped", "final": True, "guarantee": False, "reason": "too many waiting"},
            ],
            "dropped",
            f"Published by {ADA}. Dropped 1 ms later, as it had no guarantee: too many waiting.",
        ),
        (
            [
                {"event": "received", "peer": "beta.example"},
                answered("gamma.example", final=True),
            ],
            "forwarded",
            "Received from beta.example."
            " Handed on 1 ms later to gamma.example, whose log has what came of it.",
        ),
        (
            [
                {"event": "received", "peer": "beta.example"},
                answered("gamma.example"),
                {
                    "event": "arrived",
                    "peer": "gamma.example",
                    "destinations": ("delta.example",),
                    "final": True,
                },
            ],
            "forwarded",
            "Received from beta.example."
            " Handed on 2 ms later: gamma.example tells that delta.example has it, the last that it was for.",
        ),
        (
            [{"event": "loop", "peer": "beta.example"}],
            "unknown",
            "The log does not have how this site came by it. It came from beta.example, and was not taken"
            " again: it had come from here. What became of it here is not known.",
        ),
        (
            [{"event": "duplicate", "peer": "beta.example"}, {"event": "denied", "peer": "beta.example"}],
            "unknown",
            "The log does not have how this site came by it. It came from beta.example, and was not taken"
            " again: it had been here before. What became of it here is not known.",
        ),
        (
            [{"event": "receipt", "receipt": "1/1"}, {"event": "duplicate", "peer": "beta.example"}],
            "unknown",
            "The log does not have how this site came by it. What became of it here is not known.",
        ),
        (
            [{"event": "denied", "peer": "beta.example", "reason": "topic"}],
            "refused",
            "It came from beta.example, and was not taken: topic.",
        ),
        (
            [{"event": "duplicate", "peer": "beta.example", "reason": "removed"}],
            "refused",
            "It came from beta.example, and was not taken: removed.",
        ),
        (
            [committed(BOB, final=True)],
            "committed",
            f"The log does not have how this site came by it. Finished: committed by {BOB}.",
        ),
        (
            [published(), {"event": "heartbeat", "final": True}],
            "unknown",
            f"Published by {ADA}. The record that ends it says 'heartbeat', which ends no message.",
        ),
    ],
)
def test_the_verdict_says_what_the_records_say(
    events: list[dict[str, object]], state: str, verdict: str
) -> None:
    fate = judge(records(*events), newest_boot=1)
    assert (fate.state, fate.verdict) == (state, verdict)


@pytest.mark.parametrize(
    ("events", "state", "verdict"),
    [
        (
            [answered("b", "denied", final=True)],
            "denied",
            "Ended here 1 ms later: b would not take it, or is no peer any more;"
            " and nobody else was still to have it.",
        ),
        (
            [answered("b", "denied"), committed(BOB), answered("c", "denied", final=True)],
            "denied",
            "Ended here 3 ms later: b and c would not take it, or are no peer any more; and nobody"
            f" else was still to have it. Committed by {BOB} before.",
        ),
        (
            [answered("b", "denied"), answered("c", "loop", final=True)],
            "denied",
            "Ended here 2 ms later: b would not take it, or is no peer any more; it had come by way of c; and"
            " nobody else was still to have it.",
        ),
        (
            [answered("b"), answered("c", "denied", final=True)],
            "forwarded",
            "Handed on 1 ms later to b, whose log has what came of it."
            " c would not take it, or is no peer any more.",
        ),
        (
            [
                answered("b", "depth"),
                answered("c"),
                answered("d", "duplicate"),
                answered("e", "loop", final=True),
            ],
            "forwarded",
            "Handed on 3 ms later to b, c and d, whose logs have what came of it.",
        ),
        (
            [answered("b", "denied"), answered("b", final=True)],
            "forwarded",
            "Handed on 2 ms later to b, whose log has what came of it.",
        ),
        (
            [arrived("b", "c", "d"), answered("e", "denied", final=True)],
            "forwarded",
            "Handed on: b tells that c and d have it. e would not take it, or is no peer any more.",
        ),
        (
            [answered("b", "", mode="ONE", final=True, guarantee=False)],
            "forwarded",
            "Handed on 1 ms later to b, without an acknowledgement: only the log there tells whether it"
            " came.",
        ),
        (
            [
                answered("b", mode="ONE", final=True),
                {"event": "received", "peer": "b", "mode": "ONE"},
                answered("b", "denied", mode="ONE"),
                answered("c", mode="ONE", final=True),
            ],
            "forwarded",
            "Handed on 4 ms later to c, whose log has what came of it.",
        ),
    ],
)
def test_only_those_who_have_taken_it_are_said_to_have_it(
    events: list[dict[str, object]], state: str, verdict: str
) -> None:
    fate = judge(records(published(), *events), newest_boot=1)
    assert (fate.state, fate.verdict) == (state, f"Published by {ADA}. {verdict}")


@pytest.mark.parametrize(
    ("events", "held"),
    [
        ([answered("b")], " for others, or for those who come: b has taken it."),
        (
            [answered("b"), answered("c", "duplicate"), answered("d", "denied"), answered("e", "loop")],
            " for others, or for those who come: b and c have taken it.",
        ),
        ([arrived("b", "c")], " for others, or for those who come: b tells that c has it."),
        (
            [answered("b"), arrived("b", "c", "d")],
            " for others, or for those who come: b has taken it; b tells that c and d have it.",
        ),
        ([answered("b", "denied")], ": nobody is known to have it yet."),
        (
            [answered("b"), delivered(BOB), delivered(EVE), committed(EVE)],
            f": delivered to {BOB} and not committed yet. Committed by {EVE} so far. b has taken it.",
        ),
        (
            [handed_to_beta(outcome="accepted"), back_from_beta()],
            ": nobody is known to have it yet.",
        ),
    ],
)
def test_what_is_held_says_who_else_has_taken_it(events: list[dict[str, object]], held: str) -> None:
    events = [{"mode": events[0].get("mode", "ALL"), **event} for event in (published(), *events)]
    fate = judge(records(*events), newest_boot=1)
    assert fate.state == "waiting"
    assert fate.verdict.endswith(f" Still held{held}")


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_is_not_known_says_who_has_taken_it_as_far_as_the_log_goes(mode: str) -> None:
    events = [published(mode=mode), answered("b", mode=mode)]
    fate = judge(records(*events), newest_boot=1, doubt="2 records are missing")
    assert fate.state == "unknown"
    assert fate.verdict.endswith(
        " As far as the log goes: held for others, or for those who come: b has taken it."
    )


def test_a_copy_without_a_guarantee_does_not_outlive_its_boot() -> None:
    fate = judge(records(published(guarantee=False), boot=1), newest_boot=2)
    assert fate.state == "gone"
    assert fate.verdict.endswith(
        " It had no guarantee, and was dropped as the daemon ended, which it has since; where that was"
        " killed, it may have been finished in the half second before, of which no record is left."
    )


def test_a_guaranteed_copy_does() -> None:
    assert judge(records(published(), boot=1), newest_boot=2).state == "waiting"


def test_each_subscription_is_told_apart() -> None:
    fate = judge(
        records(
            published(), delivered(BOB), returned(BOB), delivered(EVE), delivered(BOB, 2), committed(BOB)
        ),
        newest_boot=1,
    )
    bob, eve = fate.readers
    assert (bob.subscription, bob.delivered_us, bob.attempts, bob.committed_us) == (BOB, 2_000, 2, 6_000)
    assert (eve.subscription, eve.delivered_us, eve.attempts, eve.committed_us) == (EVE, 4_000, 1, None)


@pytest.mark.parametrize(
    "way",
    [
        [handed_to_beta(), back_from_beta()],
        [back_from_beta(), handed_to_beta()],  # home before the acknowledgement of its leaving
        [handed_to_beta(), back_from_beta(), back_from_beta(), handed_to_beta()],  # the second time so
        [handed_to_beta(), back_from_beta(), handed_to_beta(), back_from_beta()],
    ],
)
def test_what_was_handed_on_and_came_home_is_held(way: list[dict[str, object]]) -> None:
    fate = judge(records(published(mode="ONE"), *way), newest_boot=1)
    assert (fate.state, fate.ended, balance_state(fate)) == ("waiting", None, "held")
    assert "It was handed on, and came home from beta.example. Still held" in fate.verdict


LEFT_TWICE = [
    handed_to_beta(crossing=1),
    back_from_beta(hops=("alpha.example", "beta.example")),
    back_from_beta(hops=("alpha.example", "beta.example", "alpha.example", "beta.example")),
    handed_to_beta(crossing=2),  # the answer for which it is home before
]


def test_by_which_way_it_left_tells_what_came_home_where_records_are_missing() -> None:
    held = judge(records(published(mode="ONE"), *LEFT_TWICE), newest_boot=1, doubt="records are missing")
    assert (held.state, held.ended) == ("unknown", None)
    left = judge(records(published(mode="ONE"), *LEFT_TWICE, handed_to_beta(crossing=3)), newest_boot=1)
    assert left.state == "forwarded"


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (committed(BOB, mode="ONE", final=True), f"Finished 2 ms later: committed by {BOB}."),
        (
            {"event": "forwarded", "peer": "gamma.example", "mode": "ONE", "final": True, "crossing": 1},
            "Handed on 2 ms later to gamma.example, whose log has what came of it.",
        ),
    ],
)
def test_what_ended_at_home_has_ended_though_the_answer_to_its_leaving_comes_later(
    end: dict[str, object], verdict: str
) -> None:
    back = back_from_beta(hops=("alpha.example", "beta.example"))
    fate = judge(
        records(published(mode="ONE"), back, {**end, "outcome": "accepted"}, handed_to_beta(crossing=1)),
        newest_boot=1,
    )
    assert balance_state(fate) == "finished"
    assert fate.verdict.endswith(verdict)


@pytest.mark.parametrize("hops", [("alpha.example", "beta.example", "alpha.example"), ("alpha.example",)])
def test_hops_that_no_site_writes_end_no_command(hops: tuple[str, ...]) -> None:
    way = [handed_to_beta(crossing=1), back_from_beta(hops=hops)]
    assert judge(records(published(mode="ONE"), *way), newest_boot=1).state == "waiting"


def test_what_came_home_ends_as_it_does_then() -> None:
    way = [handed_to_beta(), back_from_beta(), committed(BOB, mode="ONE", final=True)]
    fate = judge(records(published(mode="ONE"), *way), newest_boot=1)
    assert (fate.state, balance_state(fate)) == ("committed", "finished")


def test_what_left_and_may_have_come_home_before_in_a_gap_has_left() -> None:
    way = [back_from_beta(), handed_to_beta()]
    fate = judge(records(published(mode="ONE"), *way), newest_boot=1, doubt="records are missing")
    assert fate.state == "forwarded"


def test_of_a_copy_without_a_guarantee_in_a_log_that_may_go_on_it_is_not_said_that_it_is_held() -> None:
    fate = judge(records(published(guarantee=False)), newest_boot=None)
    assert (fate.state, balance_state(fate)) == ("gone", "gone")


def test_no_end_is_said_to_have_come_before_the_beginning() -> None:
    events = [published(time_us=9_000), answered("beta.example", final=True, time_us=2_000)]
    assert judge(records(*events), 1).verdict == (
        f"Published by {ADA}. Handed on (its clock was set back meanwhile) to beta.example, whose log has"
        " what came of it."
    )
