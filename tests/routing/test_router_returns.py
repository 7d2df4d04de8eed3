"""Giving back, and the dead-letter topic. Source: routing contract 3 and 5."""

import math

import pytest

from routing.state import PARKED_SWEPT_FROM
from tests.support.one_router import RouterClient, RouterSite


@pytest.fixture
def site() -> RouterSite:
    return RouterSite(max_deliveries=4)


def test_what_is_committed_never_comes_again(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news"), site.login("eva")
    smuid = eva.publish("news", "a")
    ada.commit(ada.one())
    ada.close()
    site.wait(3_600)
    site.restart()
    assert site.login("ada").subscribe("news").bodies() == []
    assert site.fate(smuid) == ["published", "delivered", "committed!"]


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
@pytest.mark.parametrize("returns", ["given back", "lock", "detached"])
def test_what_has_reached_nobody_is_no_dead_letter_however_often_it_returns(
    site: RouterSite, mode: str, returns: str
) -> None:
    ada = site.login("ada").subscribe("jobs", durable=True)
    smuid = site.login("eva").publish("jobs", "work", delivery=mode)
    ada.give_back(ada.one())
    for _ in range(20):
        got = ada.one()
        assert got.attempt == 2
        ada.reached_nobody(got)
        if returns == "given back":
            ada.give_back(got)
        elif returns == "lock":
            site.wait(61)
        else:
            ada.detach("jobs")
            ada.subscribe("jobs", durable=True)
    site.restart()
    assert "dead" not in site.fate(smuid)
    assert "dead!" not in site.fate(smuid)


def test_what_is_given_back_goes_to_the_next_with_its_count(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("jobs"), site.login("bob").subscribe("jobs")
    smuid = site.login("eva").publish("jobs", "work", delivery="ONE")
    ada.give_back(ada.one(), reason="not for me")
    assert bob.one().attempt == 2
    [told] = [t for t in site.told if t.event == "returned"]
    assert (told.smuid, told.reason, told.subscription) == (smuid, "not for me", "ada:desk@a.example")


def test_what_is_given_back_goes_to_another_that_came_later(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    got = ada.one()
    bob = site.login("bob").subscribe("jobs")
    ada.give_back(got)
    assert bob.one().attempt == 2
    assert ada.take() == []


def test_what_is_given_back_comes_again_after_the_delay_that_was_asked_for(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("jobs")
    site.login("eva").publish("jobs", "work")
    ada.give_back(ada.one(), delay_s=20)
    site.wait(19)
    assert ada.take() == []
    site.wait(2)
    assert ada.one().attempt == 2


def test_a_delay_without_end_is_cut(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    ada.give_back(ada.one(), delay_s=math.inf)
    site.wait(86_401)
    assert ada.one().attempt == 2


def test_a_message_that_keeps_coming_back_to_the_only_taker_comes_more_and_more_slowly() -> None:
    site = RouterSite(max_deliveries=100)
    ada = site.login("ada").subscribe("jobs")
    site.login("eva").publish("jobs", "work", delivery="ONE")
    pauses = []
    for _ in range(12):
        before = site.now
        while not (got := ada.take()):
            site.wait(site.router.wake_at - site.now)
        pauses.append(site.now - before)
        ada.give_back(*got)
    assert pauses[:2] == [0, 0]
    assert pauses[2:6] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(pauses) == pytest.approx(30)


def test_after_very_many_returns_a_dead_letter_still_comes(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("dead.jobs"), site.login("bob").subscribe("dead.jobs")
    site.login("eva").publish("dead.jobs", "work", delivery="ONE")
    for _ in range(1_100):
        for client in (ada, bob):
            client.give_back(*client.take())
    bob.close()
    ada.give_back(*ada.take())
    site.wait(31)
    ada.commit(ada.one())


def test_what_has_ended_while_it_was_to_come_again_later_takes_no_room(site: RouterSite) -> None:
    bob, eva = site.login("bob").subscribe("jobs"), site.login("eva")
    eva.publish("jobs", "held on", delivery="ONE")
    bob.give_back(bob.one(), delay_s=80_000)
    bob.unsubscribe("jobs")
    ada = site.login("ada").subscribe("jobs", credit=10_000)
    for _ in range(4):
        for _ in range(PARKED_SWEPT_FROM // 2):
            eva.publish("jobs", "for a second", delivery="ONE", timeout_s=1)
        ada.give_back(*ada.take(), delay_s=80_000)
        site.wait(2)
    assert site.held == 1
    assert len(site.router._state.delayed) <= PARKED_SWEPT_FROM
    site.wait(80_000)
    assert ada.bodies() == ["held on"]


def test_nothing_is_remembered_of_what_was_given_back_and_has_ended(site: RouterSite) -> None:
    ada, bob = (site.login(name).subscribe("news", lock_s=100) for name in ("ada", "bob"))
    site.login("eva").publish("news", "hello", timeout_s=10)
    got = bob.one()
    bob.received(got)
    ada.give_back(ada.one(), delay_s=1_000)
    site.wait(11)
    bob.commit(got)
    assert site.held == 0
    assert not any(each.attempts for each in site.router._state.subscriptions.values())


def test_what_is_left_to_another_waits_for_nobody_else(site: RouterSite) -> None:
    ada, bob = (
        site.login("ada").subscribe("news", credit=0),
        site.login("bob").subscribe("news", credit=2_000),
    )
    queue = site.router._state.by_owner["news", ada.address, ""].queue
    eva = site.login("eva")
    for _ in range(1_000):
        eva.publish("news", "hello", timeout_s=10)
    got = bob.take()
    bob.received(*got)
    assert len(list(queue)) == 1_000
    site.wait(11)
    assert (site.held, sum(map(len, queue._lanes.values()))) == (1_000, 0)
    bob.commit(*got)
    assert site.held == 0


def test_two_subscriptions_can_give_one_message_back_in_one_moment(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("news", name="1").subscribe("news", name="2")
    site.login("eva").publish("news", "hello")
    ada.give_back(*ada.take(), delay_s=5)
    site.wait(6)
    assert ada.bodies() == ["hello", "hello"]


def test_a_message_that_failed_too_often_goes_to_the_dead_letter_topic_with_the_reason(
    site: RouterSite,
) -> None:
    ada, eva = site.login("ada").subscribe("jobs"), site.login("eva")
    smuid = eva.publish("jobs", "work", delivery="ONE", others=(("X-Colour", "red"),))
    for attempt in (1, 2, 3, 4):
        site.wait(10)
        got = ada.one()
        assert got.attempt == attempt
        ada.give_back(got, reason=f"broken {attempt}")
    site.wait(100)
    assert ada.take() == []
    assert site.fate(smuid)[-1] == "dead!"
    dead = site.login("ops").subscribe("dead.jobs").one()
    headers = dict(dead.message.others)
    assert dead.body == "work"
    assert dead.message.smuid != smuid
    assert headers == {
        "X-Colour": "red",
        "Dead-Topic": "jobs",
        "Dead-Smuid": smuid,
        "Dead-Account": "eva:desk@a.example",
        "Dead-Subscription": "ada:desk@a.example",
        "Dead-Delivery": "ONE",
        "Dead-Deliveries": "4",
        "Dead-Reason": "broken 4",
    }


def kill(client: RouterClient, site: RouterSite, deliveries: int = 4) -> None:
    for _ in range(deliveries):
        site.wait(10)
        client.give_back(client.one())


def test_of_mode_all_a_copy_is_dead_for_one_subscription_and_alive_for_the_others(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("news"), site.login("bob").subscribe("news", credit=0)
    smuid = site.login("eva").publish("news", "hello")
    kill(ada, site)
    assert site.fate(smuid)[-1] == "dead"
    site.restart()
    bob = site.login("bob").subscribe("news")
    assert site.login("ada").subscribe("news").take() == []
    bob.commit(bob.one())
    assert site.fate(smuid)[-1] == "committed!"
    assert site.login("ops").subscribe("dead.news").bodies() == ["hello"]


def test_dead_letters_are_never_moved_on(site: RouterSite) -> None:
    ada, ops = site.login("ada").subscribe("jobs"), site.login("ops")
    site.login("eva").publish("jobs", "work")
    kill(ada, site)
    ops.subscribe("dead.jobs")
    for attempt in range(1, 20):
        site.wait(31)
        got = ops.one()
        assert (got.topic, got.attempt) == ("dead.jobs", attempt)
        ops.give_back(got)


def test_unsubscribing_passes_what_was_in_hand_to_others(site: RouterSite) -> None:
    ada, bob = site.login("ada").subscribe("jobs"), site.login("bob")
    eva = site.login("eva")
    for body in "abc":
        eva.publish("jobs", body, delivery="ONE")
    a, _, _ = ada.take()
    ada.received(a)
    bob.subscribe("jobs")
    ada.unsubscribe("jobs")
    assert sorted(bob.bodies()) == ["a", "b", "c"]


def test_unsubscribing_ends_what_waited_in_hand_parked_or_queued_for_nobody_else(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("news", credit=2), site.login("eva")
    smuids = [eva.publish("news", body) for body in "abcd"]
    a, b = ada.take()
    ada.received(a)
    ada.give_back(b, delay_s=50)
    ada.unsubscribe("news")
    assert [site.fate(smuid)[-1] for smuid in smuids] == ["expired!"] * 4
    assert (site.held, site.router._state.topics) == (0, {})
    site.wait(100)


def test_counts_of_returns_survive_a_restart(site: RouterSite) -> None:
    ada, eva = site.login("ada").subscribe("jobs"), site.login("eva")
    eva.publish("jobs", "one", delivery="ONE")
    eva.publish("jobs", "all", delivery="ALL")
    ada.give_back(*ada.take())
    site.restart()
    ada = site.login("ada").subscribe("jobs")
    assert {(got.body, got.attempt) for got in ada.take()} == {("one", 2), ("all", 2)}


def send(site: RouterSite, *bodies: str, topic: str = "jobs") -> None:
    for body in bodies:
        site.login("eva").publish(topic, body, delivery="ONE")


def test_who_leaves_in_good_order_has_failed_in_nothing(site: RouterSite) -> None:
    send(site, *"abc")
    for _ in range(40):
        ada = site.login("ada").subscribe("jobs", durable=False)
        assert ada.bodies() == ["a", "b", "c"]
        ada.close()
    site.restart()
    got = site.login("bob").subscribe("jobs").take()
    assert [(g.body, g.attempt, g.redelivered) for g in got] == [(body, 1, True) for body in "abc"]


def test_who_is_lost_has_failed_in_what_it_may_have_begun(site: RouterSite) -> None:
    send(site, *"abcdef")
    ada = site.login("ada").subscribe("jobs")
    ada.take()
    ada.close(lost=True)
    bob = site.login("bob").subscribe("jobs")
    got = bob.take()
    assert "".join(g.body for g in got) == "abcdef"
    assert [g.attempt for g in got] == [2, 1, 1, 1, 1, 1]
    bob.commit(got[2])  # so it works on three at once
    bob.close(lost=True)
    site.wait(1)
    got = site.login("cyd").subscribe("jobs").take()
    assert [(g.body, g.attempt) for g in got] == [("a", 3), ("b", 2), ("d", 2), ("e", 1), ("f", 1)]
    assert all(g.redelivered for g in got)
    reasons = {t.reason for t in site.told if t.event == "returned"}
    assert reasons == {"connection lost"}


@pytest.mark.parametrize("mode", ["ONE", "ALL"])
def test_what_comes_back_stands_where_it_stood(mode: str) -> None:
    site = RouterSite(max_deliveries=16)
    ada, eva = site.login("ada").subscribe("jobs"), site.login("eva")
    for body in "012345":
        eva.publish("jobs", body, delivery=mode, priority=body == "3")
    got = ada.take()
    for _ in range(6):
        ada.give_back(*got)
        site.wait(10)
        got = ada.take()
        assert "".join(g.body for g in got) == "301245"


def test_what_comes_back_goes_to_others_in_its_order(site: RouterSite) -> None:
    send(site, *"0123")
    ada = site.login("ada").subscribe("jobs")
    bob = site.login("bob").subscribe("jobs")
    ada.close()
    assert bob.bodies() == ["0", "1", "2", "3"]


def test_what_is_rejected_is_buried_at_once(site: RouterSite) -> None:
    send(site, "bad", "good")
    ada = site.login("ada").subscribe("jobs")
    bad, good = ada.take()
    ada.give_back(bad, reason="no such customer", outcome="rejected")
    ada.give_back(good, outcome="released")
    assert [(g.body, g.attempt) for g in ada.take()] == [("good", 1)]
    dead = site.login("ops").subscribe("dead.jobs").one()
    assert dict(dead.message.others)["Dead-Reason"] == "no such customer"


def test_what_is_withheld_is_due_to_the_others_alone_also_after_a_restart(site: RouterSite) -> None:
    pub, ada, bob = (site.login(name) for name in ("pub", "ada", "bob"))
    pub.subscribe(pub.address)
    for each in (ada, bob):
        each.subscribe("news")
    smuid = pub.publish("news", "1", receipt="ALL")
    ada.give_back(ada.one(), reason="not for ada", outcome="withheld")
    assert not ada.take()
    assert site.fate(smuid)[-1] == "returned"
    site.restart()
    ada, bob = (site.login(name).subscribe("news") for name in ("ada", "bob"))
    assert not ada.take()
    bob.commit(bob.one())
    assert site.fate(smuid).count("committed!") == 1
    assert site.login("pub").subscribe(pub.address).receipts() == ["1/2"]


def test_what_is_withheld_from_all_ends_and_nobody_has_it(site: RouterSite) -> None:
    ada = site.login("ada").subscribe("news")
    smuid = site.login("pub").publish("news", "1")
    ada.give_back(ada.one(), outcome="withheld")
    assert site.fate(smuid)[-2:] == ["returned", "expired!"]
    assert site.held == 0


def test_what_is_for_one_and_withheld_goes_to_another(site: RouterSite) -> None:
    send(site, "job")
    ada = site.login("ada").subscribe("jobs")
    got = ada.one()
    bob = site.login("bob").subscribe("jobs")
    ada.give_back(got, outcome="withheld")
    assert [each.attempt for each in bob.take()] == [1]


def test_the_wait_before_a_message_comes_again_is_a_setting() -> None:
    site = RouterSite(redelivery_wait_s=0.0)
    send(site, "a")
    ada = site.login("ada").subscribe("jobs")
    for attempt in range(1, 10):
        got = ada.one()
        assert got.attempt == attempt
        ada.give_back(got)


@pytest.mark.parametrize("lost", [True, False])
def test_who_leaves_is_given_nothing_of_what_it_leaves(site: RouterSite, *, lost: bool) -> None:
    """Nor by another subscription of its own, which would fail in it, too."""
    send(site, "a")
    ada = site.login("ada")
    ada.subscribe("jobs", name="one").subscribe("jobs", name="two")
    assert ada.bodies() == ["a"]
    ada.close(lost=lost)
    assert [g.attempt for g in site.login("bob").subscribe("jobs").take()] == [2 if lost else 1]
