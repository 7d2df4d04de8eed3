"""What happens to a copy: whom it is due to after that, its state, and whether it has ended.

The table of that is in `routing.copy_states`; `Entry.due` counts those who have still to finish a copy:

    in all states but `left`    subscriptions, peers that have still to answer for what they were sent, and
                                sites that it is to be seen to; in mode ONE, 1
    left                        subscriptions that had received it when its timeout ended
"""

from routing.copy_states import AFTER, DUE_TO_NOBODY, STATE_FLAGS, CopyEvent, state_of
from routing.queue import EXPIRED, GONE, ONE, STATED, Entry


def advance(entry: Entry, event: CopyEvent, left_to: int = 0) -> bool:
    """Have something happen to a copy; whether it has ended with that.

    `left_to`: how many have received it, when it times out: it is due to these alone from then on.

    Raises KeyError for what cannot happen in its state.
    """
    after, more = AFTER[event][entry.flags & STATE_FLAGS]
    due = entry.due = left_to if event == "timed out" else entry.due + more
    if due <= 0:
        after = DUE_TO_NOBODY[after]
    if after == "ended":
        entry.flags |= GONE
        return True
    if after == "left":
        entry.flags = entry.flags & ~STATED | EXPIRED
    if event == "undone":
        entry.flags &= ~GONE
    return False


def is_for_others(entry: Entry, peers: int, sites: int) -> bool:
    """Whether subscriptions may have a copy besides so many peers and sites, by name or because they join.

    `peers`: those that have still to answer for it; `sites`: those that it is to be seen to. What has begun
    to count and is not among them, as while they change, is others, too.
    """
    return state_of(entry.flags) != "to all" or entry.due != peers + sites


def found_nobody(entry: Entry) -> bool:
    """Whether a copy of mode ALL was due to nobody at all, and kept for nobody."""
    return not entry.due and not entry.flags & (ONE | STATED)
