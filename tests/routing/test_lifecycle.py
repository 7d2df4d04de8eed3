"""The table of a copy's life alone, judged by what routing contract 5 says of who may have a message."""

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from routing import copy_events
from routing.copy_states import DUE_TO_NOBODY, TRANSITIONS, CopyEvent, CopyState, due_at_first, state_of
from routing.queue import DELAYED, EXPIRED, GONE, GUARANTEED, ONE, STATED, Entry
from tests.support.examples import examples

IN_STATE: dict[CopyState, int] = {
    "delayed": DELAYED | ONE,
    "to one": ONE | STATED,
    "to all": 0,
    "kept": STATED,
    "left": EXPIRED,
    "ended": GONE,
}


HAPPENS: dict[CopyEvent, Callable[[Entry], bool | None]] = {
    "joined": copy_events.joined,
    "sent": copy_events.sent,
    "destined": copy_events.destined,
    "settled": copy_events.settled,
    "done": copy_events.done,
    "undone": copy_events.undone,
    "answered": copy_events.answered,
    "arrived": copy_events.arrived,
    "returned": copy_events.returned,
}


def happen(entry: Entry, event: CopyEvent, received: int = 0) -> bool:
    """Have something happen to a copy; whether it has ended, as is told."""
    if event == "timed out":
        return copy_events.timed_out(entry, received)
    if event == "taken away":
        copy_events.taken_away(entry)
        return True
    if event == "routed":
        copy_events.routed(entry, entry.due, is_stated=False)
        return False
    return bool(HAPPENS[event](entry))


def copy(flags: int, due: int) -> Entry:
    return Entry(1, None, "a.example/1-1-1", 0, 0, GUARANTEED | flags, due, 2_000.0)


@pytest.mark.parametrize("event", get_args(CopyEvent))
@pytest.mark.parametrize("state", get_args(CopyState))
def test_what_cannot_happen_is_refused_and_changes_nothing(state: CopyState, event: CopyEvent) -> None:
    entry = copy(IN_STATE[state], 2)
    assert state_of(entry.flags) == state
    if event in TRANSITIONS[state]:
        after, more = TRANSITIONS[state][event]
        if after in ("as before", "as it came"):
            after = state_of(copy(IN_STATE[state] & ~(GONE | DELAYED), 2).flags)
        ended = happen(entry, event, received=5)
        assert (state_of(entry.flags), entry.due) == (after, 5 if event == "timed out" else 2 + more)
        assert ended == (after == "ended")
    else:
        with pytest.raises(KeyError):
            happen(entry, event)
        assert (state_of(entry.flags), entry.due) == (state, 2)


@pytest.mark.parametrize("state", get_args(CopyState))
def test_without_anyone_due_only_what_is_kept_for_late_subscribers_goes_on(state: CopyState) -> None:
    assert DUE_TO_NOBODY[state] == (state if state in ("kept", "delayed") else "ended")
    if "done" in TRANSITIONS[state]:
        entry = copy(IN_STATE[state], 1)
        assert happen(entry, "done") == (state != "kept")


@pytest.mark.parametrize("due", [0, 3])
@pytest.mark.parametrize("is_stated", [False, True])
@pytest.mark.parametrize("mode", [0, ONE])
def test_what_was_delayed_is_as_if_it_came_when_that_ends(mode: int, is_stated: bool, due: int) -> None:
    """It has not ended before `settled`, as peers may be counted yet."""
    entry = copy(DELAYED | mode, 1)
    copy_events.routed(entry, due, is_stated=is_stated)
    assert (state_of(entry.flags), entry.due) == (
        "to one" if mode else "kept" if is_stated else "to all",
        due,
    )
    if not mode:
        assert happen(entry, "settled") == (not is_stated and not due)


def test_whoever_gives_back_what_has_expired_is_not_to_finish_it_any_more() -> None:
    entry = copy(EXPIRED, 2)
    assert [happen(entry, "returned"), happen(entry, "returned")] == [False, True]


