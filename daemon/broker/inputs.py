"""Where what one input has brought about ends, among the decisions of many."""

from collections.abc import Iterator

from routing.decisions import INPUT_END, Decision, Together


def ends_of_inputs(every: list[Decision]) -> Iterator[int]:
    """Yield after how many decisions a transaction may end, each time."""
    is_together = False
    for count, decision in enumerate(every, 1):
        if isinstance(decision, Together):
            is_together = decision.begins
        elif decision is INPUT_END and not is_together:
            yield count


def inputs_of(every: list[Decision]) -> Iterator[list[Decision]]:
    """The decisions of each."""
    begin = 0
    for end in ends_of_inputs(every):
        yield every[begin:end]
        begin = end
    if every[begin:]:
        yield every[begin:]
