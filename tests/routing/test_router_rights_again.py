"""A right to some topics of a pattern goes and comes again: what comes with it, and what does not."""

import math
from collections import Counter

import pytest

from routing.had_before import PATTERNS_MAX
from routing.joining import OFFERED_MAX
from tests.routing.test_router_patterns import AdaMay, reload
from tests.support.one_router import RouterSite

RESTARTS = pytest.mark.parametrize("restarts", ["never", "while it is away", "when it is back"])


class RightsThatChange:
    """A site at which ada follows `a.#`, of which she may have all until `go`, and again from `come`."""

    def __init__(self, restarts: str = "never") -> None:
        self._restarts = restarts
        self._rights = AdaMay("#")
        self.site = RouterSite(self._rights)
        self.bob = self.site.login("bob")
        self.ada = self.site.login("ada").subscribe("a.#")

    def go(self, *left: str) -> None:
        """Leave to ada only these topics."""
        self._set(*(left or ("a.c",)))
        if self._restarts == "while it is away":
            self.restart()

    def come(self) -> None:
        self._set("#")
        if self._restarts == "when it is back":
            self.restart()

    def _set(self, *patterns: str) -> None:
        self._rights.set(*patterns)
        reload(self.site)

    def restart(self) -> None:
        self.site.restart()
        self.ada = self.site.login("ada").subscribe("a.#")


@RESTARTS
def test_what_is_kept_and_was_committed_does_not_come_again_with_the_right(restarts: str) -> None:
    rights = RightsThatChange(restarts)
    for body in ("committed", "waits"):
        rights.bob.publish("a.b", body, timeout_s=math.inf)
    committed, waits = rights.ada.take()
    rights.ada.commit(committed)
    rights.ada.give_back(waits, delay_s=1.0)
    rights.ada.pause()
    rights.site.wait(2)
    rights.go()
    rights.bob.publish("a.b", "new", timeout_s=math.inf)
    rights.come()
    rights.ada.resume()
    assert sorted(rights.ada.bodies()) == ["new", "waits"]


def test_what_is_kept_and_committed_while_the_right_is_away_does_not_come_again_with_it() -> None:
    rights = RightsThatChange()
    for body in ("1", "2"):
        rights.bob.publish("a.b", body, timeout_s=math.inf)
    first, second = rights.ada.take()
    rights.go()
    rights.ada.commit(first)
    rights.ada.give_back(second)
    assert rights.ada.take() == []
    rights.go("a.c", "a.d")  # another change of rights leaves it away
    rights.come()
    assert rights.ada.bodies() == ["2"]


def test_all_that_is_new_comes_though_the_right_goes_again_before_all_is_offered() -> None:
    """How far the offer had come then is not known: what was committed may come once more."""
    rights = RightsThatChange()
    for body in range(4_500):
        rights.bob.publish(f"a.{body}", str(body), timeout_s=math.inf)
        rights.ada.commit(*rights.ada.take())
    rights.go()
    for body in range(4_500):
        rights.bob.publish(f"a.new.{body}", f"new {body}", timeout_s=math.inf)
    for _ in range(2):
        rights.come()
        rights.go()
    rights.come()
    rights.ada.subscribe("a.#", credit=10_000)
    rights.site.wait(1)
    times = Counter(rights.ada.bodies())
    assert all(times[f"new {body}"] == 1 for body in range(4_500))
    assert max(times.values()) == 1


