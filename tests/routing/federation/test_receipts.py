"""Receipts over links that go down while questions are on their way."""

import pytest

from routing.errors import Refusal
from routing.peering.decisions import TellReceipt
from routing.receipt import COUNT_MAX
from tests.support.sites import RouterFederation

DIAMOND = {("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma"), ("gamma", "delta")}


def test_a_copy_that_became_wider_while_the_link_was_down_is_counted_once() -> None:
    federation = RouterFederation(DIAMOND)
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    federation.subscribe("delta")
    federation.settle()
    federation.cut("alpha", "gamma")
    federation.cut("gamma", "delta")
    federation.publish("alpha", "m", depth=4, receipt="ALL")
    federation.settle()
    federation.join("alpha", "gamma")
    federation.settle()
    federation.join("gamma", "delta")
    federation.settle()
    federation.commit("delta", "m")
    federation.settle()
    assert federation.receipts == ["1/1"]


def test_a_question_that_came_before_the_link_went_down_is_still_answered() -> None:
    federation = RouterFederation(DIAMOND)
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    federation.subscribe("delta")
    federation.settle()
    federation.cut("alpha", "gamma")
    federation.publish("alpha", "m", depth=4, receipt="ALL")
    federation.settle()
    federation.cut("gamma", "delta")
    federation.join("alpha", "gamma")
    federation.settle()
    federation.commit("delta", "m")
    federation.join("gamma", "delta")
    federation.settle()
    assert federation.receipts == ["1/1"]


def test_nobody_answers_for_another_peer() -> None:
    federation = RouterFederation({("alpha", "beta"), ("alpha", "gamma")})
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    federation.subscribe("beta")
    federation.settle()
    federation.publish("alpha", "m", depth=1, receipt="ALL")
    [question] = federation.routers["alpha"]._state.asked_of
    forged = TellReceipt("alpha", question, due=9, have=9, closed=True)
    federation._arrive("gamma", "alpha", forged)
    federation.take("alpha")
    federation.settle()
    assert federation.receipts == []
    federation.commit("beta", "m")
    federation.settle()
    assert federation.receipts == ["1/1"]
    assert not federation.routers["alpha"]._state.asked_of


def asked(**headers: str) -> tuple[RouterFederation, dict[str, int]]:
    """Alpha waits for a receipt of beta and of gamma, by whose questions they are named."""
    federation = RouterFederation({("alpha", "beta"), ("alpha", "gamma")})
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    for site in ("beta", "gamma"):
        federation.subscribe(site)
    federation.settle()
    federation.publish("alpha", "m", depth=1, receipt="ALL", **headers)
    return federation, {peer: query for query, peer in federation.routers["alpha"]._state.asked_of.items()}


def answer(federation: RouterFederation, peer: str, query: int, have: int, due: int, *, closed: bool) -> None:
    federation._arrive(peer, "alpha", TellReceipt("alpha", query, due, have, closed))
    federation.take("alpha")


@pytest.mark.parametrize(
    ("have", "due"), [(99, -7), (-1, 2), (-7, -7), (3, 2), (0, COUNT_MAX + 1), (2**63, 2**63)]
)
def test_counts_that_cannot_be_are_refused_and_the_receipt_still_closes(have: int, due: int) -> None:
    federation, questions = asked()
    answer(federation, "gamma", questions["gamma"], 1, 2, closed=False)
    answer(federation, "beta", questions["beta"], 1, 1, closed=True)
    for closed in (False, True):
        with pytest.raises(Refusal, match=f"{have}/{due} is no count"):
            answer(federation, "gamma", questions["gamma"], have, due, closed=closed)
    federation.take("alpha")
    assert federation.receipts == ["2/3"]
    assert not federation.routers["alpha"]._state.asked_of


def test_a_message_for_one_is_due_to_one() -> None:
    federation = RouterFederation({("alpha", "beta")})
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    federation.subscribe("beta")
    federation.settle()
    federation.publish("alpha", "m", delivery="ONE", depth=1, receipt="ONE")
    [question] = federation.routers["alpha"]._state.asked_of
    with pytest.raises(Refusal, match="2/2 is no count of subscriptions, of 1 at most"):
        answer(federation, "beta", question, 2, 2, closed=True)
    federation.take("alpha")
    assert federation.receipts == ["0/1"]


def test_a_sum_over_peers_is_no_more_than_a_peer_may_say() -> None:
    federation, questions = asked()
    answer(federation, "beta", questions["beta"], COUNT_MAX, COUNT_MAX, closed=True)
    answer(federation, "gamma", questions["gamma"], 5, COUNT_MAX, closed=True)
    assert federation.receipts == [f"{COUNT_MAX}/{COUNT_MAX}"]
