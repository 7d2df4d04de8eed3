"""What happens to a copy: whom it is due to after that, its state, and whether it has ended.

The table of that is in `routing.copy_states`; `Entry.due` counts those who have still to finish a copy:

    delayed                     1: this site, which is to route it
    in all states but `left`    subscriptions, peers that have still to answer for what they were sent, and
                                sites that it is to be seen to; in mode ONE, 1
    left                        subscriptions that had received it when its timeout ended

There is a function for each event, and two for one where it can end the copy in some places alone. Those that
return nothing cannot end it, but for `taken_away`, which always does. All raise KeyError for what cannot
happen in its state. What ends is taken out by `routing.lifecycle`, which writes the final record.
"""

from routing.copy_states import AFTER, DUE_TO_NOBODY, STATE_FLAGS, CopyEvent, state_of
from routing.queue import DELAYED, EXPIRED, GONE, ONE, STATED, Entry


def _advance(entry: Entry, event: CopyEvent, left_to: int = 0) -> bool:
    """Have something happen to a copy; whether it has ended with that."""
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


def _live_on(entry: Entry, event: CopyEvent) -> None:
    """Have something happen to a copy that cannot end it."""
    ended = _advance(entry, event)
    assert not ended


# -- it comes -------------------------------------------------------------------------------------


def restored(entry: Entry, subscriptions: int) -> None:
    """Count those that a copy is due to which comes from the store; peers and sites are counted by events."""
    entry.due += subscriptions


def routed(entry: Entry, due: int, *, is_stated: bool) -> None:
    """Have a copy whose delay has ended be due to so many; `settled` is to follow.

    `is_stated`: its timeout was stated, and begins now.
    """
    AFTER["routed"][entry.flags & STATE_FLAGS]  # as for all events, KeyError where it cannot happen
    entry.flags = entry.flags & ~DELAYED | (STATED if is_stated else 0)
    entry.due = due


# -- one more is due ------------------------------------------------------------------------------


def joined(entry: Entry) -> None:
    """Count a subscription that came late and is due to have a copy that is kept, too."""
    _live_on(entry, "joined")


def sent(entry: Entry) -> None:
    """Count a peer that is to answer for a copy of mode ALL."""
    _live_on(entry, "sent")


def destined(entry: Entry) -> None:
    """Count a site that a copy of mode ALL is to be seen to."""
    _live_on(entry, "destined")


def undone(entry: Entry) -> None:
    """Count a subscription again that had finished a copy, which did not come true; it may have ended so."""
    _live_on(entry, "undone")


# -- one less is due ------------------------------------------------------------------------------


def settled(entry: Entry) -> bool:
    """Note that all whom a copy is due to for now are counted; whether it ends, as there are none."""
    return _advance(entry, "settled")


def done(entry: Entry) -> bool:
    """Count a subscription no more, or the site in mode ONE; whether the copy ends, as it was the last."""
    return _advance(entry, "done")


def answered(entry: Entry) -> bool:
    """Count a peer no more that has answered for a copy of mode ALL; whether it ends, as it was the last."""
    return _advance(entry, "answered")


def taken_back(entry: Entry) -> None:
    """Count a peer no more to which a copy has not gone, and is not to go any more.

    That cannot end it: the sites that it was for are counted still, as they are seen to in another way, or
    until `arrived` follows.
    """
    _live_on(entry, "answered")


def arrived(entry: Entry) -> bool:
    """Count a site no more that has a copy, or is not to have it; whether it ends, as it was the last."""
    return _advance(entry, "arrived")


def arrived_by_answer(entry: Entry) -> None:
    """Count a site no more that has a copy as a peer's answer to it tells.

    That cannot end it: the peer is counted until `answered` follows.
    """
    _live_on(entry, "arrived")


def returned(entry: Entry) -> bool:
    """Note that who had a copy gives it back; whether it ends, as its timeout had, and nobody else has it."""
    return _advance(entry, "returned")


# -- whoever is due -------------------------------------------------------------------------------


def timed_out(entry: Entry, received: int) -> bool:
    """Leave a copy to so many who have received it; whether it ends, as there are none."""
    return _advance(entry, "timed out", received)


def taken_away(entry: Entry) -> None:
    """End a copy, whoever has it."""
    _advance(entry, "taken away")


# -- who is due -----------------------------------------------------------------------------------


def is_for_others(entry: Entry, peers: int, sites: int) -> bool:
    """Whether subscriptions may have a copy besides so many peers and sites, by name or because they join.

    `peers`: those that have still to answer for it; `sites`: those that it is to be seen to. What has begun
    to count and is not among them, as while they change, is others, too.
    """
    return state_of(entry.flags) != "to all" or entry.due != peers + sites


def found_nobody(entry: Entry) -> bool:
    """Whether a copy of mode ALL was due to nobody at all, and kept for nobody."""
    return not entry.due and not entry.flags & (ONE | STATED)
