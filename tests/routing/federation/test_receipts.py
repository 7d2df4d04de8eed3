"""Receipts over links that go down while questions are on their way."""

from routing.federation.decisions import TellReceipt
from tests.support.sites import Federation

DIAMOND = {("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma"), ("gamma", "delta")}


def test_a_copy_that_became_wider_while_the_link_was_down_is_counted_once() -> None:
    federation = Federation(DIAMOND)
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
    federation = Federation(DIAMOND)
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
    federation = Federation({("alpha", "beta"), ("alpha", "gamma")})
    federation.subscribe("alpha", "x:publisher@alpha", "publisher")
    federation.subscribe("beta")
    federation.settle()
    federation.publish("alpha", "m", depth=1, receipt="ALL")
    [question] = federation.routers["alpha"].state.asked_of
    forged = TellReceipt("alpha", question, due=9, have=9, closed=True)
    federation._arrive("gamma", "alpha", forged)
    federation.take("alpha")
    federation.settle()
    assert federation.receipts == []
    federation.commit("beta", "m")
    federation.settle()
    assert federation.receipts == ["1/1"]
    assert not federation.routers["alpha"].state.asked_of
