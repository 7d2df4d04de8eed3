"""Where a transaction that finds no room is cut in two."""

from daemon.broker.inputs import ends_of_inputs
from routing.decisions import INPUT_END, Decision, DropSetAside, Together


def test_a_transaction_ends_between_inputs_and_never_inside_what_comes_true_together() -> None:
    some = DropSetAside("a.example/1-1-1")
    alone: list[Decision] = [some, some, INPUT_END]
    together: list[Decision] = [
        Together(begins=True),
        INPUT_END,
        some,
        INPUT_END,
        some,
        Together(begins=False),
        INPUT_END,
    ]
    assert list(ends_of_inputs([*alone, *together, *alone, some])) == [3, 10, 13]