def test_many_changes_of_rights_do_not_bring_again_what_was_committed() -> None:
    rights = RightsThatChange()
    rights.bob.publish("a.b", "committed", timeout_s=math.inf)
    rights.ada.commit(rights.ada.one())
    for number in range(PATTERNS_MAX // 4):
        rights.go(f"a.{number}.*", "a.c")
    rights.go("a.c")
    rights.come()
    assert rights.ada.take() == []


def test_a_delayed_message_that_comes_while_the_right_is_away_comes_with_it() -> None:
    rights = RightsThatChange()
    rights.bob.publish("a.b", "delayed", timeout_s=math.inf, delay_s=10.0)
    rights.go()
    rights.site.wait(20)
    assert rights.ada.take() == []
    rights.come()
    assert rights.ada.bodies() == ["delayed"]


@pytest.mark.parametrize("other", ["a.b", "*.b"])
def test_what_another_of_ones_own_had_not_taken_as_it_ended_comes_with_the_right(other: str) -> None:
    rights = RightsThatChange()
    named = rights.site.login("ada").subscribe("a.b", credit=0)
    rights.bob.publish("a.b", "state", timeout_s=math.inf)
    assert (named.take(), rights.ada.take()) == ([], [])
    rights.go()
    rights.come()
    assert rights.ada.bodies() == ["state"]


@RESTARTS
def test_what_came_by_another_of_ones_own_that_has_ended_does_not_come_with_the_right(restarts: str) -> None:
    rights = RightsThatChange(restarts)
    rights.ada.subscribe("a.b")
    rights.bob.publish("a.b", "state", timeout_s=math.inf)
    rights.ada.commit(rights.ada.one())
    rights.go()
    assert ("a.b", "forbidden") in rights.ada.detached or restarts == "while it is away"
    rights.come()
    assert rights.ada.take() == []
    rights.restart()
    assert rights.ada.take() == []


@RESTARTS
def test_what_it_has_locked_when_the_right_goes_is_due_to_it_still(restarts: str) -> None:
    rights = RightsThatChange(restarts)
    smuid = rights.bob.publish("a.b", "in hand")
    got = rights.ada.one()
    rights.go()
    rights.come()
    if restarts == "when it is back":
        got = rights.ada.one()
        assert (got.attempt, got.redelivered) == (1, False)
    if restarts != "while it is away":
        rights.ada.commit(got)
    came = {"while it is away": ["expired!"], "never": ["committed!"], "when it is back": ["committed!"]}
    assert rights.site.fate(smuid)[-1:] == came[restarts]


@pytest.mark.parametrize("given_back", ["before it goes", "while it is away"])
def test_what_was_given_back_and_given_up_with_a_right_comes_not_even_after_a_restart(
    given_back: str,
) -> None:
    rights = RightsThatChange()
    rights.bob.subscribe("a.b", credit=0)
    rights.bob.publish("a.b", "given up")
    got = rights.ada.one()
    rights.ada.pause()
    if given_back == "before it goes":
        rights.ada.give_back(got)
    rights.go()
    if given_back == "while it is away":
        rights.ada.give_back(got)
    rights.come()
    for _ in range(2):
        rights.ada.resume()
        assert rights.ada.take() == []
        rights.restart()


def test_what_several_of_ones_own_gain_with_a_right_while_the_site_is_down_comes_once() -> None:
    rights = AdaMay("a.c", "c.b")
    site = RouterSite(rights)
    patterns = ["a.#", "#", "*.b"]
    for pattern in patterns:
        site.login("ada").subscribe(pattern)
    for body in ("first", "second"):
        site.login("bob").publish("a.b", body, timeout_s=math.inf)
    rights.set("#")
    for _ in range(2):
        site.restart()
        ada = site.login("ada")
        for pattern in reversed(patterns):
            ada.subscribe(pattern)
        got = ada.take()
        assert [each.body for each in got] == ["first", "second"]
    ada.commit(*got)
    site.restart()
    ada = site.login("ada")
    for pattern in patterns:
        ada.subscribe(pattern)
    assert ada.take() == []


def test_what_one_has_committed_does_not_come_to_another_of_its_own_that_was_joining_in_a_crash() -> None:
    site = RouterSite(queue_messages_max=10_000)
    ada = site.login("ada").subscribe("a.#", credit=10_000)
    for body in range(OFFERED_MAX + 2):
        site.login("bob").publish("a.b", str(body), timeout_s=math.inf)
    ada.commit(*ada.take())
    ada.subscribe("a.b")
    site.restart()
    assert site.login("ada").subscribe("a.b", credit=10_000).take() == []


def test_a_receipt_counts_who_had_it_in_hand_over_changes_of_rights_and_a_crash() -> None:
    rights = RightsThatChange("when it is back")
    rights.bob.subscribe(rights.bob.address)
    rights.bob.publish("a.b", "state", receipt="ALL")
    rights.ada.one()
    rights.go()
    rights.come()
    bob = rights.site.login("bob").subscribe(rights.bob.address)
    assert bob.receipts() == []
    rights.ada.commit(rights.ada.one())
    assert bob.receipts() == ["1/1"]


@pytest.mark.parametrize("restarts", ["never", "when it is back"])
@pytest.mark.parametrize("changes_again", [False, True])
def test_a_receipt_counts_who_gave_it_back_since_a_right_went_and_came(
    restarts: str, *, changes_again: bool
) -> None:
    rights = RightsThatChange()
    carl = rights.site.login("carl").subscribe("a.#")
    rights.bob.subscribe(rights.bob.address)
    rights.bob.publish("a.b", "state", receipt="ALL")
    rights.ada.one()
    carl.commit(carl.one())
    rights.go()
    rights.come()
    rights.ada.close()
    if changes_again:
        rights.go("a.b", "a.c")  # and leaves it the right to this one
    if restarts != "never":
        rights.restart()
    ada = rights.site.login("ada").subscribe("a.#")
    bob = rights.site.login("bob").subscribe(rights.bob.address)
    assert bob.receipts() == []
    ada.commit(ada.one())
    assert bob.receipts() == ["2/2"]


def test_what_one_has_received_stays_its_own_though_a_crash_met_another_of_its_own_that_was_joining() -> None:
    site = RouterSite(queue_messages_max=10_000)
    ada, bodies = site.login("ada").subscribe("a.#", credit=10_000), [*map(str, range(OFFERED_MAX + 2))]
    for body in bodies:
        site.login("bob").publish("a.b", body, timeout_s=math.inf)
    ada.received(ada.take()[-1])
    ada.subscribe("a.b")  # and a crash before it is stored of all of that how it passes it over
    site.restart()
    by_pattern = site.login("ada").subscribe("a.#", credit=10_000).take()
    by_name = site.login("ada").subscribe("a.b").take()
    assert [(each.body, each.received) for each in by_pattern[:1]] == [(bodies[-1], True)]
    assert sorted(each.body for each in (*by_pattern, *by_name)) == sorted(bodies)
