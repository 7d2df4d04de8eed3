"""The states of a copy, and what each event makes of it: the table of `routing.copy_events`, as values.

    state     who may still have it                                      once nobody is due
    delayed   nobody before its delay ends; it is to be routed then      it waits for that
    to one    one subscription, here or at another site                  it ends
    to all    the subscriptions it was due to when it came, and peers    it ends
    kept      the same, and whoever joins before its timeout ends        it waits for those
    left      subscriptions that had received it when that ended         it ends
    ended     nobody

`TRANSITIONS` says what each event makes of a copy in each state; what is not in it cannot happen. A copy's
state is in the flags of its `Entry`. Source: routing contract 5 and 7.
"""

from typing import Final, Literal, get_args

from routing.queue import DELAYED, EXPIRED, GONE, ONE, STATED, Entry

CopyState = Literal["delayed", "to one", "to all", "kept", "left", "ended"]

CopyEvent = Literal[
    "routed",
    "joined",
    "sent",
    "destined",
    "settled",
    "done",
    "undone",
    "answered",
    "arrived",
    "returned",
    "timed out",
    "taken away",
]
"""What happens to a copy:

routed      its delay has ended: it is due to whom it would be if it came now
joined      a subscription that came late is due to have it, too
sent        it is on its way to one more peer, which is to answer for it; in mode ALL
destined    this site is to see to one more site that is to have it; in mode ALL
settled     all that it is due to for now are counted
done        a subscription has finished it, or never will; or, in mode ONE, it is another site's now
undone      a subscription had finished it, which did not come true; where it ended so, it is as it was before
answered    a peer has answered for what it was sent, in mode ALL
arrived     one of these sites has it, or is not to have it any more
returned    who had it gives it back
timed out   its timeout has ended
taken away  it is removed or dropped, whoever has it
"""

StateAfter = Literal[CopyState, "as it came", "as before"]
"""`as it came`: by its mode and its timeout; `as before`: in the state that it ended from."""

TRANSITIONS: Final[dict[CopyState, dict[CopyEvent, tuple[StateAfter, int]]]] = {
    # state: {event: (state after it, how many more are due)}
    "delayed": {
        "routed": ("as it came", 0),
        "taken away": ("ended", 0),
    },
    "to one": {
        "settled": ("to one", 0),
        "done": ("to one", -1),
        "undone": ("to one", 1),
        "returned": ("to one", 0),
        "timed out": ("left", 0),
        "taken away": ("ended", 0),
    },
    "to all": {
        "sent": ("to all", 1),
        "destined": ("to all", 1),
        "settled": ("to all", 0),
        "done": ("to all", -1),
        "undone": ("to all", 1),
        "answered": ("to all", -1),
        "arrived": ("to all", -1),
        "returned": ("to all", 0),
        "timed out": ("left", 0),
        "taken away": ("ended", 0),
    },
    "kept": {
        "joined": ("kept", 1),
        "sent": ("kept", 1),
        "destined": ("kept", 1),
        "settled": ("kept", 0),
        "done": ("kept", -1),
        "undone": ("kept", 1),
        "answered": ("kept", -1),
        "arrived": ("kept", -1),
        "returned": ("kept", 0),
        "timed out": ("left", 0),
        "taken away": ("ended", 0),
    },
    "left": {
        "settled": ("left", 0),
        "done": ("left", -1),
        "undone": ("left", 1),
        "answered": ("left", 0),
        "arrived": ("left", 0),
        "returned": ("left", -1),
        "taken away": ("ended", 0),
    },
    "ended": {
        "undone": ("as before", 1),
    },
}

DUE_TO_NOBODY: Final[dict[CopyState, CopyState]] = {
    "delayed": "delayed",
    "to one": "ended",
    "to all": "ended",
    "kept": "kept",
    "left": "ended",
    "ended": "ended",
}
"""What a state becomes, by itself, once nobody is due."""

STATE_FLAGS: Final = DELAYED | ONE | STATED | EXPIRED | GONE


def state_of(flags: int) -> CopyState:
    """The state of a copy with these `Entry.flags`."""
    if flags & GONE:
        return "ended"
    if flags & EXPIRED:
        return "left"
    if flags & DELAYED:
        return "delayed"
    if flags & ONE:
        return "to one"
    return "kept" if flags & STATED else "to all"


def is_on_offer(entry: Entry) -> bool:
    """Whether others than those who have received a copy may still have it.

    They may not once it has ended, or its timeout has, in the states `ended` and `left`.
    """
    return not entry.flags & (GONE | EXPIRED)


def has_timed_out(entry: Entry) -> bool:
    """Whether a copy's timeout has ended: only those who had received it then may still finish it."""
    return bool(entry.flags & EXPIRED)


def is_kept(entry: Entry) -> bool:
    """Whether a copy is kept for those who join before its timeout ends, in the state `kept`."""
    return entry.flags & _KEPT_FLAGS == STATED


def due_at_first(subscriptions: int, *, one: bool) -> int:
    """As how many those count to whom a copy is due as it comes: in mode ONE as one, whoever that will be."""
    return 1 if one else subscriptions


_KEPT_FLAGS: Final = DELAYED | ONE | STATED | GONE

_STATES: Final = {flags: state_of(flags) for flags in range(STATE_FLAGS + 1) if flags & STATE_FLAGS == flags}


def _after(flags: int, event: CopyEvent) -> tuple[CopyState, int]:
    after, more = TRANSITIONS[_STATES[flags]][event]
    if after == "as before":
        after = _STATES[flags & ~GONE]
    elif after == "as it came":
        after = _STATES[flags & ~DELAYED]
    return after, more


AFTER: Final = {
    event: {flags: _after(flags, event) for flags, state in _STATES.items() if event in TRANSITIONS[state]}
    for event in get_args(CopyEvent)
}
"""The same table by event and `STATE_FLAGS`."""
