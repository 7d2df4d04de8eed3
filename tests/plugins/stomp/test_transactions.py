from functools import partial

import pytest

from plugins.stomp.settings import StompSettings
from plugins.stomp.transactions import Transactions
from routing.errors import Refusal


def test_steps_come_back_in_their_order_at_the_end() -> None:
    done: list[int] = []
    transactions = Transactions(StompSettings())
    transactions.begin("t")
    for number in range(3):
        transactions.add("t", partial(done.append, number))
    for step in transactions.end("t"):
        step()
    assert done == [0, 1, 2]


def test_transactions_are_told_apart() -> None:
    transactions = Transactions(StompSettings())
    transactions.begin("a")
    transactions.begin("b")
    transactions.add("a", lambda: None)
    assert transactions.end("b") == []
    assert len(transactions.end("a")) == 1


@pytest.mark.parametrize("call", ["end", "add"])
def test_one_that_is_not_open_cannot_be_used(call: str) -> None:
    transactions = Transactions(StompSettings())
    transactions.begin("t")
    transactions.end("t")
    with pytest.raises(Refusal, match="not open"):
        transactions.end("t") if call == "end" else transactions.add("t", lambda: None)


def test_one_cannot_be_opened_twice() -> None:
    transactions = Transactions(StompSettings())
    transactions.begin("t")
    with pytest.raises(Refusal, match="open already"):
        transactions.begin("t")


def test_their_number_their_frames_and_their_bytes_are_bounded() -> None:
    settings = StompSettings(transactions_max=2, transaction_frames_max=3, transaction_bytes_max=10)
    transactions = Transactions(settings)
    transactions.begin("a")
    transactions.begin("b")
    with pytest.raises(Refusal, match="2 transactions"):
        transactions.begin("c")
    transactions.add("a", lambda: None, 6)
    with pytest.raises(Refusal, match="10 bytes"):
        transactions.add("b", lambda: None, 5)
    transactions.add("b", lambda: None, 4)
    transactions.add("b", lambda: None)
    with pytest.raises(Refusal, match="3 frames"):
        transactions.add("b", lambda: None)


def test_what_has_ended_counts_no_more() -> None:
    transactions = Transactions(StompSettings(transactions_max=1, transaction_bytes_max=10))
    for _ in range(3):
        transactions.begin("t")
        transactions.add("t", lambda: None, 10)
        transactions.end("t")
    transactions.begin("t")
    transactions.abort_all()
    transactions.begin("t")