@pytest.mark.parametrize("happens", [copy_events.taken_back, copy_events.arrived_by_answer])
def test_what_others_are_counted_besides_cannot_end_a_copy(happens: Callable[[Entry], None]) -> None:
    entry = copy(0, 2)
    happens(entry)
    assert (state_of(entry.flags), entry.due) == ("to all", 1)
    with pytest.raises(AssertionError):
        happens(entry)


class Life(RuleBasedStateMachine):
    """One copy, those whom it is due to by name, and what the contract says of both."""

    @initialize(
        mode=st.sampled_from(["ONE", "ALL"]),
        timeout=st.sampled_from(["none stated", "stated", "without end"]),
        subscriptions=st.integers(0, 3),
        peers=st.integers(0, 2),
        is_delayed=st.booleans(),
    )
    def begin(self, mode: str, timeout: str, subscriptions: int, peers: int, *, is_delayed: bool) -> None:
        self.one, self.timeout = mode == "ONE", timeout
        self.unfinished = {f"s{n}" for n in range(subscriptions)}
        self.received: set[str] = set()
        self.peers: set[str] = set()
        self.sites: set[str] = set()  # that it is to be seen to
        self.named = subscriptions
        self.over = False  # its timeout has ended
        self.finished_by_one = self.removed = False
        mode_flag, is_stated = ONE if self.one else 0, timeout != "none stated"
        due = due_at_first(subscriptions, one=self.one)
        if is_delayed:
            self.copy = copy(mode_flag | DELAYED, 1)
            copy_events.routed(self.copy, due, is_stated=is_stated)
        else:
            self.copy = copy(mode_flag | (STATED if is_stated else 0), due)
        for _ in range(0 if self.one else peers):
            self.send()
        self.told_ended = [happen(self.copy, "settled")]

    def _happen(self, event: CopyEvent, received: int = 0) -> None:
        self.told_ended.append(happen(self.copy, event, received))

    def _must_be_held(self) -> bool:
        """Contract 5, How long; and a message is its reader's once it has said RECEIVED."""
        if self.removed:
            return False
        if self.over:
            return bool(self.unfinished & self.received) and not self.finished_by_one
        if self.one:
            return not self.finished_by_one
        return self.timeout != "none stated" or bool(self.unfinished or self.peers or self.sites)

    def _those_who_may_finish(self) -> list[str]:
        return sorted(self.unfinished & self.received if self.over else self.unfinished)

    # -- subscriptions -----------------------------------------------------------------------------

    @precondition(lambda self: self._must_be_held())
    @rule()
    def somebody_subscribes(self) -> None:
        """Late: it is due what has a stated timeout that has not ended, and nothing else."""
        name = f"s{self.named}"
        self.named += 1
        if self.one:
            self.unfinished.add(name)  # who takes one may come at any time
        elif self.timeout != "none stated" and not self.over:
            self._happen("joined")
            self.unfinished.add(name)
        else:
            with pytest.raises(KeyError):
                happen(self.copy, "joined")

    @precondition(lambda self: self._must_be_held())
    @rule(index=st.integers(0, 9))
    def received_by_one(self, index: int) -> None:
        """In mode ONE by nobody else while one has it."""
        may = self._those_who_may_finish()
        if may and not (self.one and self.received):
            self.received.add(may[index % len(may)])

    @precondition(lambda self: self._must_be_held())
    @rule(index=st.integers(0, 9))
    def done_by_one(self, index: int) -> None:
        """Committed, buried, or given up with its subscription."""
        may = self._those_who_may_finish()
        if may and not (self.one and self.received and may[index % len(may)] not in self.received):
            self._happen("done")
            self.unfinished.discard(may[index % len(may)])
            self.finished_by_one = self.one

    @precondition(lambda self: self._must_be_held())
    @rule()
    def finishing_does_not_come_true(self) -> None:
        """A commit that could not be stored leaves the copy as it was, also where it was the last."""
        if self._those_who_may_finish():
            before = state_of(self.copy.flags)
            happen(self.copy, "done")
            assert not happen(self.copy, "undone")
            assert state_of(self.copy.flags) == before

    @precondition(lambda self: self._must_be_held())
    @rule(index=st.integers(0, 9))
    def given_back(self, index: int) -> None:
        """It goes to the next, and after its timeout to nobody."""
        if has := sorted(self.received & self.unfinished):
            self.received.discard(has[index % len(has)])
            self._happen("returned")

    # -- peers -------------------------------------------------------------------------------------

    @precondition(lambda self: self._must_be_held())
    @rule()
    def send(self) -> None:
        """To one more peer: in mode ALL, and not after the timeout."""
        if self.one or self.over:
            with pytest.raises(KeyError):
                happen(self.copy, "sent")
        else:
            self.peers.add(f"p{self.named}")
            self.named += 1
            happen(self.copy, "sent")

    @precondition(lambda self: self._must_be_held() and self.peers)
    @rule()
    def a_peer_answers(self) -> None:
        self.peers.pop()
        self._happen("answered")

    @precondition(lambda self: self._must_be_held())
    @rule()
    def see_to(self) -> None:
        """To one more site, wherever it is: in mode ALL, and not after the timeout."""
        if self.one or self.over:
            with pytest.raises(KeyError):
                happen(self.copy, "destined")
        else:
            self.sites.add(f"d{self.named}")
            self.named += 1
            happen(self.copy, "destined")

    @precondition(lambda self: self._must_be_held() and self.sites)
    @rule()
    def a_site_has_it(self) -> None:
        self.sites.pop()
        self._happen("arrived")

    @precondition(lambda self: self._must_be_held() and self.one and not self.over and not self.received)
    @rule()
    def another_site_has_it(self) -> None:
        self.finished_by_one = True
        self._happen("done")

    # -- time and operators ------------------------------------------------------------------------

    @precondition(lambda self: self._must_be_held() and not self.over and self.timeout != "without end")
    @rule()
    def its_timeout_ends(self) -> None:
        """Stated, or the day that a message of mode ALL waits at most."""
        if not (self.one and self.timeout == "none stated"):
            self.over = True
            self._happen("timed out", received=len(self.received & self.unfinished))

    @precondition(lambda self: self._must_be_held())
    @rule()
    def it_is_removed(self) -> None:
        self.removed = True
        self._happen("taken away")

    @precondition(lambda self: not self._must_be_held())
    @rule(event=st.sampled_from([event for event in get_args(CopyEvent) if event != "undone"]))
    def nothing_happens_to_what_has_ended(self, event: CopyEvent) -> None:
        with pytest.raises(KeyError):
            happen(self.copy, event)

    # -- promises ----------------------------------------------------------------------------------

    @invariant()
    def it_is_held_as_long_as_somebody_may_have_it_and_no_longer(self) -> None:
        assert (state_of(self.copy.flags) != "ended") == self._must_be_held()

    @invariant()
    def it_ends_once_and_says_so(self) -> None:
        assert self.told_ended == [False] * (len(self.told_ended) - 1) + [not self._must_be_held()]

    @invariant()
    def it_is_due_to_those_who_have_still_to_finish_it(self) -> None:
        if self._must_be_held():
            if self.over:
                due = len(self.unfinished & self.received)
            else:
                due = 1 if self.one else len(self.unfinished) + len(self.peers) + len(self.sites)
            assert self.copy.due == due

    def teardown(self) -> None:
        """Everyone finishes, and every peer answers: then only what is kept for others is left."""
        while self.peers and self._must_be_held():
            self.a_peer_answers()
        while self.sites and self._must_be_held():
            self.a_site_has_it()
        while self._must_be_held() and self._those_who_may_finish():
            name = (sorted(self.received & self.unfinished) or self._those_who_may_finish())[0]
            self.done_by_one(self._those_who_may_finish().index(name))
        self.it_is_held_as_long_as_somebody_may_have_it_and_no_longer()
        if self._must_be_held():
            assert not self.over
            assert self.one or self.timeout != "none stated"


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=examples(400), stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
