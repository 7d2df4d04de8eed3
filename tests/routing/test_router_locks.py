"""Locks, and two phases: who has a message, until when. Source: routing contract 3 and 5."""

from typing import Any

import msgspec
import pytest

from routing.decisions import Deliver
from routing.errors import Refusal
from routing.options import SubscribeOptions
from tests.support.one_router import Got, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite()


def lost(request: Any, *got: Got) -> str:
    with pytest.raises(Refusal) as refused:
        request(*got)
    assert refused.value.code == Refusal.LOCK_LOST
    return refused.value.text


def test_a_lock_that_times_out_passes_the_message_to_the_next(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("jobs"), site.login("bob").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    late = ada.one()
    site.wait(61)
    assert [(got.body, got.attempt) for got in bob.take()] == [("work", 2)]
    assert ada.withdrawn == [(late.number, "lock-timeout")]
    lost(ada.commit, late)


def test_a_subscription_may_state_its_own_lock(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("jobs", lock_s=5.0)
    site.login("eva").publish("jobs", "work")
    assert ada.one().attempt == 1
    site.wait(4)
    assert ada.take() == []
    site.wait(2)
    assert ada.one().attempt == 2


@pytest.mark.parametrize("of_the_site", [False, True])
def test_a_lock_that_is_stated_shorter_meanwhile_ends_before_those_that_began_earlier(
    site: RouterSite, of_the_site: bool
) -> None:
    ada, eva = site.login("ada"), site.login("eva")

    def state(lock_s: float) -> None:
        if of_the_site:
            site.router.reconfigure(msgspec.structs.replace(site.settings, lock_s=lock_s))
        else:
            ada.subscribe("jobs", lock_s=lock_s)

    ada.subscribe("jobs")
    for lock_s in (1_000.0, 5.0):
        state(lock_s)
        eva.publish("jobs", f"for {lock_s:g} s")
    long, short = ada.take()
    site.wait(6)
    assert ada.withdrawn == [(short.number, "lock-timeout")]
    again = ada.one()
    assert (again.body, again.attempt) == ("for 5 s", 2)
    ada.commit(long, again)
    assert site.held == 0


def test_all_locks_are_looked_at_only_while_one_ends_before_others_that_began_earlier(
    site: RouterSite,
) -> None:
    ada, eva = site.login("ada"), site.login("eva")

    def lock_for(lock_s: float) -> Got:
        ada.subscribe("jobs", lock_s=lock_s)
        eva.publish("jobs", f"for {lock_s:g} s")
        return ada.one()

    first, second = lock_for(1_000.0), lock_for(2_000.0)
    [subscription] = site.router._state.locking
    assert not subscription.locks_cross, "what lasts longer ends later anyway"
    short, shorter = lock_for(10.0), lock_for(5.0)
    site.wait(6)
    assert ada.withdrawn == [(shorter.number, "lock-timeout")]
    ada.commit(ada.one())
    site.wait(5)
    assert ada.withdrawn[1:] == [(short.number, "lock-timeout")]
    ada.commit(first, second)
    site.router.timing.tick(site.now)
    assert subscription.locks, "it is never idle"
    assert not subscription.locks_cross


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_a_subscriber_whose_lock_timed_out_gets_what_waits_next(site: RouterSite, mode: str) -> None:
    ada, eva = site.login("ada").subscribe("jobs", credit=1), site.login("eva")
    eva.publish("jobs", "first", delivery=mode)
    eva.publish("jobs", "second", delivery=mode)
    assert ada.bodies() == ["first"]
    site.wait(61)
    assert ada.bodies() == ["first"]
    site.wait(60)
    assert ada.bodies() == ["second"], "the first waits a moment, since ada alone could take it"
    site.wait(60)
    assert ada.bodies() == ["first"]


def test_what_was_received_does_not_time_out(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("jobs"), site.login("bob").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    got = ada.one()
    ada.received(got)
    site.wait(100_000)
    assert bob.take() == []
    ada.commit(got)


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_was_received_comes_again_to_the_same_subscription_and_says_so(
    site: RouterSite, mode: str
) -> None:
    ada, bob = site.login("ada").subscribe("jobs", credit=2), site.login("bob")
    eva = site.login("eva")
    for body in "ab":
        eva.publish("jobs", body, delivery=mode)
    a, _ = ada.take()
    ada.received(a)
    bob.subscribe("jobs", accepts="ONE")
    ada.close()
    assert bob.bodies() == (["b"] if mode == "ONE" else [])
    again = site.login("ada").subscribe("jobs", credit=2).take()
    assert [(g.body, g.received) for g in again] == [("a", True)] + ([("b", False)] if mode == "ALL" else [])


def test_what_was_received_survives_a_restart_and_can_be_committed_then(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("jobs"), site.login("eva")
    smuid = eva.publish("jobs", "work", delivery="ONE")
    ada.received(ada.one())
    site.restart()
    bob = site.login("bob").subscribe("jobs")
    ada = site.login("ada").subscribe("jobs")
    assert bob.take() == []
    got = ada.one()
    assert got.received
    ada.commit(got)
    assert site.fate(smuid)[-1] == "committed!"
    assert site.held == 0


def test_receiving_twice_is_answered_twice(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("jobs")
    site.login("eva").publish("jobs", "work")
    got = ada.one()
    ada.received(got)
    ada.received(got)
    ada.commit(got)


def test_a_lock_that_was_lost_is_told_after_the_others_are_done(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("jobs"), site.login("eva")
    smuids = [eva.publish("jobs", body) for body in "ab"]
    a, b = ada.take()
    ada.commit(a)
    assert str(a.number) in lost(ada.commit, a, b)
    assert site.fate(smuids[1])[-1] == "committed!"


def test_a_session_cannot_finish_what_another_holds(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("jobs"), site.login("bob").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    [holder, other] = [ada, bob]
    got = holder.one()
    for request in (other.commit, other.received, other.give_back):
        lost(request, got)


def test_what_comes_again_as_received_says_so_though_it_is_removed_at_the_same_moment(
    site: RouterSite,
) -> None:
    bob = site.login("bob").subscribe("t")
    ada = site.login("ada")
    smuid = ada.publish("t", "a", timeout_s=60.0)
    bob.received(bob.one())
    bob.close()
    router, back = site.router, site.login("bob")
    router.subscribing.subscribe(site.now, back.consumer, "t", SubscribeOptions(), None)
    router.topics.remove(site.now, ada.consumer, "t", smuid, None)
    [deliver] = [one for one in router.take() if isinstance(one, Deliver)]
    assert deliver.lock is not None
    assert deliver.lock.received
