"""What `routing.fate` makes of a copy, in the words of the jobs' balance: both are to say the same."""

from typing import Literal

from routing.fate import Fate

BalanceState = Literal["finished", "held", "gone", "lost", "log missing", "unknown"]
"""What all copies of a message add up to."""


def balance_state(fate: Fate) -> BalanceState:
    """What a fate is in the balance; `log missing` where a doubt stands in its way.

    That a copy is lost no log of its own can say.
    """
    if fate.ended is not None:
        return "finished"
    if fate.state == "gone":
        return "gone"
    if fate.state == "unknown":
        return "log missing"
    return "held" if fate.began is not None else "unknown"
